"""run: measuring, through Airflow or directly over SSH."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from nightbench.cli import common, dag_run
from nightbench.cli.common import FAILED, INTERRUPTED, say, warn
from nightbench.cli.selection import Chosen, Selection, selecting
from nightbench.config import find_suites, locations
from nightbench.config.builds import parse_untrusted_build, stage_wheels
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus
from nightbench.local.airflow_api import AirflowApi

app = typer.Typer()


@app.command()
@selecting(suite=None)
def run(
    selection: Selection,
    direct: Annotated[
        bool,
        typer.Option("--direct", help="Measure over SSH from this process, without Airflow."),
    ] = False,
    night: common.NightOption = False,
    outside_hours: common.OutsideHoursOption = False,
    follow: Annotated[
        str | None,
        typer.Option(
            "--follow",
            metavar="RUN",
            help="Start nothing: show the progress of this run, by its id or its DAG run's.",
        ),
    ] = None,
) -> None:
    """Measure a suite now: through the DAG where Airflow runs, or with --direct without it."""
    if (selection.suite is None) is (follow is None):
        raise typer.BadParameter("expected either a suite or --follow RUN")
    if follow is not None:
        if any((*vars(selection).values(), direct, night, outside_hours)):
            raise typer.BadParameter("--follow shows a run as it is: expected no other option")
        raise typer.Exit(follow_run(follow))
    chosen = selection.choose(night=night, outside_hours=outside_hours)
    if direct:
        from nightbench.cli.direct_run import measure_directly

        raise typer.Exit(measure_directly(chosen))
    if Path(chosen.suite.source) not in find_suites(locations.dags_folder()).values():
        raise UserError(
            f"{selection.suite}: lies outside of {locations.dags_folder() / 'suites'}, where "
            "Airflow looks. Put it there, or measure without Airflow: add --direct"
        )
    api = dag_run.airflow_runs()
    if api is None:
        raise UserError(
            f"Airflow does not run (state folder {common.home().root}). Start it with "
            "`nightbench up`, or measure without it: add --direct"
        )
    builds = stage_wheels(selection.build or ())
    for text in builds:
        parse_untrusted_build(text, chosen.cluster)  # as the DAG will: refused here it costs no run
    chosen = dataclasses.replace(chosen, overrides={**chosen.overrides, "builds": list(builds)})
    say("Airflow runs: this goes through its DAG on_demand")
    raise typer.Exit(through_airflow(api, chosen))


def through_airflow(api: AirflowApi, chosen: Chosen, *, allow_unavailable: bool = False) -> int:
    """Trigger the DAG, follow it, print what came of it, and return the exit code.

    Where allowed, a framework that a node cannot have is told, and is no failure as long as another
    one was measured.
    """
    dag_run_id = dag_run.trigger(api, chosen.overrides, note="asked for by `nightbench run`")
    say(f"DAG run: {api.base_url}/dags/{dag_run.DAG}/runs/{dag_run_id}")
    follower = dag_run.DagRunFollower(api, common.spool(), dag_run_id)
    return _follow_dag_run(follower, dag_run_id, allow_unavailable=allow_unavailable)


def follow_run(name: str) -> int:
    """Show the progress and the results of a run that was started before; return the exit code.

    Raises:
        UserError: there is no such run.
    """
    from nightbench.cli.results import is_good, show_run

    spool = common.spool()
    found = dag_run.named(spool, name)
    document = (found.run() if found else None) or {}
    if found is not None and not document.get("dag_run_id"):
        try:
            dag_run.follow_spool(found)
        except KeyboardInterrupt:
            say(f"The run goes on. End it: nightbench cancel {found.run_id}")
            return INTERRUPTED
        return 0 if all(map(is_good, show_run(found.run_id, await_verdicts=True))) else FAILED
    api = dag_run.airflow_api()
    if api is None:
        raise dag_run.unknown_run(spool, name)
    dag_run_id = str(document.get("dag_run_id") or name)
    dag_id = str(document.get("dag_id") or dag_run.DAG)
    return _follow_dag_run(dag_run.DagRunFollower(api, spool, dag_run_id, dag_id), dag_run_id)


def _follow_dag_run(
    follower: dag_run.DagRunFollower, dag_run_id: str, *, allow_unavailable: bool = False
) -> int:
    """Follow a DAG run, print what came of it, and return the exit code."""
    from nightbench.cli.results import is_good, show_run

    try:
        outcome = follower.follow()
    except KeyboardInterrupt:
        say(
            f"The run goes on in Airflow. Follow it: nightbench run --follow {dag_run_id}; "
            f"end it: nightbench cancel {dag_run_id}"
        )
        return INTERRUPTED
    for failure in outcome.failures:
        warn(failure)
    if outcome.run is None:
        return FAILED
    rows = show_run(outcome.run.run_id, await_verdicts=True)
    if allow_unavailable:
        away = [row for row in rows if row["status"] == CaseStatus.UNAVAILABLE]
        rest = [row for row in rows if row["status"] != CaseStatus.UNAVAILABLE]
        if away and rest and all(map(is_good, rest)) and not outcome.failures:
            lines = ", ".join(sorted({row["framework"] for row in away}))
            say(f"{len(away)} of {len(rows)} cases need {lines}, which this machine does not have")
            return 0
    return 0 if all(map(is_good, rows)) and outcome.state == "success" else FAILED
