"""What a caller hears while a gang is prepared and steered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class GangEvent:
    """Something worth a line in a log."""

    kind: str
    """connect, ship, provision, epoch, agent, sweep, waiting, repeat, lost, back, outcome or
    cancel."""
    message: str
    node: str | None = None
    repeat: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


OnEvent = Callable[[GangEvent], None]


def ignore(event: GangEvent) -> None:
    """For callers that do not listen."""
