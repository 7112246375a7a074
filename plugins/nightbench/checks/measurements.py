"""Checks of one measurement: are there enough repeats, and do they agree?

To add a check, add an entry to `MEASUREMENT_CHECKS`; where it reads something new, add a
column to the frame below. A measurement that fails a `fail` check is quarantined: it is stored
with its reasons and never reaches the medians.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING, Any

from nightbench.checks.engine import hold
from nightbench.checks.expectation import (
    Check,
    CheckContext,
    at_least,
    at_most,
    nothing,
    one_of,
    positive,
    present,
)
from nightbench.core.model import CaseStatus, CheckResult, Measurement, Severity
from nightbench.core.sentences import sentences
from nightbench.core.statistics import enough, wanted

if TYPE_CHECKING:
    import pandas as pd

FAIL, WARN = Severity.FAIL, Severity.WARN

MAX_SPREAD = 0.10
"""(maximum - minimum) / median over the good repeats."""

MAX_DRIFT = 0.10
"""Median over the repeats of how far the last third of a window is from its first third."""

MAX_EFFICIENCY = 1.05


def _half(context: CheckContext) -> int:
    protocol = context.protocol
    return enough(protocol) if protocol.adaptive else math.ceil(protocol.repeats / 2)


def _enough_words(context: CheckContext) -> str:
    which = "the least of the protocol's" if context.protocol.adaptive else "half of the protocol's"
    return f"{_half(context)} good repeats or more, {which}"


MEASUREMENT_CHECKS: tuple[Check, ...] = (
    Check(
        "case_ended_well", FAIL, "repeats", "failure", nothing("failure"),
        expected="the case is measured to its end",
        of_failed=True,
    ),
    Check(
        "enough_repeats", FAIL, "repeats", "n", at_least("n", _half),
        expected=_enough_words,
        show="{:.0f}",
    ),
    Check(
        "all_repeats", WARN, "repeats", "n", at_least("n", lambda c: wanted(c.protocol)),
        expected=lambda c: f"the protocol's {wanted(c.protocol)} repeats are all good",
        show="{:.0f}",
    ),
    Check(
        "median_present", FAIL, "repeats", "throughput", present("throughput"),
        expected="a median throughput",
        show="{:.5g}",
    ),
    Check(
        "median_positive", FAIL, "repeats", "throughput", positive("throughput"),
        expected="greater than 0 and finite",
        show="{:.5g}",
    ),
    Check(
        "median_in_range", FAIL, "repeats", "out_of_order", nothing("out_of_order"),
        expected="minimum <= median <= maximum of the repeats",
    ),
    Check(
        "measurement_unit", FAIL, "repeats", "unit", one_of("unit", lambda c: [c.unit]),
        expected=lambda c: f"the workload's unit, {c.unit}",
    ),
    Check(
        "framework_version", FAIL, "repeats", "version",
        one_of("version", lambda c: [c.requested_version]),
        expected=lambda c: f"version {c.requested_version}, as the build asks",
        applies=lambda c: c.requested_version is not None,
    ),
    Check(
        "spread", FAIL, "repeats", "spread", at_most("spread", MAX_SPREAD),
        expected=f"repeats within {MAX_SPREAD:.0%} of their median",
        show="{:.1%}",
        warns_when_shared=True,
    ),
    Check(
        "drift", FAIL, "repeats", "drift", at_most("drift", MAX_DRIFT),
        expected=f"step times change by {MAX_DRIFT:.0%} or less inside the window",
        show="{:.1%}",
        warns_when_shared=True,
    ),
    Check(
        "efficiency", WARN, "repeats", "efficiency", at_most("efficiency", MAX_EFFICIENCY),
        expected=f"scaling efficiency of {MAX_EFFICIENCY:g} or less",
        show="{:.3f}",
    ),
)  # fmt: skip


def check_measurements(
    pairs: Iterable[tuple[CheckContext, Measurement]],
) -> list[tuple[CheckResult, ...]]:
    """Run `MEASUREMENT_CHECKS` on each measurement; return results in the order of the pairs.

    `scale` must have run: efficiency is one of the checks.
    """
    outcome = []
    for context, measurement in pairs:
        ended = measurement.status is CaseStatus.OK
        failed: frozenset[int | None] = frozenset() if ended else frozenset({None})
        frame = _frame(context, measurement)
        outcome.append(
            tuple(hold("measurement", MEASUREMENT_CHECKS, {"repeats": frame}, context, failed))
        )
    return outcome


def _frame(context: CheckContext, measurement: Measurement) -> pd.DataFrame:
    """Return one row; its `repeat` is null, since it covers all repeats."""
    import pandas as pd

    drifts = [
        abs(r.drift)
        for r in measurement.repeats
        if r.throughput is not None and r.problem is None and r.drift is not None
    ]
    ended = measurement.status is CaseStatus.OK
    columns: dict[str, tuple[Any, str]] = {
        "repeat": (None, "float64"),
        "process": ("", "object"),
        "failure": (
            "" if ended else f"{measurement.status}: {sentences(measurement.reasons)}",
            "object",
        ),
        "n": (measurement.n, "float64"),
        "throughput": (measurement.throughput, "float64"),
        "out_of_order": (_out_of_order(measurement), "object"),
        "unit": (measurement.unit, "object"),
        "version": (_comparable(measurement.framework_version, context), "object"),
        "spread": (measurement.spread, "float64"),
        "drift": (median(drifts) if drifts else None, "float64"),
        "efficiency": (measurement.efficiency, "float64"),
    }
    return pd.DataFrame({name: [value] for name, (value, _) in columns.items()}).astype(
        {name: dtype for name, (_, dtype) in columns.items()}
    )


def _out_of_order(m: Measurement) -> str:
    if m.throughput is None or m.minimum is None or m.maximum is None:
        return ""
    if m.minimum <= m.throughput <= m.maximum:
        return ""
    return f"{m.minimum:.5g} <= {m.throughput:.5g} <= {m.maximum:.5g} does not hold"


def _comparable(found: str | None, context: CheckContext) -> str:
    """Return the version as found, without its local part (`+cpu`) unless the build names one."""
    if found is None:
        return "unknown"
    if "+" in (context.requested_version or ""):
        return found
    return found.split("+", 1)[0]
