"""k8s: a suite as Jobs of Kubernetes, whose results come back as those of any exported plan."""

from __future__ import annotations

import dataclasses
import getpass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
import yaml

from nightbench.cli import common
from nightbench.cli.common import say
from nightbench.config.locations import benchmarks_folder
from nightbench.core.errors import UserError
from nightbench.core.model import RunKind

app = typer.Typer(help="Measure by Jobs of Kubernetes.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Measure by Jobs of Kubernetes."""


@app.command()
def render(
    suite: common.SuiteArgument,
    cluster: common.ClusterOption = None,
    frameworks: common.FrameworksOption = "",
    workloads: common.WorkloadsOption = "",
    strategies: common.StrategiesOption = "",
    repeats: common.RepeatsOption = None,
    scale: common.ScaleOption = None,
    case: common.CasesOption = None,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="A new folder; called after the run unless given."),
    ] = None,
) -> None:
    """Write a run and its manifests: an indexed Job for each case, a pod for each of its nodes.

    Nothing is sent to Kubernetes. What to do with the folder is printed; `nightbench load` takes
    the results back.
    """
    from nightbench.core import kubernetes_jobs
    from nightbench.core.run_plan import make_plan
    from nightbench.night import exported_run

    chosen = common.choose(
        suite,
        cluster,
        frameworks=frameworks,
        workloads=workloads,
        strategies=strategies,
        repeats=repeats,
        scale=scale,
        cases=case,
    )
    policy = chosen.cluster.kubernetes
    if policy is None:
        raise UserError(
            f"cluster {chosen.cluster.name}: found no section kubernetes in its file; expected it "
            "with claim and images"
        )
    prepared, _ = exported_run.for_export(
        chosen.suite, chosen.cluster, chosen.catalog, shared=True, images=policy.images
    )
    plan = make_plan(
        prepared,
        chosen.cluster,
        chosen.catalog,
        run_kind=RunKind.ON_DEMAND,
        requested_by=getpass.getuser(),
        started_at=datetime.now(UTC),
    )
    jobs = tuple(kubernetes_jobs.for_pods(job, n) for n, job in enumerate(plan.jobs, start=1))
    manifests = kubernetes_jobs.objects(jobs, chosen.cluster)
    run_id = plan.run.run_id
    folder = directory if directory is not None else Path(run_id)
    exported_run.export(
        dataclasses.replace(plan, jobs=jobs), common.spool(), benchmarks_folder(), folder
    )
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
    say(f"then here: nightbench load {folder}")
