"""The JSON API of the pages Compare and Published, and its answers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from fastapi import Query

from nightbench.warehouse.pages import OpenPages
from nightbench.web.api_model import ApiModel, Figures, Items, Page, Word
from nightbench.web.ui_api import csv_response

Standing = Literal["faster", "slower", "unclear", "only_one", "only_other"]
"""Side `other` compared with side `one`; unclear if the interval of the ratio contains 1."""


class OverviewCell(ApiModel):
    """A workload in a framework line: all its series, and what is published of it."""

    workload: Word
    framework: Word
    series: int
    """Number of series with a median."""
    compared: int
    """Number of these series that another line has measured with equal work on the same cluster."""
    untried: int
    """Number of these series in a configuration that has never run on such devices before."""
    share_of_best: float | None
    """Newest median / that of the best line with equal work: geometric mean over these."""
    moved: float | None
    """Newest median divided by the median of the 30 days before, minus 1: geometric mean."""
    published: int
    """Number of published values of the workload and the line."""


class CurvePoint(ApiModel):
    """The newest median of a line at one place of an axis."""

    axis: Literal["devices", "batch size"]
    cluster: str
    unit: str
    work: dict[str, bool | int | float | str | None]
    """Values of all other axes, which are equal for all points and lines of the plot."""
    framework: str
    x: int
    """Number of trainers, or the batch size of a device."""
    throughput: float
    case_id: str


class ComparedPair(ApiModel):
    """Two medians of equal work, or the only one if one side has none."""

    standing: Standing
    one_case_id: str | None
    other_case_id: str | None
    one_cluster: str | None
    other_cluster: str | None
    one_run_id: str | None
    other_run_id: str | None
    one_version: str | None
    other_version: str | None
    one_throughput: float | None
    other_throughput: float | None
    one_n: int | None
    other_n: int | None
    one_tflops_per_device: float | None
    other_tflops_per_device: float | None
    one_mfu: float | None
    other_mfu: float | None
    one_reported: Figures
    """Values that the external script of side `one` printed, by name."""
    other_reported: Figures
    unit: str
    ratio: float | None
    """Throughput of `other` divided by throughput of `one`; above 1, `other` is faster."""
    ratio_low: float | None
    """Lower end of the interval; null if one of the medians has no half-width."""
    ratio_high: float | None


class RatioMean(ApiModel):
    """The geometric mean of the ratios of some pairs; each pair counts once."""

    workload: str | None
    """Workload of the pairs; null for the pairs of all workloads."""
    pairs: int
    ratio: float


class ComparedPairs(Page):
    """A page of a comparison: clear differences first, and of these the largest."""

    items: list[ComparedPair]
    faster: int
    """Number of pairs, on all pages, whose side `other` is clearly faster."""
    slower: int
    unclear: int
    only_one: int
    """Number of pairs without equal work on the other side."""
    only_other: int
    means: list[RatioMean]
    """Means over all pairs, then over the pairs of each workload, whatever filter is chosen."""


class ProposedSides(ApiModel):
    """The two newest versions of what moved most between them; null if nothing has two."""

    one: str | None
    """The older build."""
    other: str | None


class PublishedTable(ApiModel):
    """A diagram or table in the document of a public benchmark."""

    source_document: str
    figure: str | None
    cells: int
    measured: int
    """Number of cells with a matching measured median."""
    empty: int
    """Number of cells that are empty in the original."""


class PublishedCell(ApiModel):
    """A published value, and the measured median that matches it on every axis that it states."""

    reference_id: str
    workload: str
    framework: str
    published_version: str | None
    strategy: str | None
    nodes: int | None
    devices_per_node: int | None
    trainers: int | None
    pservers: int | None
    batch_size: str | None
    precision: str | None
    compiler: str | None
    variant: str | None
    metric: str
    unit: str | None
    is_unit_doubtful: bool
    """The original's axis label contradicts its magnitude: compare ratios only."""
    published_value: float | None
    """Null if the cell is empty in the original; `remark` states the original's text."""
    published_device: str | None
    published_dataset: str | None
    remark: str | None
    case_id: str | None
    cluster: str | None
    run_id: str | None
    measured_at: datetime | None
    measured_version: str | None
    measured_value: float | None
    """Newest matching median, in the published unit; it was measured on other hardware."""
    measured_n: int | None
    measured_is_synthetic: bool | None


By = Literal["framework", "cluster", "version", "build", "run"]
Format = Literal["json", "csv"]


@dataclass(frozen=True)
class CompareApi:
    """Handlers of the API that the pages Compare and Published read."""

    repository: OpenPages

    def pairs(
        self,
        by: By,
        one: str,
        other: str,
        search: str = "",
        standing: Standing | Literal[""] = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
        size: Annotated[int, Query(ge=1, le=500)] = 100,
        format: Format = "json",
    ) -> Any:
        """Medians that did equal work but for one property: pairs, or those of one standing."""
        is_csv = format == "csv"
        with self.repository() as repository:
            found = repository.read(
                "ui_compare",
                by=by,
                one=one,
                other=other,
                search=search or None,
                shown=standing or None,
                max_rows=None if is_csv else size,
                skipped=0 if is_csv else (page - 1) * size,
            )
        rows = [row for row in found if row["standing"] is not None]
        if is_csv:
            return csv_response(rows, ComparedPair)
        counts = {name: found[0][name] for name in get_args(Standing)}
        shown = [standing] if standing else ["faster", "slower", "unclear"]
        return ComparedPairs.of(
            items=rows,
            means=found[0]["means"],
            total=sum(counts[name] for name in shown),
            page=page,
            size=size,
            **counts,
        )

    def sides(self, by: By) -> Items[str]:
        """Return the values of a property that can be compared."""
        with self.repository() as repository:
            return Items(items=[row["side"] for row in repository.compare_sides(by)])

    def proposal(self) -> ProposedSides:
        """Return the two versions that are compared if the user has selected none."""
        with self.repository() as repository:
            return ProposedSides.of(
                repository.first("ui_compare_proposal") or {"one": None, "other": None}
            )

    def overview(self, format: Format = "json") -> Any:
        """Workloads by framework lines: newest medians against the best, and what is published."""
        with self.repository() as repository:
            rows = repository.read("ui_overview")
        if format == "csv":
            return csv_response(rows, OverviewCell)
        return Items[OverviewCell].of(items=rows)

    def curves(self, workload: str) -> Items[CurvePoint]:
        """Newest medians of a workload over devices and over batch sizes, by framework lines.

        Each line has two points at least.
        """
        with self.repository() as repository:
            return Items[CurvePoint].of(items=repository.read("ui_curves", workload=workload))

    def tables(self) -> Items[PublishedTable]:
        """Return the diagrams and tables of the public benchmarks' documents."""
        with self.repository() as repository:
            return Items[PublishedTable].of(items=repository.read("ui_published_figures"))

    def cells(self, source_document: str, figure: str = "", format: Format = "json") -> Any:
        """Return the cells of one diagram or table, each with the medians that match it."""
        with self.repository() as repository:
            rows = repository.read(
                "ui_published", source_document=source_document, figure=figure or None
            )
        if format == "csv":
            return csv_response(rows, PublishedCell)
        return Items[PublishedCell].of(items=rows)
