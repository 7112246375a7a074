"""What a caller hears while a gang is prepared and steered, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nightbench.model import CaseStatus


@dataclass(frozen=True)
class GangEvent:
    """Something worth a line in a log."""

    kind: str
    """connect, ship, provision, epoch, agent, waiting, repeat, lost, back, outcome, cancel."""
    message: str
    node: str | None = None
    repeat: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


OnEvent = Callable[[GangEvent], None]


def ignore(event: GangEvent) -> None:
    """For callers that do not listen."""


@dataclass(frozen=True)
class RepeatOutcome:
    """How a repeat ended."""

    repeat: int
    status: str
    """ok, failed or aborted."""
    reason: str | None = None


@dataclass(frozen=True)
class CaseOutcome:
    """How a case ended; what outcome.json holds."""

    status: CaseStatus
    reason: str | None
    repeats: tuple[RepeatOutcome, ...]
    ended_at: str

    def to_json(self) -> dict[str, Any]:
        """The outcome.json document."""
        return {
            "status": str(self.status),
            "reason": self.reason,
            "repeats": [
                {"repeat": r.repeat, "status": r.status, "reason": r.reason} for r in self.repeats
            ],
            "ended_at": self.ended_at,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> CaseOutcome:
        """The inverse of `to_json`."""
        return cls(
            status=CaseStatus(document["status"]),
            reason=document["reason"],
            repeats=tuple(
                RepeatOutcome(r["repeat"], r["status"], r["reason"]) for r in document["repeats"]
            ),
            ended_at=document["ended_at"],
        )
