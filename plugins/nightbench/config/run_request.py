"""A request to measure, and the suite and cluster that it selects.

The form of `on_demand`, a nightly DAG and the command line all make a `RunRequest`. It is checked
where the run is planned: REST calls bypass the checks of the form.
"""

import dataclasses
from typing import Annotated, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from nightbench.config.builds import parse_build, parse_untrusted_build
from nightbench.config.catalog import load_catalog
from nightbench.config.clusters import cluster_of
from nightbench.config.locations import suite_file
from nightbench.config.request_fields import Names, Pairs, SuiteName, Switch, Text, option
from nightbench.config.source import display
from nightbench.config.suites import suite_and_cluster
from nightbench.core.capabilities import refusal_of
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model import Catalog, Cluster, RunKind, Suite
from nightbench.core.run_plan import select
from nightbench.core.stand_ins import stand_in_lines, with_stand_in

MOST_REPEATS = 99
_RunKind = Literal[
    RunKind.NIGHTLY, RunKind.ON_DEMAND, RunKind.CONFIRM, RunKind.BACKFILL, RunKind.DRILL
]
"""An acceptance has no suite."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class RunRequest:
    """A suite, and what of it is measured, where and how; empty fields keep the suite's own.

    Reader, form and checks of a request come from here: the docstrings describe its fields.
    """

    suite: Annotated[SuiteName, option("Suite")]
    """Suite to measure: a file of suites/."""
    cluster: Annotated[Text, option("Cluster")] = None
    """Cluster to measure on [default: the cluster of the suite]."""
    frameworks: Annotated[Names, option("Frameworks", "Which cases")] = ()
    """Framework lines to include [default: all]."""
    workloads: Annotated[Names, option("Workloads", "Which cases")] = ()
    """Workloads to include [default: all]."""
    strategies: Annotated[Names, option("Strategies", "Which cases")] = ()
    """Strategies to include [default: all]."""
    cases: Annotated[Names, option("Cases", "Which cases")] = ()
    """Cases of the suite to include, by name [default: all]."""
    builds: Annotated[Pairs, option("Builds", "How")] = ()
    """Builds to use: LINE=VERSION, LINE=/path/file.whl, or LINE=/prefix on the nodes."""
    repeats: Annotated[int | None, option("Repeats", "How", ge=1, le=MOST_REPEATS, strict=True)] = (
        None
    )
    """Number of repeats of each case; each repeat is a new launch [default: as in the suite]."""
    scale: Annotated[Text, option("Scale", "How")] = None
    """Scale (size) of the workloads [default: as in the suite]."""
    night: Annotated[Switch, option("As in a night", "When")] = False
    """Measure like a night of the suite: with its hours, time budget and order of cases."""
    outside_hours: Annotated[Switch, option("Outside the hours", "When")] = False
    """Also measure outside the cluster's allowed hours."""
    untried: Annotated[Switch, option("Untried modes", "How")] = False
    """Also measure configurations that never ran on this kind of device, and mark their results."""
    stand_ins: Annotated[Pairs, option("Stand-ins", "How")] = ()
    """LINE=OTHER: the line OTHER runs the cases of LINE, because the nodes cannot install LINE."""
    run_kind: Annotated[_RunKind, option("Kind of run", "How")] = RunKind.ON_DEMAND
    """Only `nightly` runs count for baselines; a `drill` is never among the newest medians."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.night and self.outside_hours:
            raise UserError(
                "outside_hours: found together with night, which applies the hours; choose one"
            )
        changed = [
            name for name in ("builds", "repeats", "scale", "stand_ins") if getattr(self, name)
        ]
        if self.run_kind is RunKind.NIGHTLY and changed:
            raise UserError(
                f"run_kind: found nightly together with {' and '.join(changed)}; a nightly run "
                "must measure the suite of the file, because later nights are compared with it. "
                f"Choose {RunKind.ON_DEMAND}, or change the suite's file"
            )


def resolve_request(
    request: RunRequest, catalog: Catalog | None = None, *, files: bool = False
) -> tuple[Suite, Cluster, Catalog]:
    """The suite and the cluster that a request means, after every check.

    The catalog is read from the files if None is given, and then knows of no acceptances. With
    `files` names may be paths of YAML files, and builds may be anywhere. This is for the command
    line, whose user may read them anyway, and never for what comes from a form.

    Raises:
        UserError: an unknown name, a wrong file, or a case that cannot run there.
    """
    catalog = catalog or load_catalog()
    path = suite_file(request.suite, files=files)
    named = cluster_of(request.cluster, catalog, files=files) if request.cluster else None
    suite, cluster = suite_and_cluster(
        path, catalog, cluster=named, scale=request.scale, untried=request.untried
    )
    if not suite.cases:
        reasons = "\n".join(dict.fromkeys(suite.skipped.values()))
        raise UserError(
            f"suite {suite.name} at scale {suite.scale}: found no case that can run on cluster "
            f"{cluster.name}:\n{reasons}"
        )
    for text in request.stand_ins:
        suite = _with_stand_in(suite, text, cluster, catalog)
    cases = select(
        suite.cases,
        frameworks=request.frameworks,
        workloads=request.workloads,
        strategies=request.strategies,
        case_ids=request.cases,
    )
    builds = dict(suite.builds)
    for text in request.builds:
        build = parse_build(text) if files else parse_untrusted_build(text, cluster)
        if build.line not in catalog.frameworks:
            raise UserError(f"build: {one_of(build.line, catalog.frameworks)}")
        builds[build.line] = build
    known = catalog.with_commands(suite)
    refusals = [refusal_of(case, known, cluster, builds, untried=suite.untried) for case in cases]
    messages = dict.fromkeys(refusal.message for refusal in refusals if refusal is not None)
    if messages:
        raise UserError("\n".join(f"{display(path)}: {each}" for each in messages))
    protocol = suite.protocol
    if request.repeats is not None:
        # A number means exactly that number, also where the suite lets the spread decide.
        protocol = dataclasses.replace(
            protocol, repeats=request.repeats, min_repeats=None, confidence=None
        )
    own = frozenset(line for line, build in builds.items() if build != suite.builds.get(line))
    chosen = dataclasses.replace(
        suite, cases=cases, protocol=protocol, builds=builds, private_builds=own
    )
    return chosen, cluster, catalog


def _with_stand_in(suite: Suite, text: str, cluster: Cluster, catalog: Catalog) -> Suite:
    """Return the suite with the cases of one line run by another.

    Raises:
        UserError: the suite has no such line, or no such line can run its cases.
    """
    line, _, other = text.partition("=")
    catalog = catalog.with_commands(suite)
    lines = sorted({case.framework for case in suite.cases})
    if line not in lines:
        raise UserError(f"stand_ins: {one_of(line, lines)}; write LINE=OTHER")
    able = stand_in_lines(suite, line, cluster, catalog)
    cases = with_stand_in(suite, line, other, cluster, catalog) if other in able else None
    if cases is None:
        raise UserError(f"stand_ins: {line}: {one_of(other, able)}")
    return dataclasses.replace(suite, cases=cases)
