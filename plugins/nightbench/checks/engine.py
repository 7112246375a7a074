"""Defines checks, functions of a subject and what they are to return, and runs tables of them.

The tables in `repeats.py` and `measurements.py` are made of `Check` entries. Great Expectations
judges all their values at once: a row of one frame for each, with the limits of its check. An
expectation for each check would cost a second of CPU a case, of which the values are the least.
"""

from __future__ import annotations

import functools
import gc
import importlib.machinery
import importlib.util
import logging
import math
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nightbench.core.model import (
    Case,
    CheckResult,
    Cluster,
    Process,
    Protocol,
    RankResult,
    ReferenceLosses,
    RepeatRecord,
    RepeatSummary,
    Severity,
)
from nightbench.core.run_plan import CasePlan
from nightbench.core.summarize import asynchronous


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
    def of(
        cls, plan: CasePlan, protocol: Protocol, cluster: Cluster, **others: Any
    ) -> CheckContext:
        """Return the context of a planned case, with `others` that its plan does not say."""
        own = vars(plan).copy()
        planned = own.pop("planned")
        return cls(
            case=planned.case,
            protocol=protocol,
            unit=planned.unit or "",
            shared=cluster.shared,
            requested_version=planned.build.version,
            transport=cluster.transport,
            **own,
            **others,
        )

    @property
    def trainers(self) -> tuple[Process, ...]:
        """The planned processes that measure."""
        return tuple(p for p in self.processes if p.measured)

    @property
    def asynchronous(self) -> bool:
        """True where trainers do not wait for each other."""
        return asynchronous(self.case)


@dataclass(frozen=True)
class Repeat:
    """A repeat with what its measuring trainers returned."""

    record: RepeatRecord
    summary: RepeatSummary
    measured: Sequence[RankResult]


Limit = float | Callable[[CheckContext], float]


@dataclass(frozen=True)
class Expectation:
    """What the values of a check have to be: within limits, or present; nulls are within."""

    low: Limit | None = None
    high: Limit | None = None
    text: Callable[[CheckContext], str | None] | None = None
    """The values are text, and this one."""
    present: bool = False
    """The values are not null."""

    def row(self, context: CheckContext, value: Any) -> tuple[Any, ...]:
        """Return number, low, high, text and the expected text; null is left out."""
        if self.present:
            return float(not _is_null(value)), 1.0, None, None, None
        if self.text:
            return None, None, None, value, self.text(context)
        low, high = (x(context) if callable(x) else x for x in (self.low, self.high))
        return value, low, high, None, None


def at_least(limit: Limit) -> Expectation:
    """Values are at least `limit`; nulls are left to other checks."""
    return Expectation(low=limit)


def at_most(limit: Limit) -> Expectation:
    """Values are at most `limit`; nulls are left to other checks."""
    return Expectation(high=limit)


def equal_to(value: Callable[[CheckContext], Any], *, of_text: bool = False) -> Expectation:
    """Values are what the context says; nulls are left to other checks."""
    return Expectation(text=value) if of_text else Expectation(low=value, high=value)


POSITIVE = Expectation(low=math.ulp(0.0), high=sys.float_info.max)
"""Values are greater than zero and finite; nulls are left to other checks."""

PRESENT = Expectation(present=True)
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


class _Later:
    """Finds what Great Expectations imports for checks not ours; it runs when it is used."""

    names = ("altair", "boto3", "scipy.stats")

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in cls.names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


@contextmanager
def _light_imports() -> Iterator[None]:
    """Imports in here take 2.2 s of CPU, not 3.6: what makes objects to stay needs no gc."""
    collects = gc.isenabled()
    sys.meta_path.insert(0, _Later)
    gc.disable()
    try:
        yield
    finally:
        sys.meta_path.remove(_Later)
        if collects:
            gc.enable()


@functools.cache
def load_great_expectations() -> tuple[Any, Any]:
    """Return the package and a batch definition for frames, made once for each process."""
    # Read while the package is imported: it posts usage events to a public host otherwise.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with warnings.catch_warnings(), _light_imports():
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
    seen = [
        (check, row, _value(check, context, row))
        for kind, subjects in rows.items()
        for check in applicable
        if check.of == kind
        for row in subjects
    ]
    found: dict[tuple[str, int | None], list[Any]] = defaultdict(list)
    bad: dict[tuple[str, int | None], list[tuple[str, Any]]] = defaultdict(list)
    for (check, row, value), is_bad in zip(seen, _unexpected(seen, context), strict=True):
        found[check.name, row.repeat].append(value)
        if is_bad:
            bad[check.name, row.repeat].append((row.process, value))

    results = []

    def add(check: Check, repeat: int | None, severity: Severity, success: bool, seen: str) -> None:
        expected = check.expected_in(context)
        results.append(CheckResult(subject, repeat, check.name, severity, success, seen, expected))

    for repeat in [row.repeat for row in rows[subject]]:
        for check in applicable:
            here = check.name, repeat
            if here not in found or (repeat in failed and not check.of_failed):
                continue  # No rank or step: another check reports that they are missing.
            said = _bad_words(check, bad[here]) if here in bad else _good_words(check, found[here])
            add(check, repeat, check.severity_in(context), here not in bad, said)
        for check in unstated if repeat not in failed else ():
            if check.applies(context):
                add(check, repeat, Severity.WARN, False, NOT_STATED)
    return results


def _value(check: Check, context: CheckContext, row: CheckedRow) -> Any:
    value = check.value(context, row.subject)
    return value if value is None or check.expects.text else float(value)


def _unexpected(seen: Sequence[tuple[Check, CheckedRow, Any]], context: CheckContext) -> list[bool]:
    """Return of every value whether it is not as expected."""
    if not seen:
        return []
    import pandas as pd

    gx, batch_definition = load_great_expectations()
    rows = [check.expects.row(context, value) for check, _, value in seen]
    frame = pd.DataFrame(rows, columns=["number", "low", "high", "text", "expected"])
    frame = frame.astype(dict.fromkeys(("number", "low", "high"), "float64"))
    frame["row"] = range(len(frame))
    skips = {"ignore_row_if": "either_value_is_missing"}
    greater = gx.expectations.ExpectColumnPairValuesAToBeGreaterThanB
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # As above.
        outcome = batch_definition.get_batch(batch_parameters={"dataframe": frame}).validate(
            gx.ExpectationSuite(
                name="suite",
                expectations=[
                    greater(column_A="number", column_B="low", or_equal=True, **skips),
                    greater(column_A="high", column_B="number", or_equal=True, **skips),
                    gx.expectations.ExpectColumnPairValuesToBeEqual(
                        column_A="text", column_B="expected", **skips
                    ),
                ],
            ),
            result_format={
                "result_format": "COMPLETE",
                "unexpected_index_column_names": ["row"],
            },
        )
    bad = [False] * len(seen)
    for result in outcome.results:
        places = result.result.get("unexpected_index_list")
        if not (result.success or places):
            raise RuntimeError(f"checks could not be evaluated: {result.exception_info}")
        for place in places or ():
            bad[place["row"]] = True
    return bad


def _is_null(value: Any) -> bool:
    return value is None or value != value


def _written(check: Check, value: Any) -> str:
    if _is_null(value):
        return "none"
    return check.show.format(value)


def _bad_words(check: Check, found: Sequence[tuple[str, Any]]) -> str:
    words = [
        f"{process}: {_written(check, value)}" if process else _written(check, value)
        for process, value in found[:_SHOWN]
    ]
    more = len(found) - _SHOWN
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def _good_words(check: Check, found: Sequence[Any]) -> str:
    values = [value for value in found if not _is_null(value)]
    if not values:
        return "none"
    low, high = _written(check, min(values)), _written(check, max(values))
    if low == high:
        return low or "nothing amiss"
    return f"{low} to {high}"
