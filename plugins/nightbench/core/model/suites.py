"""Suites with their policies, and the catalog that they choose from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import Field

from nightbench.core.model import values as v
from nightbench.core.model.cases import Build, Case, Protocol
from nightbench.core.model.catalog import FrameworkInfo, Role
from nightbench.core.model.clusters import Cluster
from nightbench.core.model.policies import NightPolicy, Publication, RegressionPolicy, Route
from nightbench.core.model.workloads import WorkloadInfo

TableMetric = Literal[
    "throughput", "minibatches", "speedup", "efficiency", "tokens_per_device", "mfu", "tflops"
]
"""Metrics in the cells of a table."""

TABLE_AXES = (
    "devices",
    *(x for x in Case.__annotations__ if x not in ("devices_per_node", "scale")),
)
"""Axes of rows and columns of a table; `devices` is nodes x devices on each."""


class PublishedFigures(v.StrictModel):
    """Published values of a table, as `sql/references/` lists them."""

    document: v.Text
    """`source` of the published values in sql/references."""
    figures: v.Axis[v.Text]
    """`figure` of the published values in sql/references."""
    only: dict[str, v.Text] = Field({})
    """For each published `framework` without a line in Nightbench, the reason. Its cells have only
    published values."""


class SuiteTable(v.StrictModel):
    """Cases of the suite by rows and columns, next to published values: `nightbench table`."""

    name: Annotated[str, v.DERIVED] = ""
    """The key that it has among the suite's tables."""
    cases: Annotated[tuple[Case, ...], v.DERIVED] = ()
    """The cases of the blocks that name it."""

    title: v.Text
    """Heading of the table."""
    rows: v.Axis[Literal[TABLE_AXES]]  # type: ignore[valid-type]
    """Axes whose values are the rows."""
    columns: v.Axis[Literal[TABLE_AXES]]  # type: ignore[valid-type]
    """Axes whose values are the columns."""
    metric: TableMetric = Field("throughput", alias="value")
    """Metric in the cells."""
    chart: Literal["bars", "lines"] = "bars"
    """Kind of plot: a line or a group of bars for each row."""
    published: PublishedFigures | None = None
    """Published values with which the cells are compared."""


@dataclass(frozen=True)
class Suite:
    """A matrix of cases with all that its file says; `SuiteFile` describes its fields."""

    name: str
    owner: str
    cluster: str
    cases: tuple[Case, ...]
    protocol: Protocol = field(default_factory=Protocol)
    description: str = ""
    schedule: str | None = None
    builds: Mapping[str, Build] = field(default_factory=dict)
    """Framework line -> build; the line's lock if absent."""
    reference: Mapping[str, Build] = field(default_factory=dict)
    untried: bool = False
    private_builds: frozenset[str] = frozenset()
    """Lines whose build was named for one run, and is not the one that the file says."""
    env: Mapping[str, str] = field(default_factory=dict)
    role_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    policy: RegressionPolicy = field(default_factory=RegressionPolicy)
    alerts: tuple[str, ...] = ()
    repeat_timeout_s: float = 1800.0
    progress_timeout_s: float = 300.0
    source: str = ""
    """Path of the YAML file."""
    scale: str = "full"
    commands: Mapping[str, WorkloadInfo] = field(default_factory=dict)
    """Scripts of other programs, as workloads of the lines that run commands."""
    tables: tuple[SuiteTable, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    """case_id of the cases that its file lets be skipped and that cannot run there -> why."""
    night: NightPolicy = field(default_factory=NightPolicy)
    priorities: Mapping[str, int] = field(default_factory=dict)
    """case_id -> 0 to 9, the higher first; 5 if absent."""
    routes: tuple[Route, ...] = ()
    publish: Publication | None = None


Accepted = Mapping[tuple[str, str], str | None]
"""Line and configuration that passed a cluster's acceptance test -> why it must be retested, or
None."""


@dataclass(frozen=True)
class Catalog:
    """All framework lines and workloads that `benchmarks/` holds."""

    frameworks: Mapping[str, FrameworkInfo]
    workloads: Mapping[str, WorkloadInfo]
    code_digest: str
    """Digest of every file that is shipped to the nodes."""
    log_formats: tuple[str, ...] = ()
    """Names of the logs that the nodes can read."""
    accepted: Callable[[Cluster], Accepted] = lambda cluster: {}
    """Results of the cluster's acceptance for its own builds."""

    def roles_of(self, case: Case) -> tuple[Role, ...]:
        """The roles of a case's processes: a command has its own, else the line says them."""
        own = self.workloads[case.workload].roles
        return own or self.frameworks[case.framework].roles_of(case.strategy)

    def with_commands(self, suite: Suite) -> Catalog:
        """The catalog with the commands of a suite among the workloads."""
        if not suite.commands:
            return self
        return replace(self, workloads={**self.workloads, **suite.commands})

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong with a folder, with file and line."""
        found: list[str | None] = []
        for line in self.frameworks.values():
            found += [line.problem, *(variant.problem for variant in line.variants.values())]
        for workload in self.workloads.values():
            found += [workload.problem, *workload.broken_models.values()]
        return tuple(dict.fromkeys("\n".join(filter(None, found)).splitlines()))
