"""Keeps noisy series quiet: they are measured and judged as ever, and open no alert.

Only nightly runs decide. What a run said of a series is kept and said again when the run is judged
again, so that the history of a series never changes behind its alerts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nightbench.core.model import HistoryPoint
from nightbench.core.run_plan import RunPlan
from nightbench.detection import noise
from nightbench.warehouse import Loader, Reader

NOISY, STEADY = "noisy", "steady"


def quarantine(
    reader: Reader,
    loader: Loader,
    plan: RunPlan,
    histories: Mapping[str, Sequence[HistoryPoint]],
) -> frozenset[str]:
    """Decide which series of a night are noisy, store those that change sides.

    Args:
        reader: of the warehouse that the run was loaded into.
        loader: of the same.
        plan: of a nightly run; its `policy.max_spread` is the limit.
        histories: good nights before this run by case_id, oldest first.

    Returns:
        case_ids of the run that alert no more. A case without a figure stays as it was.
    """
    run, limit = plan.run, plan.policy.max_spread
    noisy = set(reader.noisy_before(run.cluster, run.run_id, run.started_at))
    tonight = {each.case_id: each.point for each in reader.measured(run.run_id) if each.point}
    for case_id, point in tonight.items():
        # A run that is judged again must not be its own past.
        before = [p for p in histories.get(case_id, ()) if p.run_id != run.run_id]
        turn = noise.noise_change(before, point, limit, case_id in noisy)
        if turn is not None:
            loader.store_noise_event(
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
    # Where the run was judged before, what it said then stands.
    for event in reader.noise_events(run_id=run.run_id):
        (noisy.add if event["what"] == NOISY else noisy.discard)(event["case_id"])
    return frozenset(noisy)


def notes(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each series that became noisy or steady again, for messages and digests.

    Args:
        events: rows of `marts.fct_noise_event`, such as `Reader.noise_events` gives.
    """
    return [
        f"{event['case_id']} on {event['cluster']}: "
        + (
            f"noisy: {event['sentence']}. It runs on and alerts no more until it is steady"
            if event["what"] == NOISY
            else f"steady again, and alerts again: {event['sentence']}"
        )
        for event in sorted(events, key=lambda event: (event["what"], event["case_id"]))
    ]
