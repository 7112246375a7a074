"""How often a suite launches a case: a number, or until the interval is narrow enough."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from nightbench.config import values as v
from nightbench.config.source import describe
from nightbench.config.validate import StrictModel

_ADAPTIVE = "{min: 5, max: 15, confidence: 1%}"


def _enough(value: int) -> int:
    if value < 5:
        raise ValueError(
            f"found {value}; expected at least 5: the interval of fewer repeats is narrow by luck, "
            "and whoever stops then stops too early"
        )
    return value


class RepeatsFile(StrictModel):
    """As many launches as it takes: until the interval of their median is narrow enough."""

    min: Annotated[int, AfterValidator(_enough), v.Words("whole number, at least 5")] = 5
    """Good repeats before the interval is looked at."""
    max: v.Count = 15
    """Repeats after which it ends as it is."""
    confidence: v.Percentage | None = None
    """No more repeats once the relative 95 % half-width is at most this; always to be given."""

    def __str__(self) -> str:
        """As it would be written."""
        return str(self.max) if self.confidence is None else f"at most {self.max}"


def _repeats(value: Any) -> Any:
    """A number means exactly so many; a mapping means as many as it takes."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"found {value}; expected a number of at least 1")
        return RepeatsFile.model_construct(min=value, max=value, confidence=None)
    if isinstance(value, RepeatsFile):
        return value
    if not isinstance(value, dict):
        raise ValueError(f"found {describe(value)}; expected 7, or {_ADAPTIVE}")
    if "confidence" not in value:
        raise ValueError(f"found no confidence; expected {_ADAPTIVE}")
    return value


def _in_order(value: RepeatsFile) -> RepeatsFile:
    if value.max < value.min:
        raise ValueError(f"found max {value.max} below min {value.min}; expected {_ADAPTIVE}")
    return value


Repeats = Annotated[
    RepeatsFile,
    BeforeValidator(_repeats),
    AfterValidator(_in_order),
    v.Words("whole number, or a mapping, see below"),
]
