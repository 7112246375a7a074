"""Defines checks, functions of a subject and what they are to return, and runs tables of them.

The tables in `repeats.py`, `training.py` and `measurements.py` are made of `Check` entries. Great
Expectations judges the values of all cases at once (`expectations.py`): a row of one frame for each
limit of a check.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.checks.expectations import Pair, unexpected
from nightbench.core.model import (
    Case,
    CheckResult,
    Cluster,
    Process,
    Protocol,
    RankResult,
    RepeatRecord,
    RepeatSummary,
    Severity,
)
from nightbench.core.run_plan import CaseExpectations, CasePlan
from nightbench.core.summarize import asynchronous


@dataclass(frozen=True)
class CheckContext(CaseExpectations):
    """The expectations of a result: the plan of its case."""

    case: Case
    protocol: Protocol
    unit: str
    shared: bool = False
    """The cluster's nodes share hardware: spread and drift only warn."""
    requested_version: str | None = None
    """Framework version that the build names; None for the locked one."""
    transport: str | None = None
    """Transport of gradients that the cluster declares; None without a declaration."""
    power_limit_w: float | None = None
    """Most that the devices of all trainers may draw together, W; None if it is not known."""
    acceptance: bool = False
    """It tries a configuration."""

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
        """True if trainers do not wait for each other."""
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
    """The allowed values of a check: within limits, or present; nulls are within."""

    low: Limit | None = None
    high: Limit | None = None
    text: Callable[[CheckContext], str | None] | None = None
    """The values are text, and this one."""
    present: bool = False
    """The values are not null."""

    def pairs(self, context: CheckContext, value: Any) -> Iterator[Pair]:
        """Yield what has to hold for a value to be as expected."""
        if self.text:
            yield None, None, value, self.text(context)
        elif self.present:
            yield float(not _is_null(value)), 1.0, None, None
        else:
            low, high = (x(context) if callable(x) else x for x in (self.low, self.high))
            if low is not None:
                yield value, low, None, None
            if high is not None:
                yield high, value, None, None


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
    """Kind of its subjects: `repeat`, `rank`, `step` or `measurement`."""
    value: Callable[[CheckContext, Any], Any]
    """`(context, subject)` -> value; None if there is none."""
    expects: Expectation
    expected: str | Callable[[CheckContext], str]
    """The expectation as text."""
    show: str = "{}"
    """Format of a value."""
    applies: Callable[[CheckContext], bool] = lambda context: True
    warns_when_shared: bool = False
    fails_acceptance: bool = False
    """A warning elsewhere, it refuses a configuration that is tried on nodes that share nothing."""
    from_rank: bool = False
    """Only a rank of Nightbench states its value; for a log it is recorded as not stated."""
    of_failed: bool = False
    """True for checks that also run on repeats that failed; others would only repeat that."""

    def severity_in(self, context: CheckContext) -> Severity:
        """Return the severity on the context's cluster."""
        if self.warns_when_shared and context.shared:
            return Severity.WARN
        if self.fails_acceptance and context.acceptance and not context.shared:
            return Severity.FAIL
        return self.severity

    def unstated_in(self, context: CheckContext) -> bool:
        """Return whether values are from a log, but the check needs a rank's own report."""
        return self.from_rank and context.from_log

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


@dataclass(frozen=True)
class Subjects:
    """The input of a table of checks, for one case."""

    context: CheckContext
    rows: Mapping[str, Sequence[CheckedRow]]
    """The subjects by their kind."""
    failed: frozenset[int | None] = frozenset()
    """Repeats that did not end well."""


def run_checks(
    kind: str, checks: Sequence[Check], cases: Sequence[Subjects]
) -> list[tuple[CheckResult, ...]]:
    """Return the results of each case: of each check and repeat, by repeat and as in the table.

    Subjects of the kind `kind` name all repeats. A check that needs what only Nightbench's own rank
    states neither passes nor fails for values from a log: it warns that they are not stated.
    """
    seen = [
        (number, check, row, _value(check, case.context, row))
        for number, case in enumerate(cases)
        for check in checks
        if check.applies(case.context) and not check.unstated_in(case.context)
        for row in case.rows.get(check.of, ())
    ]
    pairs = [list(check.expects.pairs(cases[n].context, value)) for n, check, _, value in seen]
    found: list[_Found] = [defaultdict(list) for _ in cases]
    for (number, check, row, value), is_bad in zip(seen, unexpected(pairs), strict=True):
        found[number][check.name, row.repeat].append((row.process, value, is_bad))
    return [tuple(_results(kind, checks, case, found[number])) for number, case in enumerate(cases)]


_Found = dict[tuple[str, int | None], list[tuple[str, Any, bool]]]
"""(check, repeat) -> process, value and whether it is bad, of each subject."""


def _results(
    kind: str, checks: Sequence[Check], case: Subjects, found: _Found
) -> Iterator[CheckResult]:
    context = case.context
    for row, check in itertools.product(case.rows[kind], checks):
        values = found.get((check.name, row.repeat))
        if not check.applies(context) or (row.repeat in case.failed and not check.of_failed):
            continue
        if values:
            bad = [(process, value) for process, value, is_bad in values if is_bad]
            said = _bad_words(check, bad) if bad else _good_words(check, [x for _, x, _ in values])
            judged = (check.severity_in(context), not bad, said)
        elif check.unstated_in(context):
            judged = (Severity.WARN, False, NOT_STATED)
        else:
            continue  # No rank or step: another check reports that they are missing.
        yield CheckResult(kind, row.repeat, check.name, *judged, check.expected_in(context))


def _value(check: Check, context: CheckContext, row: CheckedRow) -> Any:
    value = check.value(context, row.subject)
    return value if value is None or check.expects.text else float(value)


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
