"""offline: measure runs without SSH, in an exported folder or as Kubernetes Jobs."""

from __future__ import annotations

import dataclasses
import getpass
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import yaml

from nightbench.cli import common
from nightbench.cli.common import FAILED, say, warn
from nightbench.cli.selection import Chosen, Selection, selecting
from nightbench.core import kubernetes_jobs
from nightbench.core.errors import UserError
from nightbench.core.model import RunKind
from nightbench.core.run_plan import RunPlan, make_plan

app = typer.Typer(help="Measure without SSH: export a run, load its results.", no_args_is_help=True)


def _plan(
    chosen: Chosen, *, shared: bool, images: Mapping[str, str] | None = None
) -> tuple[RunPlan, list[str]]:
    """Plan a run of the cases that are measured without SSH; return it and those that are not."""
    from nightbench.night.exported_run import for_export

    suite, dropped = for_export(
        chosen.suite, chosen.cluster, chosen.catalog, shared=shared, images=images
    )
    plan = make_plan(
        suite,
        chosen.cluster,
        chosen.catalog,
        run_kind=RunKind.ON_DEMAND,
        requested_by=getpass.getuser(),
        started_at=datetime.now(UTC),
    )
    return plan, dropped


@app.command()
@selecting()
def export(
    selection: Selection,
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    shared: Annotated[
        bool,
        typer.Option(
            "--shared", help="Several machines share the folder and measure cases of several nodes."
        ),
    ] = False,
) -> None:
    """Write a run into a folder, with the code: a job for each case, for a machine without SSH.

    There, `python3 FOLDER/code/agent.py run FOLDER` measures it; `nightbench offline load`
    takes the results.
    """
    from nightbench.night import exported_run

    plan, dropped = _plan(selection.choose(), shared=shared)
    exported_run.export(plan, common.spool(), folder)
    for case_id in dropped:
        warn(f"left out, it has several nodes: {case_id}")
    say(f"run {plan.run.run_id}: {len(plan.jobs)} cases in {folder}")
    nodes = list(dict.fromkeys(node.name for job in plan.jobs for node in job.nodes))
    there = f"python3 {folder}/code/agent.py run {folder} --python INTERPRETER"
    if any(len(job.nodes) > 1 for job in plan.jobs):
        say(f"there, on each machine ({', '.join(nodes)}): {there} --node NAME")
    else:
        say(f"there: {there}")
    say(f"then here: nightbench offline load {folder}")


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


@app.command()
@selecting("build")
def k8s(
    selection: Selection,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="A new folder. [default: the run's name]")
    ] = None,
) -> None:
    """Write a run and its manifests: an indexed Job for each case, a pod for each of its nodes.

    Nothing is sent to Kubernetes. It prints what to do with the folder; `nightbench offline load`
    takes the results.
    """
    from nightbench.night import exported_run

    chosen = selection.choose()
    policy = chosen.cluster.kubernetes
    if policy is None:
        raise UserError(
            f"cluster {chosen.cluster.name}: found no section kubernetes in its file; expected it "
            "with claim and images"
        )
    plan, _ = _plan(chosen, shared=True, images=policy.images)
    jobs = tuple(kubernetes_jobs.for_pods(job, n) for n, job in enumerate(plan.jobs, start=1))
    manifests = kubernetes_jobs.objects(jobs, chosen.cluster)
    run_id = plan.run.run_id
    folder = directory if directory is not None else Path(run_id)
    exported_run.export(dataclasses.replace(plan, jobs=jobs), common.spool(), folder)
    there = folder / "kubernetes"
    there.mkdir()
    for name, document in manifests.items():
        (there / name).write_text(yaml.safe_dump(document, sort_keys=False))
    files = manifests["files.yaml"]["metadata"]["name"]
    mount = f"{kubernetes_jobs.MOUNT}/{run_id}"
    say(f"run {run_id}: {len(jobs)} cases, a Job for each in {there}")
    say(f"there: kubectl config set-context --current --namespace {policy.namespace}")
    say(f"  kubectl apply -f {there}/service.yaml -f {there}/files.yaml")
    say(f"  kubectl wait --for=condition=Ready pod/{files}")
    say(f"  kubectl cp {folder} {files}:{mount}")
    say(f"  for job in {there}/job-*.yaml; do kubectl apply -f $job &&")
    say("    kubectl wait --for=condition=Complete --timeout=12h -f $job || break; done")
    say(f"  kubectl cp {files}:{mount}/jobs {folder}/jobs")
    say(f"  kubectl delete -f {there}")
    say(f"then here: nightbench offline load {folder}")
