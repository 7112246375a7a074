"""load: take back the results of a plan that was exported to a machine without SSH."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from nightbench.cli import common
from nightbench.cli.common import FAILED, err, say
from nightbench.config.locations import benchmarks_folder
from nightbench.core.model import RunKind

app = typer.Typer()


def export_plan(chosen: common.Chosen, folder: Path, *, shared: bool) -> None:
    """Plan a run of the cases that are measured without SSH, and write its directory.

    Args:
        chosen: the suite and its cluster.
        folder: the new directory.
        shared: several machines will share it, so that cases of several nodes are in it.

    Raises:
        UserError: there is no such case, or the folder cannot be written.
    """
    from nightbench.core.run_plan import make_plan
    from nightbench.night import exported_run

    suite, dropped = exported_run.for_export(
        chosen.suite, chosen.cluster, chosen.catalog, shared=shared
    )
    plan = make_plan(
        suite,
        chosen.cluster,
        chosen.catalog,
        run_kind=RunKind.ON_DEMAND,
        requested_by=getpass.getuser(),
        started_at=datetime.now(UTC),
    )
    exported_run.export(plan, common.spool(), benchmarks_folder(), folder)
    for case_id in dropped:
        err.print(f"left out, it has several nodes: {case_id}", markup=False, soft_wrap=True)
    say(f"run {plan.run.run_id}: {len(plan.jobs)} cases in {folder}")
    nodes = list(dict.fromkeys(node.name for job in plan.jobs for node in job.nodes))
    there = f"python3 {folder}/code/agent.py run {folder} --python INTERPRETER"
    if any(len(job.nodes) > 1 for job in plan.jobs):
        say(f"there, on each machine ({', '.join(nodes)}): {there} --node NAME")
    else:
        say(f"there: {there}")
    say(f"then here: nightbench load {folder}")


@app.command()
def load(
    folder: Annotated[Path, typer.Argument(help="The folder, as it was exported and measured.")],
) -> None:
    """Load the results of an exported plan: the same checks, medians and verdicts as any run's.

    Loading a folder again changes nothing.
    """
    from nightbench.cli.direct_run import load_and_judge
    from nightbench.cli.results import is_good, show_run
    from nightbench.night import exported_run

    spool = common.spool()
    run = exported_run.load(folder, spool)
    load_and_judge(spool, run.run_id)
    rows = show_run(run.run_id, await_verdicts=False)
    if not all(map(is_good, rows)):
        raise typer.Exit(FAILED)
