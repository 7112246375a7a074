"""How repeats and cases ended: what controller.json and outcome.json hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nightbench.core.model import CaseStatus, Reason, reasons_from_json, reasons_to_json
from nightbench.core.sentences import sentences
from nightbench.spool.documents import utc_now


@dataclass(frozen=True)
class RepeatOutcome:
    """How a repeat ended."""

    repeat: int
    status: str
    """ok, failed, aborted, or disturbed: measured, but not counted."""
    reasons: tuple[Reason, ...] = ()
    """Why it does not count; empty where it does."""
    throughput: float | None = field(default=None, compare=False)
    """Where the caller says how it is found, for an adaptive protocol."""
    seconds: float | None = field(default=None, compare=False)
    """From its claim to its record."""
    faults: tuple[Reason, ...] = field(default=(), compare=False)
    """What was wrong with nodes as nodes: unreachable, rebooted, ..."""
    missing: tuple[str, ...] = field(default=(), compare=False)
    """Nodes whose result could not be had."""

    @classmethod
    def from_record(
        cls, repeat: int, record: Mapping[str, Any], throughput: float | None = None
    ) -> RepeatOutcome:
        """From the controller.json of the repeat."""
        ends = [record.get("started_at"), record.get("ended_at")]
        began, ended = (datetime.fromisoformat(d) if d else None for d in ends)
        return cls(
            repeat,
            record["status"],
            reasons_from_json(record["reasons"]),
            throughput,
            (ended - began).total_seconds() if began and ended else None,
            reasons_from_json(record["faults"]),
            tuple(record.get("missing") or ()),
        )

    @property
    def why(self) -> str:
        """The reasons in one line, for people; empty where there is none."""
        return sentences(self.reasons)

    @property
    def failed(self) -> bool:
        """Whether it was neither measured nor disturbed."""
        return self.status not in ("ok", "disturbed")


@dataclass(frozen=True)
class CaseOutcome:
    """How a case ended; what outcome.json holds."""

    status: CaseStatus
    reasons: tuple[Reason, ...]
    repeats: tuple[RepeatOutcome, ...] = ()
    ended_at: str = field(default_factory=utc_now)
    faults: tuple[Reason, ...] = ()
    """Faults of nodes, of a case that failed because of them."""

    @property
    def why(self) -> str:
        """The reasons in one line, for people; empty where there is none."""
        return sentences(self.reasons)

    def to_json(self) -> dict[str, Any]:
        """The outcome.json document."""
        return {
            "status": str(self.status),
            "reasons": reasons_to_json(self.reasons),
            "repeats": [
                {"repeat": r.repeat, "status": r.status, "reasons": reasons_to_json(r.reasons)}
                for r in self.repeats
            ],
            "ended_at": self.ended_at,
            "faults": reasons_to_json(self.faults),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> CaseOutcome:
        """The inverse of `to_json`."""
        return cls(
            status=CaseStatus(document["status"]),
            reasons=reasons_from_json(document["reasons"]),
            repeats=tuple(
                RepeatOutcome(r["repeat"], r["status"], reasons_from_json(r["reasons"]))
                for r in document["repeats"]
            ),
            ended_at=document["ended_at"],
            faults=reasons_from_json(document["faults"]),
        )
