"""Defines a check: a function of one subject, and what it is expected to return.

The tables in `repeats.py` and `measurements.py` are made of `Check` entries, which Great
Expectations runs on all their subjects at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.core.model import (
    Case,
    JobSpec,
    Process,
    Protocol,
    RankResult,
    RepeatRecord,
    RepeatSummary,
    Severity,
    Strategy,
    WorkloadInfo,
)


@dataclass(frozen=True)
class CheckContext:
    """What a result is compared with: the plan of its case."""

    case: Case
    protocol: Protocol
    processes: tuple[Process, ...]
    """All processes that were planned, parameter servers included."""
    unit: str
    units_per_trainer_step: int | None
    """None where the run finds its batch."""
    parameters: int | None = None
    """Trainable parameters of the workload at this scale, where it fixes them."""
    converges: bool = False
    """The workload's loss is proved to fall within the protocol at this scale."""
    shared: bool = False
    """The cluster's nodes share hardware: spread and drift only warn."""
    requested_version: str | None = None
    """Framework version that the build names; None for the locked one."""
    transport: str | None = None
    """Transport of gradients that the cluster declares; None without a declaration."""

    from_log: bool = False
    """Its figures are read from the log of a command, which proves less than a rank of ours."""

    @classmethod
    def of(cls, job: JobSpec, workload: WorkloadInfo, *, shared: bool) -> CheckContext:
        """Return the context of a resolved case."""
        scale = workload.scales.get(job.case.scale, {})
        return cls(
            case=job.case,
            protocol=job.protocol,
            processes=job.processes,
            unit=job.unit,
            units_per_trainer_step=job.units_per_trainer_step,
            parameters=scale.get("parameters", workload.parameters),
            converges=bool(scale.get("converges", False)),
            shared=shared,
            requested_version=job.build.version,
            transport=job.transport,
            from_log=job.from_log,
        )

    @property
    def trainers(self) -> tuple[Process, ...]:
        """The planned processes that measure."""
        return tuple(p for p in self.processes if p.measured)

    @property
    def asynchronous(self) -> bool:
        """True where trainers do not wait for each other."""
        return self.case.strategy is Strategy.PARAMETER_SERVER and self.case.sync != "sync"


@dataclass(frozen=True)
class Repeat:
    """A repeat with what its measuring trainers returned."""

    record: RepeatRecord
    summary: RepeatSummary
    measured: Sequence[RankResult]


@dataclass(frozen=True)
class Expectation:
    """What the values of a check have to be, as Great Expectations judges them row by row."""

    make: Callable[[Any, str, CheckContext], Any]
    """`(great_expectations.expectations, column, context)` -> expectation."""
    of_text: bool = False
    """The values are text; else numbers."""


Limit = float | Callable[[CheckContext], float]


def _between(low: Limit | None = None, high: Limit | None = None) -> Expectation:
    def value(limit: Limit | None, context: CheckContext) -> float | None:
        return limit(context) if callable(limit) else limit

    return Expectation(
        lambda gxe, column, context: gxe.ExpectColumnValuesToBeBetween(
            column=column, min_value=value(low, context), max_value=value(high, context)
        )
    )


def at_least(limit: Limit) -> Expectation:
    """Values are at least `limit`; nulls are left to other checks."""
    return _between(low=limit)


def at_most(limit: Limit) -> Expectation:
    """Values are at most `limit`; nulls are left to other checks."""
    return _between(high=limit)


def equal_to(value: Callable[[CheckContext], Any], *, of_text: bool = False) -> Expectation:
    """Values are what the context says; nulls are left to other checks."""
    return Expectation(
        lambda gxe, column, context: gxe.ExpectColumnValuesToBeInSet(
            column=column, value_set=[value(context)]
        ),
        of_text,
    )


POSITIVE = Expectation(
    lambda gxe, column, context: gxe.ExpectColumnValuesToBeBetween(
        column=column, min_value=0, strict_min=True, max_value=sys.float_info.max
    )
)
"""Values are greater than zero and finite; nulls are left to other checks."""

PRESENT = Expectation(lambda gxe, column, context: gxe.ExpectColumnValuesToNotBeNull(column=column))
"""Values are not null."""

NOTHING = equal_to(lambda context: "", of_text=True)
"""The values say what is wrong, as text, and are empty."""


@dataclass(frozen=True)
class Check:
    """One expectation about one value of each subject: a repeat, a rank, a step, a measurement."""

    name: str
    severity: Severity
    of: str
    """What its subjects are: `repeat`, `rank`, `step` or `measurement`."""
    value: Callable[[CheckContext, Any], Any]
    """`(context, subject)` -> value; None where there is none."""
    expects: Expectation
    expected: str | Callable[[CheckContext], str]
    """The expectation as text."""
    show: str = "{}"
    """Format of a value."""
    applies: Callable[[CheckContext], bool] = lambda context: True
    warns_when_shared: bool = False
    from_rank: bool = False
    """It needs what only a rank of ours states; of a log it is recorded as not stated."""
    of_failed: bool = False
    """True for checks that also run on repeats that failed; others would only repeat that."""

    def severity_in(self, context: CheckContext) -> Severity:
        """Return the severity on the context's cluster."""
        if self.warns_when_shared and context.shared:
            return Severity.WARN
        return self.severity

    def expected_in(self, context: CheckContext) -> str:
        """Return the expectation of the context's case as text."""
        return self.expected if isinstance(self.expected, str) else self.expected(context)
