"""Explains a run's regressions: gathers facts from the warehouse, and stores what they say."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from nightbench.alerts.cause_facts import Gathered
from nightbench.causes import Member, grouped
from nightbench.causes import explain as explanation_of
from nightbench.core.model.alerts import Cause
from nightbench.core.run_plan import RunPlan
from nightbench.warehouse import WarehouseUnavailable
from nightbench.warehouse.causes import CauseRepository
from nightbench.warehouse.connection import Connection

log = logging.getLogger(__name__)

_GROUPS_OF = timedelta(days=14)
"""Groups that an alert may still join; a change is told days after it began."""


def explain_alerts(connection: Connection, plan: RunPlan) -> dict[int, Cause]:
    """Explain as `explain` does; what goes wrong is logged, and the alerts are told without causes.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    try:
        return explain(connection, plan)
    except WarehouseUnavailable:
        raise
    except Exception:  # Documents of nodes are read here: none of them may silence an alert.
        log.exception("the alerts of run %s were not explained", plan.run.run_id)
        return {}


def explain(connection: Connection, plan: RunPlan) -> dict[int, Cause]:
    """Say what a judged run's regressions are put down to, and keep it.

    Of alerts that the run opened or reopened, and of those that nothing explained yet. Doing it
    again gives the same.

    Args:
        connection: of the loader.
        plan: the run's; its verdicts and alerts are stored.

    Returns:
        Alert -> cause.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    run, repository = plan.run, CauseRepository(connection)
    alerts = repository.unexplained(run.run_id)
    if not alerts:
        return {}
    gathered = Gathered(repository, plan, alerts)
    found = {}
    for alert in alerts:
        facts = gathered.facts(alert)
        found[alert["alert_id"]] = (facts, explanation_of(facts))
    members = [
        Member(alert_id, run.cluster, said.kind, said.suspect, facts.first_bad.at.date())
        for alert_id, (facts, said) in found.items()
    ]
    earliest = min(member.night for member in members)
    groups = grouped(members, repository.known_groups(run.cluster, earliest - _GROUPS_OF))
    rows: list[dict[str, Any]] = []
    for alert_id, (facts, said) in found.items():
        rows.append(
            {
                "alert_id": alert_id,
                "run_id": run.run_id,
                "kind": said.kind.value,
                "suspect": said.suspect,
                "sentence": said.sentence,
                "evidence": list(said.evidence),
                "group_key": groups[alert_id],
                "first_bad_run_id": facts.first_bad.run_id,
                "last_good_run_id": facts.last_good.run_id if facts.last_good else None,
                "night": facts.first_bad.at.date(),
            }
        )
    repository.store(rows)
    return {
        alert_id: Cause(said.kind, said.sentence, said.evidence, groups[alert_id])
        for alert_id, (_, said) in found.items()
    }
