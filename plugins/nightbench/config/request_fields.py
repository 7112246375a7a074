"""Fields of requests. A request's class gives reader, form, and the help of options."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, WithJsonSchema
from pydantic.fields import FieldInfo

from nightbench.config.validate import fields_of
from nightbench.core.complaints import describe, one_of
from nightbench.core.errors import UserError

MOST_NAMES = 2000
"""Entries of one field: a suite has no more cases."""


def option(title: str, section: str | None = None, **limits: Any) -> Any:
    """A field that people may set, with its title and its section in a form; `limits` of `Field`.

    `of_person` reads it; a field without a title is the program's.
    """
    extra: Any = {"section": section} if section else None
    return Field(title=title, json_schema_extra=extra, **limits)


def options_of(request: Any) -> dict[str, FieldInfo]:
    """Return the fields of a request that people may set, by name."""
    return {name: field for name, field in fields_of(request).items() if field.title}


def described(request: Any, name: str, more: str = "") -> str:
    """Return what a field means, as help of an option."""
    return f"{fields_of(request)[name].description} {more}".strip()


def schema_of(request: Any, required: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of a body: fields that people may set; empty ones have defaults."""
    known = TypeAdapter(request).json_schema()["properties"]
    empty: dict[str, Any] = {"enum": [None, "", []]}
    return {
        "type": "object",
        "properties": {
            name: {"anyOf": [known[name], empty], "description": field.description}
            for name, field in options_of(request).items()
        },
        "required": [*required],
        "additionalProperties": False,
    }


def refuse_unknown(params: Iterable[str], *requests: Any) -> None:
    """Refuse a param that is a field of none of the requests.

    Raises:
        UserError: it names the field that was meant.
    """
    known = [name for request in requests for name in options_of(request)]
    for name in sorted(set(params).difference(known)):
        raise UserError(f"{name[:80]}: {one_of(name, known)}")


def given(request: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return those params that are fields of a request which people may set."""
    return {name: params[name] for name in options_of(request) if name in params}


def _line(longest: int) -> Callable[[str], str]:
    def check(value: str) -> str:
        if len(value) > longest or not value.isprintable():
            raise ValueError(f"found {describe(value)}; expected a line of at most {longest}")
        return value

    return check


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"found {describe(value)}; expected a name")
    return value.strip() or None if value else None


def _suite(value: Any) -> str:
    if (name := _text(value)) is None:
        raise ValueError("found nothing; expected the name of a suite")
    return name


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if value and isinstance(value, str) else value or ()
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
        raise ValueError(f"found {describe(value)}; expected a list of names")
    if len(names) > MOST_NAMES:
        raise ValueError(f"found {len(names)} entries; expected no more than {MOST_NAMES}")
    if not all(each.strip() for each in names):
        raise ValueError("found an empty name; expected a list of names, or no list to select all")
    return tuple(each.strip() for each in names)


Line = Annotated[str, AfterValidator(_line(2000))]
Short = Annotated[str, AfterValidator(_line(200))]
Text = Annotated[str | None, BeforeValidator(_text)]
SuiteName = Annotated[str, BeforeValidator(_suite)]
Names = Annotated[tuple[Line, ...], BeforeValidator(_names)]
_PAIR = WithJsonSchema({"type": "string", "pattern": "^[^=]+=.+$"})
Pairs = Annotated[tuple[Annotated[Line, _PAIR], ...], BeforeValidator(_names)]
Switch = Annotated[bool, Field(strict=True)]
