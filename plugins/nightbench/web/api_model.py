"""The base of all answers of the JSON API, and values that may be damaged in the warehouse."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Generic, Self, TypeVar

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError, WrapValidator
from pydantic_core import to_json

from nightbench.core.printable import without_controls

log = logging.getLogger(__name__)
T = TypeVar("T")


def readable(read: Callable[[Any], T], rows: Iterable[Any]) -> list[T]:
    """Return what is read of rows; one whose JSON cannot be read is logged and left out."""
    found = []
    for row in rows:
        try:
            found.append(read(row))
        except ValidationError as error:
            log.warning("left out: %s", without_controls(str(error)))
    return found


def first_readable(read: Callable[[Any], T], value: Any, nothing: T | None = None) -> T | None:
    """Return what is read of a value; `nothing` if its JSON cannot be read."""
    return next(iter(readable(read, [value])), nothing)


def or_else(nothing: Any) -> WrapValidator:
    """Return a validator of a field that is stored as JSON: `nothing` if it cannot be read."""
    return WrapValidator(lambda value, read: first_readable(read, value, nothing))


Word = Annotated[str, or_else("")]
"""Text that a row has of its JSON; empty if it has none."""
Figures = Annotated[dict[str, float] | None, or_else(None)]
"""Values by name, as another program printed them."""


class JsonAnswer(JSONResponse):
    """JSON with null for NaN and infinity."""

    def render(self, content: Any) -> bytes:
        """Return the text."""
        return to_json(content, inf_nan_mode="null")


class ApiModel(BaseModel):
    """An answer, or a part of one; its fields are keys that scripts may rely on."""

    model_config = ConfigDict(frozen=True)

    @classmethod
    def of(cls, row: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
        """Make one from rows of the warehouse, its parts too; further columns are left out."""
        return cls.model_validate({**(row or {}), **more})


class Items(ApiModel, Generic[T]):
    """A list."""

    items: list[T]


class Page(ApiModel):
    """A page of a list."""

    total: int
    """Number of items on all pages."""
    page: int
    size: int


class ApiError(ApiModel):
    """The answer of every request that fails."""

    detail: str
    """Description of the error, for people."""
