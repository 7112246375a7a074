"""compare confirm: measure the change of an alert again."""

from __future__ import annotations

import getpass
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from nightbench.cli import common, experiment_common
from nightbench.cli.common import say
from nightbench.cli.selection import Selection
from nightbench.core.errors import UserError
from nightbench.core.model import VerdictKind

if TYPE_CHECKING:
    from nightbench.core.model.experiments import Experiment
    from nightbench.experiments.engine import ExperimentContext

INCONCLUSIVE = 3

app = typer.Typer()


@app.command()
def confirm(
    alert: Annotated[int, typer.Argument(metavar="ID", help="Number of the alert.")],
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> None:
    """Measure an alert's change again now, as a night does before it sends a message.

    The last good build and the night's build are launched in turn on the same nodes, and once more
    on other nodes.

    Exit codes:

    - 0: there is an answer: the change was confirmed, or it was not.
    - 1: nothing could be measured.
    - 3: inconclusive.
    """
    from nightbench.core.model.experiments import NIGHTBENCH
    from nightbench.experiments.confirm import MeasuredElsewhere
    from nightbench.experiments.measuring import failed

    experiment, context = _request(alert, outside_hours)
    try:
        ended = experiment_common.at_terminal(experiment, context, json=json)
    except MeasuredElsewhere as error:
        raise UserError(f"{error}; the alert will show the outcome") from None
    except UserError as error:
        if experiment.requested_by == NIGHTBENCH:
            raise
        ended = failed(experiment, error)
    found = dict(ended.result or {})
    if json:
        common.print_json({"alert_id": alert, "run_id": experiment.run_id, **found})
    else:
        say(f"{found['outcome'].replace('_', ' ')}: {found['sentence']}")
    if found["outcome"] == "inconclusive":
        raise typer.Exit(INCONCLUSIVE)


def _request(alert_id: int, outside_hours: bool) -> tuple[Experiment, ExperimentContext]:
    """Return the confirmation in progress, the user's own interrupted one, or a new one."""
    from nightbench.core.model.experiments import Experiment, ExperimentKind
    from nightbench.experiments.confirm import MeasuredElsewhere, is_measured
    from nightbench.night.suspected_regressions import confirmation_of, suspected_regression
    from nightbench.spool.plans import read_plan
    from nightbench.warehouse import opened
    from nightbench.warehouse.experiments import UNDECIDED

    with opened(common.open_warehouse) as warehouse:
        alert = warehouse.alerts.get(alert_id)
        if alert["verdict"] not in (VerdictKind.REGRESSED, VerdictKind.TRAINING_CHANGED):
            raise UserError(
                f"alert {alert_id}: found {alert['verdict']}; expected a regression or a change of "
                "training: only these have a baseline to compare with"
            )
        if alert["metric"] not in ("throughput", "training"):
            raise UserError(
                f"alert {alert_id}: found the metric {alert['metric']}; expected throughput or "
                "training: only these can be measured again"
            )
        run_id = alert["last_run_id"]
        night = read_plan(common.spool().run(run_id))
        # Only the cluster's hours limit a user's request. Checked before anything is requested:
        # otherwise an error would leave a request in the queue that no process measures.
        chosen = Selection(night.run.suite, night.run.cluster).choose()
        context = experiment_common.context_of(chosen, outside_hours=outside_hours)
        user, states = getpass.getuser(), (*UNDECIDED, "cancelled")
        going = warehouse.experiments.find(
            run_id=run_id, alert_ids=[alert_id], kinds=[ExperimentKind.CONFIRM], states=states
        )
        going.sort(key=lambda row: row["state"] == "cancelled")
        if going and (going[0]["state"] in UNDECIDED or going[0]["requested_by"] == user):
            experiment = Experiment.of(going[0])
            if is_measured(common.spool(), experiment.name):
                raise MeasuredElsewhere(
                    f"{experiment.name} is being measured by another process; the alert will show "
                    "the outcome"
                )
            warehouse.experiments.begin(experiment.name, None)
            return replace(experiment, dag_run_id=None), context
        suspect = suspected_regression(warehouse, night, alert)
        if suspect is None:
            raise UserError(f"alert {alert_id}: run {run_id} has no baseline for the alert's case")
        return confirmation_of(suspect, night, user), context
