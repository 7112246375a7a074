"""Defines checks, functions of a subject and what they are to return, and runs tables of them.

The tables in `repeats.py` and `measurements.py` are made of `Check` entries, which Great
Expectations runs on all their subjects at once: a frame for each kind of subject.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nightbench.core.model import (
    Case,
    CheckResult,
    JobSpec,
    Process,
    Protocol,
    RankResult,
    ReferenceLosses,
    RepeatRecord,
    RepeatSummary,
    Severity,
    Strategy,
    WorkloadInfo,
)

if TYPE_CHECKING:
    import pandas as pd


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
    losses: ReferenceLosses | None = None
    """Losses of the first steps that the workload states for the case's scale and batch."""
    has_dropout: bool = False
    has_experts: bool = False
    """Layers choose between experts for each token."""
    converges: bool = False
    """The workload's loss is proved to fall within the protocol at this scale."""
    shared: bool = False
    """The cluster's nodes share hardware: spread and drift only warn."""
    requested_version: str | None = None
    """Framework version that the build names; None for the locked one."""
    transport: str | None = None
    """Transport of gradients that the cluster declares; None without a declaration."""
    power_limit_w: float | None = None
    """Most that the devices of all trainers may draw together, W; None where it is not known."""
    acceptance: bool = False
    """It tries a mode."""
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
            losses=workload.losses and workload.losses.of(job.case),
            has_dropout=bool(scale.get("dropout")),
            has_experts="experts" in scale,
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
    fails_acceptance: bool = False
    """A warning elsewhere, it refuses a mode that is tried on nodes that share nothing."""
    from_rank: bool = False
    """It needs what only a rank of ours states; of a log it is recorded as not stated."""
    of_failed: bool = False
    """True for checks that also run on repeats that failed; others would only repeat that."""

    def severity_in(self, context: CheckContext) -> Severity:
        """Return the severity on the context's cluster."""
        if self.warns_when_shared and context.shared:
            return Severity.WARN
        if self.fails_acceptance and context.acceptance and not context.shared:
            return Severity.FAIL
        return self.severity

    def expected_in(self, context: CheckContext) -> str:
        """Return the expectation of the context's case as text."""
        return self.expected if isinstance(self.expected, str) else self.expected(context)


# --- running them ----------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckedRow:
    """One subject of checks, and where it was found."""

    repeat: int | None
    """None for a measurement, which covers all repeats."""
    process: str
    """Empty for a repeat or a measurement."""
    subject: Any


NOT_STATED = "not stated"
"""Observed by a check that needs what the log of a command does not say."""

_SHOWN = 3
"""Values that a result lists; the rest is counted."""


@functools.cache
def _great_expectations() -> tuple[Any, Any]:
    """Return the package and a batch definition for frames, made once for each process."""
    # Read while the package is imported: it posts usage events to a public host otherwise.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with warnings.catch_warnings():
        # Deprecations inside Great Expectations are not the user's to mend.
        warnings.simplefilter("ignore")
        # Before the import: it logs everything that it decorates, at INFO.
        logging.getLogger("great_expectations").setLevel(logging.WARNING)
        import great_expectations as gx
        from great_expectations.data_context.types.base import ProgressBarsConfig

        logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        source = context.data_sources.add_pandas("nightbench")
        asset = source.add_dataframe_asset("frame")
        return gx, asset.add_batch_definition_whole_dataframe("whole")


def hold(
    subject: str,
    checks: Sequence[Check],
    rows: Mapping[str, Sequence[CheckedRow]],
    context: CheckContext,
    failed: frozenset[int | None] = frozenset(),
) -> list[CheckResult]:
    """Return one result for each check and repeat, ordered by repeat and then as in the table.

    `rows` holds the subjects by their kind; those of the kind `subject` name all repeats. `failed`
    are those that did not end well. A check that needs what only a rank of ours states neither
    passes nor fails where figures are read from a log: it warns that they are not stated.
    """
    unstated = [check for check in checks if check.from_rank and context.from_log]
    applicable = [check for check in checks if check.applies(context) and check not in unstated]
    frames: dict[str, pd.DataFrame] = {}
    bad: dict[str, dict[int | None, list[tuple[str, Any]]]] = {}
    for kind, subjects in rows.items():
        of_kind = [check for check in applicable if check.of == kind]
        if of_kind and subjects:
            frames[kind] = _frame(of_kind, subjects, context)
            bad |= _unexpected(of_kind, frames[kind], context)

    results = []

    def add(check: Check, repeat: int | None, severity: Severity, success: bool, seen: str) -> None:
        expected = check.expected_in(context)
        results.append(CheckResult(subject, repeat, check.name, severity, success, seen, expected))

    for repeat in [row.repeat for row in rows[subject]]:
        for check in applicable:
            if check.of not in frames or (repeat in failed and not check.of_failed):
                continue
            frame = frames[check.of]
            seen = frame if repeat is None else frame[frame["repeat"] == repeat]
            if not len(seen):
                continue  # No rank or step: another check reports that they are missing.
            found = bad.get(check.name, {}).get(repeat, [])
            said = _bad_words(check, found) if found else _good_words(check, seen)
            add(check, repeat, check.severity_in(context), not found, said)
        for check in unstated if repeat not in failed else ():
            if check.applies(context):
                add(check, repeat, Severity.WARN, False, NOT_STATED)
    return results


def _frame(
    checks: Sequence[Check], rows: Sequence[CheckedRow], context: CheckContext
) -> pd.DataFrame:
    """Return a row for each subject: where it was found, and a column with the value of a check."""
    import pandas as pd

    columns = {
        "repeat": pd.Series([row.repeat for row in rows], dtype="float64"),
        "process": pd.Series([row.process for row in rows], dtype="object"),
    }
    for check in checks:
        values = [check.value(context, row.subject) for row in rows]
        dtype = "object" if check.expects.of_text else "float64"
        columns[check.name] = pd.Series(values, dtype=dtype)
    return pd.DataFrame(columns)


def _unexpected(
    checks: Sequence[Check], frame: pd.DataFrame, context: CheckContext
) -> dict[str, dict[int | None, list[tuple[str, Any]]]]:
    """Return check -> repeat -> (process, value) of every row that is not as expected."""
    gx, batch_definition = _great_expectations()
    expectations = []
    for check in checks:
        expectation = check.expects.make(gx.expectations, check.name, context)
        expectation.meta = {"check": check.name}
        expectations.append(expectation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # As above.
        outcome = batch_definition.get_batch(batch_parameters={"dataframe": frame}).validate(
            gx.ExpectationSuite(name="suite", expectations=expectations),
            result_format={
                "result_format": "COMPLETE",
                "unexpected_index_column_names": ["repeat", "process"],
            },
        )
    bad: dict[str, dict[int | None, list[tuple[str, Any]]]] = {}
    for result in outcome.results:
        name = result.expectation_config.meta["check"]
        if result.success:
            continue
        rows = result.result.get("unexpected_index_list")
        if not rows:
            raise RuntimeError(f"check {name} could not be evaluated: {result.exception_info}")
        places: dict[int | None, list[tuple[str, Any]]] = defaultdict(list)
        for row in rows:
            places[_plain(row["repeat"])].append((row["process"], row[name]))
        bad[name] = places
    return bad


def _plain(value: Any) -> int | None:
    """Return a repeat's number; None for measurements, which pandas writes as NaN."""
    return None if value is None or value != value else int(value)


def _written(check: Check, value: Any) -> str:
    if value is None or value != value:
        return "none"
    return check.show.format(value)


def _bad_words(check: Check, found: Sequence[tuple[str, Any]]) -> str:
    words = [
        f"{process}: {_written(check, value)}" if process else _written(check, value)
        for process, value in found[:_SHOWN]
    ]
    more = len(found) - _SHOWN
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def _good_words(check: Check, rows: pd.DataFrame) -> str:
    values = rows[check.name].dropna()
    if not len(values):
        return "none"
    low, high = _written(check, values.min()), _written(check, values.max())
    if low == high:
        return low or "nothing amiss"
    return f"{low} to {high}"
