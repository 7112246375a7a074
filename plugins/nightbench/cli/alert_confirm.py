"""`nightbench alert confirm`: measures the regression of an alert again."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import Any

from nightbench.cli import common, experiment_common
from nightbench.cli.common import say
from nightbench.cli.selection import Selection
from nightbench.core.errors import UserError
from nightbench.core.model import VerdictKind
from nightbench.core.run_plan import RunPlan
from nightbench.experiments.confirm import (
    MeasuredElsewhere,
    begin_confirmation,
    end_confirmation,
    measure_again,
)
from nightbench.experiments.confirm_outcome import inconclusive
from nightbench.experiments.engine import ExperimentContext
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.night.suspected_regressions import new_confirmation_id, suspected_regression
from nightbench.spool.plans import read_plan
from nightbench.warehouse import opened
from nightbench.warehouse.experiments import NIGHTBENCH, UNDECIDED

INCONCLUSIVE = 3


def confirm_alert(alert_id: int, *, outside_hours: bool, json: bool) -> int:
    """Measure an alert's suspect again, or go on with that, and return the exit code.

    Raises:
        UserError: it is no regression, its run is not in the spool, or nothing can be measured.
    """
    confirmation_id, night, context = _request(alert_id, outside_hours)
    request = begin_confirmation(common.open_warehouse, confirmation_id)
    if request is None:
        raise UserError(f"alert {alert_id} was confirmed by another process just now")
    reporter = ComparisonReporter(experiment_common.sayer(json))
    detail: dict[str, Any] = {}
    work = measure_again(request, night, common.spool(), context, reporter)
    try:
        found, detail = experiment_common.measure(
            work, reporter.refresh, request.comparison_id, f"nightbench alert confirm {alert_id}"
        )
    except MeasuredElsewhere as error:
        raise UserError(f"{error}; its outcome will stand at the alert") from None
    except UserError as error:
        if request.requested_by == NIGHTBENCH:
            raise  # The DAG's own attempt may succeed, and is given up when its time is over.
        # No other process would end it, and until then it hides Nightbench's own confirmation.
        found = inconclusive(str(error))
    end_confirmation(common.open_warehouse, request, found, detail)
    if json:
        document = {"alert_id": alert_id, "run_id": request.suspect.run_id, **vars(found), **detail}
        common.print_json(document | {"outcome": str(found.outcome)})
    else:
        outcome = found.outcome.replace("_", " ")
        say(f"{outcome}: {found.sentence}")
    return INCONCLUSIVE if found.outcome == "inconclusive" else 0


def _request(alert_id: int, outside_hours: bool) -> tuple[int, RunPlan, ExperimentContext]:
    """Return the confirmation that has not ended, else a new one, with its night and context."""
    with opened(common.open_warehouse) as warehouse:
        repository = warehouse.confirmations
        alert = warehouse.alerts.get(alert_id)
        if alert["verdict"] != VerdictKind.REGRESSED:
            raise UserError(
                f"alert {alert_id}: found {alert['verdict']}; only a regressed case has a level "
                "that it can be compared with"
            )
        if alert["metric"] != "throughput":
            raise UserError(
                f"alert {alert_id}: found one about {alert['metric']}; only throughput is measured "
                "again"
            )
        run_id = alert["last_run_id"]
        night = read_plan(common.spool().run(run_id))
        # First: closed hours must not leave a confirmation behind that nobody measures.
        context = _context(night, outside_hours)
        going = repository.find(run_id=run_id, alert_id=alert_id, states=UNDECIDED)
        if going:
            return int(going[-1]["confirmation_id"]), night, context
        suspect = suspected_regression(warehouse, night, alert)
        if suspect is None:
            raise UserError(f"alert {alert_id}: run {run_id} has no level for its case")
        made = repository.request(
            alert_id,
            run_id,
            new_confirmation_id(datetime.now(UTC)),
            suspect.to_json(),
            within_s=None,
            by=getpass.getuser(),
        )
        if made is None:
            raise UserError(f"alert {alert_id}: somebody asked for the same just now; try again")
        return made, night, context


def _context(night: RunPlan, outside_hours: bool) -> ExperimentContext:
    # A person may wait: only the cluster's hours limit it.
    chosen = Selection(night.run.suite, night.run.cluster).choose()
    return experiment_common.context_of(chosen, outside_hours=outside_hours)
