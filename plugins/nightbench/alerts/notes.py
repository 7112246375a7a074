"""News of a suite other than alerts: noisy series, drifts, and repeated measurements.

Noisy series are measured and judged as usual, and open no alert. A drift is no change, so it opens
none either; it is notified once, and again when it has grown. Only nightly runs decide and store
drifts, and none that began before the newest that was judged. The decision of a run is used again
when it is judged again, so that the history of a series stays consistent with its alerts.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

from nightbench.core.budget import duration
from nightbench.core.model import HistoryPoint
from nightbench.core.model.alerts import ConfirmationResult
from nightbench.core.model.experiments import NIGHTBENCH
from nightbench.core.run_plan import RunPlan
from nightbench.detection import noise, segment
from nightbench.detection.drift import Drift
from nightbench.warehouse import Warehouse

NOISY, STEADY = "noisy", "steady"


def quarantine(
    warehouse: Warehouse, plan: RunPlan, histories: Mapping[str, Sequence[HistoryPoint]]
) -> frozenset[str]:
    """Return the case_ids of a night's noisy series; store those that became noisy or steady.

    The limit is the plan's `policy.max_spread`; the histories are the good nights before this run,
    oldest first. A case without a value keeps its state.
    """
    run, limit = plan.run, plan.policy.max_spread
    before_night = {"cluster": run.cluster, "run_id": run.run_id, "at": run.started_at}
    noisy = {row["case_id"] for row in warehouse.series.read("noisy_before", **before_night)}
    for case_id, point in _points(warehouse, plan).items():
        # A run that is judged again must not be part of its own history.
        before = [p for p in histories.get(case_id, ()) if p.run_id != run.run_id]
        turn = noise.noise_change(before, point, limit, case_id in noisy)
        if turn is not None:
            warehouse.series.store_noise_event(
                {
                    "case_id": case_id,
                    "cluster": run.cluster,
                    "run_id": run.run_id,
                    "at": run.started_at,
                    "what": NOISY if turn.noisy else STEADY,
                    "spread": turn.spread,
                    "max_spread": turn.limit,
                    "sentence": turn.sentence,
                }
            )
    # If the run was judged before, its stored decision applies.
    for event in warehouse.series.read("noise_events", run_id=run.run_id):
        (noisy.add if event["what"] == NOISY else noisy.discard)(event["case_id"])
    return frozenset(noisy)


def _points(warehouse: Warehouse, plan: RunPlan) -> dict[str, HistoryPoint]:
    found = warehouse.runs.measured(plan.run.run_id, plan.policy.judged)
    return {each.case_id: each.point for each in found if each.point}


def noise_notes(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line for each row of `marts.fct_noise_event`, for messages and digests."""
    return [
        f"{event['case_id']} on {event['cluster']}: "
        + (
            f"noisy: {event['sentence']}. The series is still measured, but a drop opens no alert "
            "until the series is steady again"
            if event["what"] == NOISY
            else f"steady again, so a drop opens an alert again: {event['sentence']}"
        )
        for event in sorted(events, key=lambda event: (event["what"], event["case_id"]))
    ]


Row = Mapping[str, Any]

LEVEL = 21
"""Nights whose median is the level of a series: three weeks, which averages weekly patterns."""

QUIET = 14
"""Successive good nights without a drift after which it is over. Noise over some days can hide a
drift for a while, and a drift that is over would be notified again."""


def follow_drifts(
    warehouse: Warehouse,
    plan: RunPlan,
    drifts: Mapping[str, Drift | None],
    histories: Mapping[str, Sequence[HistoryPoint]],
    later: Collection[str] = (),
    noisy: Collection[str] = (),
) -> None:
    """Store the drifts of a night's series. Calling it again changes nothing.

    Args:
        warehouse: the one that the run was loaded into; its connection locks the cluster's alerts.
        plan: of a nightly run; its `policy.clear_change` is the smallest drift that is notified.
        drifts: of its cases that have a value, by case_id.
        histories: good nights before this run by case_id, oldest first.
        later: case_ids of which a later night was judged already; they are skipped.
        noisy: case_ids of noisy series, whose drifts are listed but not notified.
    """
    run, limit, judged = plan.run, plan.policy.clear_change, plan.policy.judged
    known_drifts = {row["case_id"]: row for row in warehouse.series.drifts(cluster=run.cluster)}
    tonight = _points(warehouse, plan)
    for case_id, drift in drifts.items():
        known = known_drifts.get(case_id)
        # A night without a value is no evidence.
        if case_id not in tonight or case_id in later:
            continue
        past = [p for p in histories.get(case_id, ()) if p.run_id != run.run_id]
        # The nights of a drift are those comparable with tonight; others may lie between them.
        before = segment(past, tonight[case_id])
        if drift is None:
            if known is not None and quiet_nights(before, known) >= QUIET:
                warehouse.series.end_drift(case_id, run.cluster, run.run_id, run.started_at)
            continue
        values = [point.value for point in before[1 - LEVEL :]]
        row = {
            "case_id": case_id,
            "cluster": run.cluster,
            "run_id": run.run_id,
            "at": run.started_at,
            "level": median([*values, tonight[case_id].value]),
            "is_news": (drift.change >= limit if judged.lower_is_better else drift.change <= -limit)
            and case_id not in noisy,
            "change": drift.change,
            "error": drift.error,
            "nights": drift.nights,
            "since": before[1 - drift.nights].at,
        }
        if is_new(row, known, limit, lower_is_better=judged.lower_is_better):
            warehouse.series.store_drift(row)
        else:
            warehouse.series.see_drift(row)


def quiet_nights(before: Sequence[HistoryPoint], known: Row) -> int:
    """Return the number of good nights since a drift was last found, tonight included."""
    seen_at: datetime = known["seen_at"]
    return sum(point.at > seen_at for point in before) + 1


def is_new(drift: Row, known: Row | None, limit: float, *, lower_is_better: bool = False) -> bool:
    """Return whether a drift is news: it is new, has turned, or has grown.

    Growth is measured by the level. The size of the drift covers only the detector's window and
    stops growing for longer drifts. `limit` is the smallest relative change that is news.
    """
    if known is None or (drift["change"] < 0) != (known["change"] < 0):
        return True
    if not drift["is_news"]:
        return False
    now, then = drift["level"], known["level"]
    grown = now >= then * (1 + limit) if lower_is_better else now <= then * (1 - limit)
    return not known["is_news"] or grown


def drift_notes(rows: Iterable[Row]) -> list[str]:
    """Return one line for each row of `marts.fct_drift`, for messages and lists."""
    return [
        f"{row['case_id']} on {row['cluster']}: {row['change']:+.1%} (± {2 * row['error']:.1%}) "
        f"over its last {row['nights']} nights, and none of these nights is a regression"
        for row in rows
    ]


def confirmation_notes(confirmations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence about the confirmations of a run; none if it has requested none."""
    rows = [row for row in confirmations if row["requested_by"] == NIGHTBENCH]
    ended = [row for row in rows if row["verdict"] is not None]
    if not rows:
        return []
    said = f"{len(ended)} of {len(rows)} suspected regressions were measured again"
    if ended:
        began = min(row["requested_at"] for row in rows)
        took = max(row["ended_at"] for row in ended) - began
        found = Counter(row["verdict"] for row in ended)
        outcomes = ", ".join(
            f"{found[each]} {each.replace('_', ' ')}" for each in ConfirmationResult if found[each]
        )
        said += f", within {duration(took.total_seconds())}: {outcomes}"
    narrowed = [
        (now, before)
        for row in ended
        if (now := _half(row["result"])) is not None
        and (before := _half(row["request"])) is not None
    ]
    if narrowed:
        now, before = (median(side) for side in zip(*narrowed, strict=True))
        said += f". Median uncertainty of a drop: ±{now:.1%}, from nights alone ±{before:.1%}"
    if left := sum(row["state"] == "cancelled" for row in rows):
        said += f". Not measured again: {left} (cancelled, or no time was left)"
    return [said]


def _half(row: Mapping[str, Any]) -> float | None:
    low, high = row.get("low"), row.get("high")
    return None if low is None or high is None else (high - low) / 2
