"""validate and plan: what would be measured, without touching a node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from nightbench.cli import common
from nightbench.cli.common import FAILED, err, out, say
from nightbench.config import locations
from nightbench.core.errors import UserError
from nightbench.core.model import Cluster

app = typer.Typer()


@app.command()
def validate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Suite or cluster files; all of dags/ and benchmarks/ unless given."),
    ] = None,
) -> None:
    """Check suites, clusters, framework lines and workloads; every problem with file and line."""
    from nightbench.config import find_clusters, find_suites, load_cluster, load_suite
    from nightbench.config.source import display, read_document

    catalog = common.catalog()
    if not files:
        say(
            f"benchmarks: {len(catalog.frameworks)} framework lines, "
            f"{len(catalog.workloads)} workloads"
        )
    chosen = files or [
        *find_clusters(locations.dags_folder()).values(),
        *find_suites(locations.dags_folder()).values(),
    ]
    wrong: dict[str, None] = {}
    for path in chosen:
        try:
            data = read_document(path).data
            if "cluster" in data and "suite" not in data and "matrix" not in data:
                cluster = load_cluster(path, home=common.home().root, catalog=catalog)
                say(f"{display(path)}: cluster {cluster.name}, {len(cluster.nodes)} nodes")
            else:
                suite = load_suite(path, catalog)
                say(f"{display(path)}: suite {suite.name}, {len(suite.cases)} cases")
        except UserError as error:
            wrong.update(dict.fromkeys(str(error).splitlines()))
    for line in wrong:
        err.print(line, markup=False, soft_wrap=True)
    if wrong:
        raise typer.Exit(FAILED)


@app.command()
def plan(
    suite: common.SuiteArgument,
    cluster: common.ClusterOption = None,
    frameworks: common.FrameworksOption = "",
    workloads: common.WorkloadsOption = "",
    strategies: common.StrategiesOption = "",
    repeats: common.RepeatsOption = None,
    scale: common.ScaleOption = None,
    build: common.BuildOption = None,
    night: Annotated[
        bool,
        typer.Option(
            "--night",
            help="Which cases a night has room for, in which order, and what is left out.",
        ),
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="The night of 2026-11-21T22:00, say; with --night."
        ),
    ] = None,
    json: common.JsonOption = False,
) -> None:
    """List the cases of a suite with nodes, build and estimated time; nothing need run."""
    from nightbench.cli.progress import duration
    from nightbench.core import plan as planning

    chosen = common.choose(
        suite,
        cluster,
        frameworks=frameworks,
        workloads=workloads,
        strategies=strategies,
        repeats=repeats,
        scale=scale,
        builds=build,
    )
    if night:
        from nightbench.cli.night_plan import show_night

        show_night(chosen, at, json=json)
        return
    if at is not None:
        raise UserError("at: found it without --night; expected both")
    jobs = [
        planning.resolve(case, chosen.suite, chosen.cluster, chosen.catalog, "plan")
        for case in chosen.suite.cases
    ]
    known = common.history(chosen.cluster.name)
    seconds = [planning.estimate(job.case, known) for job in jobs]
    if json:
        common.print_json(
            [
                {
                    "case_id": job.case.case_id,
                    "cluster": job.cluster,
                    **job.case.axes(),
                    "on": {p.name: p.node for p in job.processes},
                    "build_id": job.build.build_id,
                    "repeats": job.protocol.repeats,
                    "definition_digest": job.definition_digest,
                    "estimate_s": guess,
                }
                for job, guess in zip(jobs, seconds, strict=True)
            ]
        )
        return
    table = Table()
    for name in ("case", "processes", "build", "steps", "repeats", "estimate"):
        table.add_column(name, overflow="fold")
    protocol = chosen.suite.protocol
    for job, guess in zip(jobs, seconds, strict=True):
        spread = [
            f"{node.name}: " + " ".join(p.name for p in job.processes if p.node == node.name)
            for node in job.nodes
        ]
        table.add_row(
            job.case.case_id,
            "\n".join(spread),
            job.build.build_id,
            f"{protocol.warmup_steps}+{protocol.measured_steps}",
            str(protocol.repeats),
            "-" if guess is None else duration(guess),
        )
    out.print(table)
    total = sum(guess for guess in seconds if guess is not None)
    unknown = sum(guess is None for guess in seconds)
    words = f"{len(jobs)} cases on {chosen.cluster.name}, {_at_once(chosen.cluster)}"
    if unknown == len(jobs):
        say(f"{words}; no history yet to estimate the time from")
    else:
        more = f", and {unknown} without a history" if unknown else ""
        say(f"{words}; about {duration(total)}{more}")


def _at_once(cluster: Cluster) -> str:
    if cluster.parallel_cases == 1:
        return "one after another"
    return f"at most {cluster.parallel_cases} at once"
