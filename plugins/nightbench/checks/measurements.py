"""Checks of one measurement: are there enough repeats, and do they agree?

To add a check, add an entry to `MEASUREMENT_CHECKS`, with a function of a `Measurement`. One that
fails a `fail` check is quarantined: it is stored with its reasons and never reaches the medians.
"""

import math
from collections.abc import Iterable
from statistics import median

from nightbench.checks.engine import (
    NOTHING,
    POSITIVE,
    PRESENT,
    Check,
    CheckContext,
    CheckedRow,
    Subjects,
    at_least,
    at_most,
    equal_to,
    run_checks,
)
from nightbench.core.model import CaseStatus, CheckResult, Measurement, Severity
from nightbench.core.sentences import sentences
from nightbench.core.statistics import enough, wanted

FAIL, WARN = Severity.FAIL, Severity.WARN

MAX_SPREAD = 0.10
"""(maximum - minimum) / median over the good repeats."""

MAX_DRIFT = 0.10
"""Median over the repeats of how far the last third of a window is from its first third."""

MAX_EFFICIENCY = 1.05

MAX_POWER = 1.2
"""Mean power over the power limit of the devices: only short peaks may be above the limit."""


def _needed(context: CheckContext) -> int:
    protocol = context.protocol
    return enough(protocol) if protocol.adaptive else math.ceil(protocol.repeats / 2)


def _enough_words(context: CheckContext) -> str:
    which = "the minimum" if context.protocol.adaptive else "half of the repeats"
    return f"{_needed(context)} good repeats or more, {which} of the protocol"


def _out_of_order(m: Measurement) -> str:
    if m.throughput is None or m.minimum is None or m.maximum is None:
        return ""
    if m.minimum <= m.throughput <= m.maximum:
        return ""
    return f"{m.minimum:.5g} <= {m.throughput:.5g} <= {m.maximum:.5g} does not hold"


def _comparable_version(context: CheckContext, m: Measurement) -> str:
    """Return the version as found, without its local part (`+cpu`) unless the build names one."""
    found = m.framework_version or "unknown"
    return found if "+" in (context.requested_version or "") else found.split("+", 1)[0]


def _drift(m: Measurement) -> float | None:
    """Return the median over the good repeats of how far step times drift."""
    good = [r for r in m.repeats if r.throughput is not None and r.problem is None]
    drifts = [abs(r.drift) for r in good if r.drift is not None]
    return median(drifts) if drifts else None


MEASUREMENT_CHECKS: tuple[Check, ...] = (
    Check(
        "case_ended_well", FAIL, "measurement",
        lambda c, m: "" if m.status is CaseStatus.OK else f"{m.status}: {sentences(m.reasons)}",
        NOTHING, "the case is measured completely",
        of_failed=True,
    ),
    Check(
        "enough_repeats", FAIL, "measurement", lambda c, m: m.n, at_least(_needed), _enough_words,
        show="{:.0f}",
    ),
    Check(
        "all_repeats", WARN, "measurement", lambda c, m: m.n,
        at_least(lambda c: wanted(c.protocol)),
        lambda c: f"all {wanted(c.protocol)} repeats of the protocol are good",
        show="{:.0f}",
    ),
    Check(
        "median_present", FAIL, "measurement", lambda c, m: m.throughput, PRESENT,
        "a median throughput",
        show="{:.5g}",
    ),
    Check(
        "median_positive", FAIL, "measurement", lambda c, m: m.throughput, POSITIVE,
        "greater than 0 and finite",
        show="{:.5g}",
    ),
    Check(
        "median_in_range", FAIL, "measurement", lambda c, m: _out_of_order(m), NOTHING,
        "minimum <= median <= maximum of the repeats",
    ),
    Check(
        "measurement_unit", FAIL, "measurement", lambda c, m: m.unit,
        equal_to(lambda c: c.unit, of_text=True),
        lambda c: f"the workload's unit, {c.unit}",
    ),
    Check(
        "framework_version", FAIL, "measurement", _comparable_version,
        equal_to(lambda c: c.requested_version, of_text=True),
        lambda c: f"version {c.requested_version}, as the build requests",
        applies=lambda c: c.requested_version is not None,
    ),
    Check(
        "spread", FAIL, "measurement", lambda c, m: m.spread, at_most(MAX_SPREAD),
        f"repeats within {MAX_SPREAD:.0%} of their median",
        show="{:.1%}",
        warns_when_shared=True,
    ),
    Check(
        "drift", FAIL, "measurement", lambda c, m: _drift(m), at_most(MAX_DRIFT),
        f"step times change by {MAX_DRIFT:.0%} or less inside the window",
        show="{:.1%}",
        warns_when_shared=True,
    ),
    Check(
        "efficiency", WARN, "measurement", lambda c, m: m.efficiency, at_most(MAX_EFFICIENCY),
        f"scaling efficiency of {MAX_EFFICIENCY:g} or less",
        show="{:.3f}",
        fails_acceptance=True,
    ),
    Check(
        "mfu", FAIL, "measurement", lambda c, m: m.mfu, at_most(1.0),
        "model FLOPs per second do not exceed the peak of the devices",
        show="{:.3f}",
    ),
    Check(
        "power", WARN, "measurement", lambda c, m: m.power_w,
        at_most(lambda c: MAX_POWER * (c.power_limit_w or math.inf)),
        lambda c: f"{MAX_POWER:g} of the power limit of the devices, {c.power_limit_w:.0f} W",
        applies=lambda c: c.power_limit_w is not None,
        show="{:.0f} W",
    ),
)  # fmt: skip


def check_measurements(
    pairs: Iterable[tuple[CheckContext, Measurement]],
) -> list[tuple[CheckResult, ...]]:
    """Run `MEASUREMENT_CHECKS` on each measurement; return results in the order of the pairs.

    `scale` must have run: efficiency is one of the checks.
    """
    cases = [
        Subjects(
            context,
            {"measurement": [CheckedRow(None, "", measurement)]},
            frozenset() if measurement.status is CaseStatus.OK else frozenset({None}),
        )
        for context, measurement in pairs
    ]
    return run_checks("measurement", MEASUREMENT_CHECKS, cases)
