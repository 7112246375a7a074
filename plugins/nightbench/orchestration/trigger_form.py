"""The trigger form of `on_demand`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import Param

from nightbench.config import locations
from nightbench.config.run_request import MOST_REPEATS
from nightbench.config.suite_heads import cluster_names, framework_names, workload_scales
from nightbench.config.suites import case_names
from nightbench.core.model import RunKind, Strategy
from nightbench.orchestration.dag_common import optional, optional_names


def form(suites: Sequence[str]) -> dict[str, Param]:
    """The fields of the trigger form; the plan checks them once more, against each other."""
    scales = workload_scales(locations.benchmarks_folder(), locations.dags_folder())
    return {
        "suite": Param(
            "demo" if "demo" in suites else suites[0],
            type="string",
            enum=list(suites),
            title="Suite",
            description="What is measured: a file of dags/suites.",
        ),
        "cluster": _choice(
            "Cluster", "Where: a file of dags/clusters.", cluster_names(locations.dags_folder())
        ),
        **_which_cases(suites, scales),
        "builds": optional(
            "array",
            "Builds",
            "One a line: LINE=VERSION, LINE=/path/file.whl or LINE=/prefix.",
            items={"type": "string", "pattern": "^[^=]+=.+$"},
            section="How",
        ),
        "repeats": optional(
            "integer",
            "Repeats",
            "Fresh launches of each case. Empty: the suite's own.",
            minimum=1,
            maximum=MOST_REPEATS,
            section="How",
        ),
        "scale": _choice(
            "Scale",
            "Size of the workloads.",
            sorted({scale for each in scales.values() for scale in each}),
            section="How",
        ),
        "night": _switch(
            "As in a night", "Keep to the hours, the budget and the order of the suite's nights."
        ),
        "outside_hours": _switch(
            "Outside the hours", "Measure also when the cluster's hours do not hold."
        ),
        "untried": Param(
            False,
            type="boolean",
            title="Untried modes",
            description="Measure also what nobody has run on such devices yet; results are marked.",
            section="How",
        ),
        "run_kind": Param(
            RunKind.ON_DEMAND.value,
            type="string",
            enum=[kind.value for kind in RunKind],
            title="Kind of run",
            description="Only `nightly` feeds baselines; `drill` never shows among the latest.",
            section="How",
        ),
    }


def _which_cases(suites: Sequence[str], scales: Mapping[str, Any]) -> dict[str, Param]:
    def subset(title: str, description: str, names: Sequence[str]) -> Param:
        return optional_names(title, description, examples=list(names), section="Which cases")

    return {
        "frameworks": subset(
            "Frameworks",
            "Only these framework lines. Empty: all.",
            framework_names(locations.benchmarks_folder(), locations.dags_folder()),
        ),
        "workloads": subset("Workloads", "Only these workloads. Empty: all.", sorted(scales)),
        "strategies": subset(
            "Strategies", "Only these strategies. Empty: all.", [s.value for s in Strategy]
        ),
        "cases": subset(
            "Cases",
            "Only these cases; they must be of the suite that is chosen. Empty: all.",
            case_names(locations.dags_folder(), suites),
        ),
    }


def _choice(title: str, description: str, names: Sequence[str], **more: Any) -> Param:
    """One of several names, or the suite's own."""
    shown = {"null": "the suite's own"}
    return optional("string", title, description, enum=[None, *names], values_display=shown, **more)


def _switch(title: str, description: str) -> Param:
    return Param(False, type="boolean", title=title, description=description, section="When")
