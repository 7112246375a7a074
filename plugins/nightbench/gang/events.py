"""What a caller hears while a gang is prepared and steered, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nightbench.core.model import CaseStatus


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


@dataclass(frozen=True)
class RepeatOutcome:
    """How a repeat ended."""

    repeat: int
    status: str
    """ok, failed, aborted, or disturbed: measured, but not counted."""
    reason: str | None = None
    throughput: float | None = field(default=None, compare=False)
    """Where the caller says how it is found, for an adaptive protocol."""
    seconds: float | None = field(default=None, compare=False)
    """From its claim to its record."""
    faults: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Node -> what was wrong with it as a node: unreachable, rebooted, ..."""
    missing: tuple[str, ...] = field(default=(), compare=False)
    """Nodes whose result could not be had."""

    @classmethod
    def from_record(
        cls, repeat: int, record: Mapping[str, Any], throughput: float | None
    ) -> RepeatOutcome:
        """From the controller.json of the repeat."""
        ends = [record.get("started_at"), record.get("ended_at")]
        began, ended = (datetime.fromisoformat(d) if d else None for d in ends)
        return cls(
            repeat,
            record["status"],
            record.get("reason"),
            throughput,
            (ended - began).total_seconds() if began and ended else None,
            dict(record.get("faults") or {}),
            tuple(record.get("missing") or ()),
        )

    @property
    def failed(self) -> bool:
        """Whether it was neither measured nor disturbed."""
        return self.status not in ("ok", "disturbed")


@dataclass(frozen=True)
class CaseOutcome:
    """How a case ended; what outcome.json holds."""

    status: CaseStatus
    reason: str | None
    repeats: tuple[RepeatOutcome, ...]
    ended_at: str
    faults: Mapping[str, str] = field(default_factory=dict)
    """Node -> its fault, of a case that failed because of a node."""

    def to_json(self) -> dict[str, Any]:
        """The outcome.json document."""
        return {
            "status": str(self.status),
            "reason": self.reason,
            "repeats": [
                {"repeat": r.repeat, "status": r.status, "reason": r.reason} for r in self.repeats
            ],
            "ended_at": self.ended_at,
            **node_faults(self.faults),
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
            faults={n: d["fault"] for n, d in (document.get("nodes") or {}).items()},
        )


def node_faults(faults: Mapping[str, str]) -> dict[str, Any]:
    """Faults of nodes as outcome.json has them; nothing where there are none."""
    return {"nodes": {node: {"fault": said} for node, said in faults.items()}} if faults else {}
