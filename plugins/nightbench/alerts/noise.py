"""Stores which series are noisy: they are measured and judged as usual, and open no alert.

Only nightly runs decide. The decision of a run is stored and used again when the run is judged
again, so that the history of a series stays consistent with its alerts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nightbench.core.model import HistoryPoint
from nightbench.core.run_plan import RunPlan
from nightbench.detection import noise
from nightbench.warehouse import Warehouse

NOISY, STEADY = "noisy", "steady"


def quarantine(
    warehouse: Warehouse, plan: RunPlan, histories: Mapping[str, Sequence[HistoryPoint]]
) -> frozenset[str]:
    """Return the case_ids of a night's noisy series; store those that became noisy or steady.

    The limit is the plan's `policy.max_spread`; the histories are the good nights before this run,
    oldest first. A case without a value keeps its state.
    """
    run, limit, judged = plan.run, plan.policy.max_spread, plan.policy.judged
    noisy = set(warehouse.series.noisy_before(run.cluster, run.run_id, run.started_at))
    tonight = {
        each.case_id: each.point
        for each in warehouse.runs.measured(run.run_id, judged)
        if each.point
    }
    for case_id, point in tonight.items():
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
    # Where the run was judged before, its decision stands.
    for event in warehouse.series.noise_events(run_id=run.run_id):
        (noisy.add if event["what"] == NOISY else noisy.discard)(event["case_id"])
    return frozenset(noisy)


def notes(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line for each row of `marts.fct_noise_event`, for messages and digests."""
    return [
        f"{event['case_id']} on {event['cluster']}: "
        + (
            f"noisy: {event['sentence']}. It runs on and alerts no more until it is steady"
            if event["what"] == NOISY
            else f"steady again, and alerts again: {event['sentence']}"
        )
        for event in sorted(events, key=lambda event: (event["what"], event["case_id"]))
    ]
