"""The cause of an alert with its evidence, and the result of measuring it again."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from nightbench.core.documents import from_document


class CauseKind(StrEnum):
    """The kinds of causes that a change can have."""

    NODE = "node"
    NETWORK = "network"
    NEIGHBOUR = "neighbour"
    THERMAL = "thermal"
    DRIVER = "driver"
    FRAMEWORK_VERSION = "framework_version"
    BENCHMARK_CODE = "benchmark_code"
    ENVIRONMENT = "environment"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class CauseEvidence:
    """One observation about the cause of a change."""

    text: str
    """A clause without a capital and without a full stop."""
    is_against: bool = False
    """True if it makes the cause less likely."""
    rival: CauseKind | None = None
    """The other possible cause that it concerns; None: the cause that was chosen, or none."""

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """The inverse of `to_document`; JSON that is no evidence is quoted as its text."""
        try:
            return from_document(cls, document)
        except ValueError:
            return cls(f"evidence that cannot be read: {document!r:.100}")


@dataclass(frozen=True)
class Cause:
    """The cause of a change, with its evidence."""

    kind: CauseKind
    sentence: str
    """The main evidence, as one sentence."""
    evidence: tuple[CauseEvidence, ...] = ()
    """All observations, for and against the cause and its rivals."""
    group: str = ""
    """Alerts of one night and cluster with the same group have one cause; empty: on its own."""


class ConfirmationResult(StrEnum):
    """The result of measuring a suspected regression again."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not_confirmed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Confirmation:
    """The result of a paired comparison that confirms or refutes a regression."""

    outcome: ConfirmationResult
    sentence: str
    """One sentence: what was compared, on which nodes, with which result."""
    ratio: float | None = None
    """Throughput of the candidate / that of the last good build, or / baseline for one build."""
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    """Pairs of launches that counted; launches for one build."""
