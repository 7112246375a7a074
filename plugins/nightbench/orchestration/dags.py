"""Builds the DAGs. The files in `dags/` call one function each and hold nothing else.

Imported at every parse of a DAG file and at every task start: whatever is heavy (SSH, databases,
checks) is imported in the body of a task.
"""

from __future__ import annotations

import dataclasses

from airflow.sdk import DAG

from nightbench.orchestration import places
from nightbench.orchestration.experiment_dags import bisect_dag, confirm_dag
from nightbench.orchestration.form import form
from nightbench.orchestration.heads import SuiteHead, parallel_cases, suite_heads
from nightbench.orchestration.judging import regressions_dag
from nightbench.orchestration.keeping import maintenance_dag
from nightbench.orchestration.measuring import build_suite_dag
from nightbench.orchestration.texts import NIGHTLY_DOC, ON_DEMAND_DOC
from nightbench.orchestration.watching import deadlines_dag

__all__ = [
    "bisect_dag",
    "confirm_dag",
    "deadlines_dag",
    "maintenance_dag",
    "nightly_dag",
    "nightly_dags",
    "on_demand_dag",
    "regressions_dag",
]


def nightly_dags() -> dict[str, DAG]:
    """A DAG for each suite with a schedule, by dag_id; also for a suite that cannot be read."""
    heads = [head for head in suite_heads(places.dags_folder()) if head.schedule or head.problem]
    return {f"nightly_{head.name}": nightly_dag(head) for head in heads}


def nightly_dag(head: SuiteHead) -> DAG:
    """The DAG of a suite with a schedule."""
    at_once = parallel_cases(places.dags_folder()).get(head.cluster, 1)
    words = {
        **dataclasses.asdict(head),
        "schedule": head.schedule or "-",
        "at_once": "one after another" if at_once == 1 else f"at most {at_once} at once",
    }
    doc = NIGHTLY_DOC.format(**words)
    if head.problem:
        doc = f"**This suite is not scheduled:** {head.problem}\n\n{doc}"
    return build_suite_dag(
        f"nightly_{head.name}",
        suite=head.name,
        schedule=head.schedule,
        owner=head.owner,
        description=head.description or f"The suite {head.name}, every night",
        tags=["nightly", head.name, *([head.cluster] if head.cluster else [])],
        doc_md=doc,
        at_once=at_once,
    )


def on_demand_dag() -> DAG | None:
    """The DAG with the form; None where there is no suite to offer."""
    names = [head.name for head in suite_heads(places.dags_folder()) if head.problem is None]
    if not names:
        return None
    return build_suite_dag(
        "on_demand",
        description="Measure a suite, or a part of it, now",
        tags=["on demand"],
        doc_md=ON_DEMAND_DOC,
        params=form(names),
        paused=False,
        # A form may choose any cluster, and this number cannot follow: where the chosen one takes
        # fewer at once, the locks of its nodes let the others wait.
        at_once=max(parallel_cases(places.dags_folder()).values(), default=1),
    )
