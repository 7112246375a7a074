"""What was seen of a node, and what is to be said of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nightbench.core.model import ClockOffset, Reason, ReasonCode


class FindingLevel(StrEnum):
    """How much a finding matters."""

    INFO = "info"
    """Worth knowing; nothing is wrong."""
    WARN = "warn"
    """Somebody should look; the node is measured on."""
    FAIL = "fail"
    """Nothing is measured on the node until it is mended."""


_ORDER = (FindingLevel.INFO, FindingLevel.WARN, FindingLevel.FAIL)


@dataclass(frozen=True)
class Finding:
    """One thing about a node."""

    level: FindingLevel
    what: str
    """What was looked at, in a word or two: `disk`, `clock`, `throttle`."""
    found: str
    expected: str
    advice: str
    """What to do about it."""
    device: str | None = None
    """The device that it is about: `GPU 3`; None where it is about the node."""

    @property
    def title(self) -> str:
        """What was looked at and where, for people: `GPU 3 throttle`."""
        return f"{self.device} {self.what}" if self.device else self.what

    def to_json(self) -> dict[str, Any]:
        """As it lies in the spool and the warehouse."""
        return {**vars(self), "level": str(self.level)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Finding:
        """The inverse of `to_json`."""
        return cls(**{**document, "level": FindingLevel(document["level"])})


def worst(findings: Iterable[Finding]) -> FindingLevel | None:
    """The level of the gravest finding; None where there is none."""
    return max((f.level for f in findings), key=_ORDER.index, default=None)


@dataclass(frozen=True)
class NodePreflight:
    """What a look at one node brought."""

    node: str
    address: str
    """`host:port`."""
    at: str
    """When, by the controller's clock (UTC, ISO-8601)."""
    reachable: bool
    document: Mapping[str, Any] | None = None
    """nightbench.preflight/1; None where the agent could not look."""
    problem: Reason | None = None
    """Why it could not: `node_unreachable`, `host_key_rejected`, `login_refused`, ..."""
    clock: ClockOffset | None = None
    """The node's monotonic clock minus the controller's."""
    wall: ClockOffset | None = None
    """The node's wall clock minus the controller's."""
    swept: tuple[Mapping[str, Any], ...] = ()
    """Orphans of ours that were ended before the look."""

    @property
    def wall_error_s(self) -> float | None:
        """How far the node's wall clock is off, certainly: less what the measurement leaves."""
        if self.wall is None:
            return None
        return max(0.0, abs(self.wall.offset_s) - self.wall.error_s)

    def to_json(self) -> dict[str, Any]:
        """As it lies in the spool."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> NodePreflight:
        """The inverse of `to_json`."""
        fields = dict(document)
        problem = fields["problem"]
        fields["problem"] = Reason.from_json(problem) if problem else None
        for name in ("clock", "wall"):
            fields[name] = ClockOffset(**fields[name]) if fields[name] else None
        return cls(**{**fields, "swept": tuple(fields["swept"])})


@dataclass(frozen=True)
class JudgedNode:
    """A look at a node with what it means."""

    seen: NodePreflight
    findings: tuple[Finding, ...]

    @property
    def level(self) -> FindingLevel | None:
        """The gravest finding's."""
        return worst(self.findings)

    @property
    def fault(self) -> Reason | None:
        """Why nothing may be measured on it; None where something may."""
        failed = next((f for f in self.findings if f.level is FindingLevel.FAIL), None)
        if failed is None:
            return None
        code, node = ReasonCode.PREFLIGHT_FAILED, self.seen.node
        return Reason(code, node, failed.title, failed.found, failed.expected)
