"""A run as the loader takes it, and its cases as the reader returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nightbench.core.model.cases import Build, Case
from nightbench.core.model.clusters import Cluster
from nightbench.core.model.reasons import Reason
from nightbench.core.model.results import CheckResult, Measurement, RepeatRecord, RepeatSummary
from nightbench.core.model.runs import Run
from nightbench.core.model.verdicts import HistoryPoint
from nightbench.core.model.words import CaseStatus


@dataclass(frozen=True)
class PlannedCase:
    """A case that a run means to measure: one entry of a run's `planned.json`."""

    case: Case
    build: Build
    definition_digest: str = ""
    unit: str | None = None
    """Unit of work counted; kept here too, so that a missing case still has one."""
    left_out: Reason | None = None
    """Why the night had no room for it; None where it is to be measured."""
    private_build: bool = False
    """The build was named for this run alone: it belongs to no history but its own."""
    untried: str | None = None
    """Why nobody had run this mode of the line on such devices before; None where it was tried."""
    flops_per_unit: float | None = None
    """Model FLOPs of one unit of work, forward and backward; None where the workload states none.
    """
    tokens_per_unit: float | None = None
    """Tokens of one unit of work; None where it is none of a language model."""

    @property
    def case_id(self) -> str:
        """Slug of the case."""
        return self.case.case_id


@dataclass(frozen=True)
class RepeatBundle:
    """One launch of the gang and its numbers; None where it could not be summarised."""

    record: RepeatRecord
    summary: RepeatSummary | None = None


@dataclass(frozen=True)
class CaseBundle:
    """All that came back of one case in one generation."""

    case: Case
    generation: int
    status: CaseStatus
    reasons: tuple[Reason, ...] = ()
    repeats: tuple[RepeatBundle, ...] = ()
    measurement: Measurement | None = None
    """None where the case ended before anything could be summarised."""
    checks: tuple[CheckResult, ...] = ()
    """On repeats and on the measurement; those of `measurement.checks` may be repeated here."""
    elapsed_s: float | None = None
    """Seconds from preparing to the last repeat; estimates are made from it."""


@dataclass(frozen=True)
class RunBundle:
    """A run as it came back: what `RunRepository.load` stores in one transaction."""

    run: Run
    planned: tuple[PlannedCase, ...]
    cases: tuple[CaseBundle, ...]
    """Cases that came back, in any state; a planned case that is not here is missing."""
    fingerprints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fingerprint id -> the node's document (nightbench.fingerprint/1)."""
    cluster: Cluster | None = None
    """Fills `marts.dim_cluster`."""


@dataclass(frozen=True)
class MeasuredCase:
    """How one planned case of a run stands in the warehouse."""

    case_id: str
    status: CaseStatus | None
    """None: nothing came back (missing)."""
    reasons: tuple[Reason, ...]
    """Why it did not end well."""
    quarantine_reasons: tuple[Reason, ...]
    """The checks that it failed; empty where it counts."""
    point: HistoryPoint | None
    """The median, where there is one that counts: status ok and not quarantined."""
