"""offline: runs that are measured without SSH, in an exported folder on one machine."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from nightbench.cli import common
from nightbench.cli.common import FAILED, say, warn
from nightbench.cli.selection import Selection, selecting
from nightbench.core.model import RunKind
from nightbench.core.run_plan import make_plan

app = typer.Typer(help="Measure without SSH: export a run, load its results.", no_args_is_help=True)


@app.command()
@selecting()
def export(
    selection: Selection,
    folder: Annotated[Path, typer.Argument(help="Folder to create.")],
) -> None:
    """Write a run and the code into a folder, to measure the run on a machine without SSH.

    The folder has a job for each case. On that machine, `python3 FOLDER/code/agent.py run FOLDER`
    measures the run. Then `nightbench offline load FOLDER` loads the results here.
    """
    from nightbench.night import exported_run

    chosen = selection.choose()
    suite, dropped = exported_run.for_export(chosen.suite, chosen.cluster, chosen.catalog)
    plan = make_plan(
        suite,
        chosen.cluster,
        chosen.catalog,
        run_kind=RunKind.ON_DEMAND,
        requested_by=getpass.getuser(),
        started_at=datetime.now(UTC),
    )
    exported_run.export(plan, common.spool(), folder)
    for case_id in dropped:
        warn(f"left out, because it needs several nodes: {case_id}")
    say(f"run {plan.run.run_id}: {len(plan.jobs)} cases in {folder}")
    say(f"on the other machine: python3 {folder}/code/agent.py run {folder} --python INTERPRETER")
    say(f"then on this machine: nightbench offline load {folder}")


@app.command()
def load(
    folder: Annotated[Path, typer.Argument(help="Exported folder with its results.")],
) -> None:
    """Load the results of an exported run; results get checks, medians and verdicts like any run.

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
