"""demo: from nothing to medians, with one command on one machine."""

from __future__ import annotations

import asyncio
import time
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from nightbench.cli import common, dag_run
from nightbench.cli.common import INTERRUPTED, say
from nightbench.cli.run import through_airflow
from nightbench.cli.selection import Chosen, Selection
from nightbench.core.budget import duration
from nightbench.core.errors import UserError
from nightbench.core.run_plan import resolve
from nightbench.local.home import Home

if TYPE_CHECKING:
    from nightbench.core.model import JobSpec
    from nightbench.gang import SshTarget

app = typer.Typer()


@app.command()
def demo(
    again: Annotated[
        bool,
        typer.Option("--again", help="Measure also where a complete run of this code is there."),
    ] = False,
) -> None:
    """Start everything, run the suite demo on two local nodes, and show what came of it.

    Where all of it was measured before by the same code, that run is shown.
    """
    from nightbench.cli.results import show_run
    from nightbench.cli.services import show_access
    from nightbench.local import lifecycle
    from nightbench.local.resources import has_environments, require_resources

    began = time.monotonic()
    place = common.home()
    for line in require_resources(place):
        say(line)
    chosen = Selection("demo").choose()
    # The nodes answer long before Airflow does: its start and these downloads share the time.
    ahead = None if has_environments(place) else _EnvironmentsAhead(place, chosen)
    for line in lifecycle.up(place, on_nodes=ahead.start if ahead else None):
        say(line)
    show_access()
    before = None if again else _measured_before(chosen)
    if before:
        show_run(before, await_verdicts=False)
        say(
            "That run was measured before, by the same code. Measure again: nightbench demo --again"
        )
        code = 0
    else:
        if ahead:
            ahead.join()
        api = dag_run.airflow_runs()
        if api is None:
            raise UserError("Airflow was started but is not healthy. Look: nightbench status")
        code = through_airflow(api, chosen, allow_unavailable=True)
    if code != INTERRUPTED:
        say(f"demo took {duration(time.monotonic() - began)}; stop everything: make down")
    if code == 0:
        say("")
        for line in _TO_TRY:
            say(line)
    raise typer.Exit(code)


_TO_TRY = (
    "See the alert of a slower night come:  .venv/bin/nightbench drill",
    "Compare two builds, round by round:    .venv/bin/nightbench ab --help",
    "Plan the nights of your own cluster:   .venv/bin/nightbench plan dlperf-resnet50",
)


class _EnvironmentsAhead(Thread):
    """Builds a suite's environments ahead; what fails here the run tries again and reports."""

    def __init__(self, place: Home, chosen: Chosen) -> None:
        super().__init__(daemon=True, name="environments")
        self._place = place
        self._chosen = chosen

    def run(self) -> None:
        try:
            asyncio.run(self._build())
        except UserError as error:
            say(f"environments: {error}; the run tries again")

    async def _build(self) -> None:
        # Imported here: Airflow's start is under way by then.
        from nightbench.gang import EnvironmentUnavailable, GangError
        from nightbench.gang.provisioning import build_environment

        jobs = self._jobs()
        left = [f"{job.build.line} ({self._gigabytes(job):.1f} GB)" for job in jobs]
        say(f"environments: the nodes fetch and build {', '.join(left)} meanwhile")
        targets, shipment = self._targets(), common.shipment(self._chosen.cluster)
        for number, job in enumerate(jobs, start=1):
            began = time.monotonic()
            try:
                await build_environment(job, targets, shipment)
                done = f"built in {time.monotonic() - began:.0f} s"
            except EnvironmentUnavailable:
                done = "not to be had here: the run says why"
            except GangError as error:
                say(f"environments: {error}; the run tries again")
                return
            after = f"; left: {', '.join(left[number:])}" if left[number:] else ""
            say(f"environments: {job.build.line} {done}, {number} of {len(jobs)}{after}")

    def _jobs(self) -> list[JobSpec]:
        """A job of each line, on as many nodes as any of it."""
        suite, cluster, catalog = self._chosen.suite, self._chosen.cluster, self._chosen.catalog
        widest = {case.framework: case for case in sorted(suite.cases, key=lambda x: x.nodes)}
        return [resolve(case, suite, cluster, catalog, "demo") for case in widest.values()]

    def _gigabytes(self, job: JobSpec) -> float:
        return self._chosen.catalog.frameworks[job.build.line].size_bytes / 1e9

    def _targets(self) -> dict[str, SshTarget]:
        """How the local nodes are reached, without Airflow and its Connections."""
        from nightbench.gang import SshTarget
        from nightbench.local.ports import load_ports

        folder, ports = self._place.cluster, load_ports(self._place)
        assert ports is not None, "`up` has chosen them"
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


def _measured_before(chosen: Chosen) -> str | None:
    """Return the newest run of just these cases by this code, if it is loaded and all good."""
    from nightbench.cli.results import is_good, results_of

    digest = chosen.catalog.code_digest
    wanted = {case.case_id for case in chosen.suite.cases}
    for run in reversed(common.spool().runs()):
        document = run.run() or {}
        same = document.get("suite") == chosen.suite.name and document.get("code_digest") == digest
        if same and run.loaded() and {each["case_id"] for each in run.planned()} == wanted:
            rows, _ = results_of(run.run_id)
            return run.run_id if rows and all(map(is_good, rows)) else None
    return None
