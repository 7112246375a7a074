"""Sentences of verdicts on series: size, interval, baseline, start date, evidence, next step."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime

from nightbench.core.model import HistoryPoint, MetricInfo, PairNight, Verdict, differ
from nightbench.detection.changes import Change
from nightbench.detection.control_shift import ControlShift
from nightbench.detection.drift import Drift
from nightbench.detection.factors import SharedChange
from nightbench.detection.node_modes import HOLD_NIGHTS, Modes


def level_change(change: Change, since: datetime, baseline: str = "") -> str:
    """Return size, interval, baseline if it is given, start date and evidence of a change."""
    seen = {0: "a level not seen before", 1: "a level reached by one earlier excursion"}.get(
        change.excursions, f"a level reached by {change.excursions} earlier excursions"
    )
    return (
        f"Level change {change.change:+.1%} (90% interval {change.low:+.1%} to {change.high:+.1%})"
        f"{f' from the baseline of {baseline}' if baseline else ''} since {since:%Y-%m-%d}: "
        f"{change.after} nights at {seen}, compared with {change.reference} nights with "
        f"{change.noise:.1%} noise."
    )


def log_odds(score: float, prior: float, why: str) -> str:
    """Return what a prior adds to the log odds of a change; empty for none."""
    if not prior:
        return ""
    return f" Log odds of a change: {score:+.1f} ({prior:+.1f} for the {why}); reported above 0."


def tonight(value: float, baseline: float, metric: MetricInfo) -> str:
    """Return how far tonight's value is from a baseline that was named before."""
    change = value / baseline - 1
    return f" Tonight's {metric.text(value)} is {_distance(change)} the baseline."


def coincidence(last_good: HistoryPoint, first: HistoryPoint) -> str:
    """Return what else changed on the first night, and what to do; empty if nothing did."""
    old, new = last_good.framework_version, first.framework_version
    suspects = [f"the framework changed from {old} to {new}"] if old and new and old != new else []
    if differ(last_good.fingerprint_id, first.fingerprint_id):
        suspects.append("hardware, driver or kernel of the nodes changed")
    return f" On that date {' and '.join(suspects)}: suspect this first." if suspects else ""


def controls(shift: ControlShift | None) -> str:
    """Return what the control measurements explain of a change; empty without any."""
    if shift is None:
        return ""
    size = f"{shift.change:+.1%} (95% interval {shift.low:+.1%} to {shift.high:+.1%})"
    said = f" Control measurements of the same nights changed by {size}"
    remains = f"{shift.remains:+.1%} remains after subtracting them."
    if shift.explains:
        return f"{said}: suspect the node first; {remains}"
    if shift.explains_a_part:
        return f"{said}, which explains a part of the change; {remains}"
    return f"{said}, which does not explain the change."


def unchanged(value: float, baseline: float, metric: MetricInfo, nights: int, noise: float) -> str:
    """Return how far a night without a change is from its baseline."""
    return (
        f"{metric.text(value)} is {_distance(value / baseline - 1)} the baseline of "
        f"{metric.text(baseline)} (median of {nights} nights with {noise:.1%} noise)."
    )


def noisy_repeats(spread: float) -> str:
    """Return that the repeats of a night vary far more than usual."""
    return f" The repeats of this night vary by {spread:.1%}, more than twice as much as usual."


WATCHED = " Flagged as `watched`: a single night like this is not yet reported as a change."


def pending(change: float, since: datetime, before: str, place: str, nights: int) -> str:
    """Return when a change that began with tonight's nodes is reported."""
    return (
        f" A change of {change:+.1%} started on {since:%Y-%m-%d}, when the series changed from "
        f"{before} to {place}. The change is reported if it lasts for {HOLD_NIGHTS} nights on "
        f"{place}; tonight is night {nights}."
    )


def drifting(drift: Drift) -> str:
    """Return size, error and length of a drift."""
    return (
        f" Drift of {drift.change:+.1%} (± {2 * drift.error:.1%}) over {drift.nights} nights, "
        "and none of these nights has a level change."
    )


def too_few(history: int, needed: int) -> str:
    """Return why a night has no verdict yet."""
    return f"No verdict yet: {history} comparable earlier nights; at least {needed} are needed."


def with_shared(verdict: Verdict, shared_changes: Sequence[SharedChange]) -> Verdict:
    """Return a verdict on a change whose sentence names the shared changes that it is part of."""
    return _with(verdict, f"Shared change: {'; '.join(each.sentence for each in shared_changes)}")


def not_of_the_version(since: date, changed: int, others: int, line: str) -> str:
    """Return why a new version does not make the change of a series likelier."""
    return f" {changed} of {others} other series of {line} changed with the new version of {since}."


def shown_by_others(value: float, baseline: float, shared: SharedChange, change: float) -> str:
    """Return the sentence of a series whose change only the other series of its group show."""
    return (
        f"Level change {change:+.1%} from the baseline of {baseline:.4g}. The change is clear only "
        f"together with other series. Shared change: {shared.sentence}. Tonight's {value:.4g} is "
        f"{_distance(value / baseline - 1)} the baseline."
    )


def with_pairs(
    verdict: Verdict, night: PairNight, change: float | None, since: datetime | None
) -> Verdict:
    """Return a verdict whose sentence names the reference that it was measured in turn with.

    Args:
        verdict: by the ratio to the reference.
        night: tonight's pairs.
        change: of the reference itself, which is the node's; None if it did not change.
        since: first night of that change.
    """
    has_interval = night.low is not None and night.high is not None
    interval = f" (95% interval {night.low:.4g} to {night.high:.4g})" if has_interval else ""
    ratio = f"{night.ratio:.4g}{interval}, {night.n} pairs of launches"
    said = f"The verdict is based on the ratio to the reference build {night.reference}: {ratio}"
    if change is not None:
        began = f" since {since:%Y-%m-%d}" if since else ""
        said += f". The reference build itself changed by {change:+.1%}{began}: suspect the node"
    return _with(verdict, said)


def with_levels(verdict: Verdict, modes: Modes | None) -> Verdict:
    """Return a verdict whose sentence ends with the levels of a series that jumps with its node."""
    if modes is None:
        return verdict
    said = ", ".join(f"{level:.4g} on {node}" for node, level in modes.levels.items())
    return _with(verdict, f"Levels by node: {said}")


def _with(verdict: Verdict, said: str) -> Verdict:
    return replace(verdict, sentence=f"{verdict.sentence.rstrip('.')}. {said}.")


def _distance(change: float) -> str:
    return f"{abs(change):.1%} {'below' if change < 0 else 'above'}"
