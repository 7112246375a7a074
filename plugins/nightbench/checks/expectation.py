"""Defines a check: one Great Expectations expectation with its severity and its text.

The tables in `repeats.py` and `measurements.py` are made of `Check` entries. Each names a
frame and a column of it, and the values of that column that are expected.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nightbench.core.model import Case, JobSpec, Process, Protocol, Severity, Strategy, WorkloadInfo

FINITE = sys.float_info.max
"""Upper bound of finite numbers."""


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


Expectation = Callable[[Any, CheckContext], Any]
"""`(great_expectations.expectations, context)` -> expectation."""

Words = str | Callable[[CheckContext], str]


def always(context: CheckContext) -> bool:
    """The check applies to every case."""
    return True


@dataclass(frozen=True)
class Check:
    """One expectation about one column of one frame."""

    name: str
    severity: Severity
    frame: str
    column: str
    expects: Expectation
    expected: Words
    """The expectation as text."""
    show: str = "{}"
    """Format of a value of the column."""
    applies: Callable[[CheckContext], bool] = always
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


Limit = float | Callable[[CheckContext], float]


def _value(limit: Limit | None, context: CheckContext) -> float | None:
    return limit(context) if callable(limit) else limit


def at_least(column: str, limit: Limit) -> Expectation:
    """Values are at least `limit`; nulls are left to other checks."""
    return lambda gxe, context: gxe.ExpectColumnValuesToBeBetween(
        column=column, min_value=_value(limit, context)
    )


def at_most(column: str, limit: Limit) -> Expectation:
    """Values are at most `limit`; nulls are left to other checks."""
    return lambda gxe, context: gxe.ExpectColumnValuesToBeBetween(
        column=column, max_value=_value(limit, context)
    )


def positive(column: str) -> Expectation:
    """Values are greater than zero and finite; nulls are left to other checks."""
    return lambda gxe, context: gxe.ExpectColumnValuesToBeBetween(
        column=column, min_value=0, strict_min=True, max_value=FINITE
    )


def present(column: str) -> Expectation:
    """Values are not null."""
    return lambda gxe, context: gxe.ExpectColumnValuesToNotBeNull(column=column)


def one_of(column: str, values: Callable[[CheckContext], list[Any]]) -> Expectation:
    """Values are among those that the context allows; nulls are left to other checks."""
    return lambda gxe, context: gxe.ExpectColumnValuesToBeInSet(
        column=column, value_set=values(context)
    )


def nothing(column: str) -> Expectation:
    """The column lists what is wrong, as text, and is empty."""
    return lambda gxe, context: gxe.ExpectColumnValuesToBeInSet(column=column, value_set=[""])
