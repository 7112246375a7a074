"""What is known of an alert beside its verdict: whether it was confirmed, and what caused it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CauseKind(StrEnum):
    """What a change is put down to."""

    NODE = "node"
    NEIGHBOUR = "neighbour"
    THERMAL = "thermal"
    DRIVER = "driver"
    FRAMEWORK_VERSION = "framework_version"
    BENCHMARK_CODE = "benchmark_code"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Cause:
    """Why a series changed, by evidence."""

    kind: CauseKind
    sentence: str
    """One sentence: what points there."""
    evidence: tuple[str, ...] = ()
    """All that was looked at and said something, a sentence each; what speaks against it too."""
    group: str = ""
    """Alerts of one night and cluster with the same group have one cause; empty: on its own."""


class ConfirmationResult(StrEnum):
    """What measuring a suspect again said."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not_confirmed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Confirmation:
    """The end of a paired confirmation."""

    outcome: ConfirmationResult
    sentence: str
    """One sentence: what was compared, on which nodes, what came out."""
    ratio: float | None = None
    """Candidate / last good, throughput."""
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    """Pairs that counted."""
