"""run, demo: measure through Airflow or directly over SSH; the demo on this machine."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from nightbench.cli import common, dag_run
from nightbench.cli.common import FAILED, INTERRUPTED, say, warn
from nightbench.cli.selection import Chosen, Selection, selecting
from nightbench.config import find_suites, locations
from nightbench.config.builds import parse_untrusted_build, stage_wheels
from nightbench.config.control_plane import how_to_start
from nightbench.core.budget import duration
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus
from nightbench.core.run_plan import resolve
from nightbench.core.stand_ins import changed_values, stand_in_lines, with_stand_in
from nightbench.local.airflow_api import AirflowApi
from nightbench.local.home import Home

if TYPE_CHECKING:
    from nightbench.core.model import JobSpec, Suite
    from nightbench.gang import SshTarget

app = typer.Typer()


@app.command()
@selecting(suite=None)
def run(
    selection: Selection,
    direct: Annotated[
        bool, typer.Option("--direct", help="Measure over SSH from this process, without Airflow.")
    ] = False,
    night: common.NightOption = False,
    outside_hours: common.OutsideHoursOption = False,
    follow: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Only show the progress of a run: its id, or the id of its DAG run.",
        ),
    ] = None,
) -> None:
    """Measure a suite now: through the DAG if Airflow runs, or without Airflow with --direct."""
    if (selection.suite is None) is (follow is None):
        raise typer.BadParameter("expected either a suite or --follow RUN")
    if follow is not None:
        if any((*vars(selection).values(), direct, night, outside_hours)):
            raise typer.BadParameter("--follow cannot be combined with other options")
        raise typer.Exit(follow_run(follow))
    chosen = selection.choose(night=night, outside_hours=outside_hours)
    if direct:
        from nightbench.cli.direct_run import measure_directly

        raise typer.Exit(measure_directly(chosen))
    if Path(chosen.suite.source) not in find_suites(locations.dags_folder()).values():
        raise UserError(
            f"{selection.suite}: is outside of {locations.dags_folder() / 'suites'}, the folder "
            "that Airflow reads. Move the suite there, or measure without Airflow: --direct"
        )
    api = dag_run.airflow_runs(dag_run.TO_MEASURE)
    if api is None:
        raise UserError(
            f"Airflow does not run (state folder {common.home().root}). {how_to_start()}, or "
            "measure without Airflow: --direct"
        )
    builds = stage_wheels(selection.builds or ())
    for text in builds:
        parse_untrusted_build(text, chosen.cluster)  # before a run is triggered
    chosen = dataclasses.replace(chosen, overrides={**chosen.overrides, "builds": list(builds)})
    say("Airflow runs: triggering its DAG on_demand")
    raise typer.Exit(through_airflow(api, chosen))


def through_airflow(api: AirflowApi, chosen: Chosen, *, allow_unavailable: bool = False) -> int:
    """Trigger the DAG, follow it, print the results, and return the exit code.

    With `allow_unavailable`, a framework that a node cannot install is reported, and is no failure
    if another framework was measured.
    """
    dag_run_id = dag_run.trigger(api, chosen.overrides, note="requested by `nightbench run`")
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
            say(f"The run continues. End the run: nightbench cancel {found.run_id}")
            return INTERRUPTED
        return 0 if all(map(is_good, show_run(found.run_id, await_verdicts=True))) else FAILED
    api = dag_run.airflow_api("Without a login, see the run in Airflow's UI")
    if api is None:
        raise dag_run.unknown_run(spool, name)
    dag_run_id = str(document.get("dag_run_id") or name)
    dag_id = str(document.get("dag_id") or dag_run.DAG)
    return _follow_dag_run(dag_run.DagRunFollower(api, spool, dag_run_id, dag_id), dag_run_id)


def _follow_dag_run(
    follower: dag_run.DagRunFollower, dag_run_id: str, *, allow_unavailable: bool = False
) -> int:
    from nightbench.cli.results import is_good, show_run

    try:
        outcome = follower.follow()
    except KeyboardInterrupt:
        say(
            f"The run continues in Airflow. Follow the run: nightbench run --follow {dag_run_id}; "
            f"end the run: nightbench cancel {dag_run_id}"
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


@app.command()
def demo() -> None:
    """Start all services, run the suite demo on two local nodes, and show the results."""
    from nightbench.local import lifecycle
    from nightbench.local.resources import has_environments, require_resources

    began = time.monotonic()
    place = common.home()
    for line in require_resources(place):
        say(line)
    chosen = Selection("demo").choose()
    # The nodes answer long before Airflow does: its start and these downloads share the time.
    ahead = _EnvironmentsAhead(place, chosen, quiet=has_environments(place))
    for line in lifecycle.up(place, on_nodes=ahead.start):
        say(line)
    common.show_access()
    ahead.join()
    if ahead.stand_ins:
        chosen = Selection("demo", stand_ins=ahead.stand_ins).choose()
    api = dag_run.airflow_runs(dag_run.TO_MEASURE)
    if api is None:
        raise UserError("Airflow was started but is not healthy. See: nightbench status")
    code = through_airflow(api, chosen, allow_unavailable=True)
    if code != INTERRUPTED:
        say(f"demo took {duration(time.monotonic() - began)}; stop everything: make down")
    if code == 0:
        say("")
        for line in _TO_TRY:
            say(line)
    raise typer.Exit(code)


_TO_TRY = (
    "See the alert of a slower night:  .venv/bin/nightbench drill",
    "Compare two builds, round by round:    .venv/bin/nightbench compare --help",
    "Plan the nights of your own cluster:   .venv/bin/nightbench plan dlperf-resnet50",
)


class _EnvironmentsAhead(Thread):
    """Builds a suite's environments in advance; the run retries and reports failures.

    For a line that the nodes cannot install, it finds another line that can run its cases.
    """

    def __init__(self, place: Home, chosen: Chosen, *, quiet: bool) -> None:
        super().__init__(daemon=True, name="environments")
        self._place = place
        self._chosen = chosen
        self._quiet = quiet
        self.stand_ins: list[str] = []
        """`LINE=OTHER`, as `nightbench run --stand-in` accepts it."""

    def run(self) -> None:
        try:
            asyncio.run(self._build())
        except UserError as error:
            say(f"environments: {error}; the run tries again")

    async def _build(self) -> None:
        # Imported here: by now Airflow is starting in the background.
        from nightbench.gang import EnvironmentUnavailable

        jobs = self._jobs(self._chosen.suite)
        for number, job in enumerate(jobs, start=1):
            line = job.build.line
            size = self._chosen.catalog.frameworks[line].size_bytes / 1e9
            if not self._quiet:
                which = f"{line} ({size:.1f} GB), {number} of {len(jobs)}"
                say(f"environments: meanwhile, the nodes download and build {which}")
            try:
                await self._build_one(job)
            except EnvironmentUnavailable as error:
                await self._find_stand_in(line, error.message)

    async def _find_stand_in(self, line: str, why: str) -> None:
        """Find a line that the nodes can install and that can run the cases of another line."""
        from nightbench.gang import EnvironmentUnavailable

        cluster, catalog = self._chosen.cluster, self._chosen.catalog
        suite = Selection("demo", stand_ins=self.stand_ins).choose().suite
        for other in stand_in_lines(suite, line, cluster, catalog):
            cases = with_stand_in(suite, line, other, cluster, catalog)
            if cases is None:
                continue
            jobs = self._jobs(dataclasses.replace(suite, cases=cases))
            try:
                await self._build_one(next(x for x in jobs if x.build.line == other))
            except EnvironmentUnavailable:
                continue
            self.stand_ins.append(f"{line}={other}")
            changed = ", ".join(changed_values(suite.cases, cases))
            say(
                f"{line} cannot be installed on this machine: {other} runs its "
                f"cases{f' ({changed})' if changed else ''}. To repeat this run: nightbench run "
                "demo " + " ".join(f"--stand-in {each}" for each in self.stand_ins)
            )
            return
        say(f"{line} cannot be installed on this machine, and no line can run its cases: {why}")

    async def _build_one(self, job: JobSpec) -> None:
        from nightbench.gang.provisioning import build_environment

        await build_environment(job, self._targets(), common.shipment(self._chosen.cluster))

    def _jobs(self, suite: Suite) -> list[JobSpec]:
        """One job of each line, with the largest number of nodes."""
        cluster, catalog = self._chosen.cluster, self._chosen.catalog
        widest = {case.framework: case for case in sorted(suite.cases, key=lambda x: x.nodes)}
        return [resolve(case, suite, cluster, catalog, "demo") for case in widest.values()]

    def _targets(self) -> dict[str, SshTarget]:
        """Return how the local nodes are reached, without Airflow's Connections."""
        from nightbench.gang import SshTarget
        from nightbench.local.ports import load_ports

        folder, ports = self._place.cluster, load_ports(self._place)
        assert ports is not None, "`up` has chosen the ports"
        return {
            node.name: SshTarget(
                node=node.name,
                host=node.host,
                port=ports.cluster,
                known_hosts=str(folder / "known_hosts"),
                client_keys=(str(folder / "id_ed25519"),),
            )
            for node in self._chosen.cluster.nodes
        }
