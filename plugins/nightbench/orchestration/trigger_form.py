"""The trigger form of `on_demand`."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import Param

from nightbench.config import locations
from nightbench.config.run_request import MOST_REPEATS
from nightbench.config.suite_heads import cluster_names, framework_names, workload_scales
from nightbench.config.suites import case_names
from nightbench.core.model import RunKind, Strategy


def form(suites: Sequence[str]) -> dict[str, Param]:
    """The fields of the trigger form; the plan checks them once more, against each other."""
    benchmarks = locations.benchmarks_folder()
    clusters = cluster_names(locations.dags_folder())
    scales = workload_scales(benchmarks)
    every_scale = sorted({scale for each in scales.values() for scale in each})

    def subset(title: str, names: Sequence[str], text: str) -> Param:
        return Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            examples=list(names),
            title=title,
            description=text,
            section="Which cases",
        )

    return {
        "suite": Param(
            "demo" if "demo" in suites else suites[0],
            type="string",
            enum=list(suites),
            title="Suite",
            description="What is measured: a file of dags/suites.",
        ),
        "cluster": Param(
            None,
            type=["null", "string"],
            enum=[None, *clusters],
            values_display={"null": "the suite's own"},
            title="Cluster",
            description="Where: a file of dags/clusters.",
        ),
        "frameworks": subset(
            "Frameworks", framework_names(benchmarks), "Only these framework lines. Empty: all."
        ),
        "workloads": subset("Workloads", sorted(scales), "Only these workloads. Empty: all."),
        "strategies": subset(
            "Strategies", [s.value for s in Strategy], "Only these strategies. Empty: all."
        ),
        "cases": subset(
            "Cases",
            case_names(locations.dags_folder(), suites),
            "Only these cases; they must be of the suite that is chosen. Empty: all.",
        ),
        "builds": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": "^[^=]+=.+$"},
            title="Builds",
            description="One a line: LINE=VERSION, LINE=/path/file.whl or LINE=/prefix.",
            section="How",
        ),
        "repeats": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=MOST_REPEATS,
            title="Repeats",
            description="Fresh launches of each case. Empty: the suite's own.",
            section="How",
        ),
        "scale": Param(
            None,
            type=["null", "string"],
            enum=[None, *every_scale],
            values_display={"null": "the suite's own"},
            title="Scale",
            description="Size of the workloads.",
            section="How",
        ),
        "night": Param(
            False,
            type="boolean",
            title="As in a night",
            description="Keep to the hours, the budget and the order of the suite's nights.",
            section="When",
        ),
        "outside_hours": Param(
            False,
            type="boolean",
            title="Outside the hours",
            description="Measure also when the cluster's hours do not hold.",
            section="When",
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
