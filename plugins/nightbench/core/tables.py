"""Tables of a suite: its cases by rows and columns, next to published values. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.core.model import Case, Strategy, SuiteTable, TableMetric

METRICS: Mapping[TableMetric, tuple[str, str]] = {
    "throughput": ("throughput", "/s"),
    "minibatches": ("throughput", "mini-batches/s"),
    "speedup": ("speedup", "times the baseline"),
    "efficiency": ("scaling_efficiency", "%"),
    "tokens_per_device": ("tokens_per_device", "tokens/s/device"),
    "mfu": ("mfu", "%"),
    "tflops": ("tflops", "TFLOP/s/device"),
}
"""Metrics of tables -> the `metric` of published values, and the unit of its cells; of a throughput
the unit is that of the workload, a second."""

NOT_RUN = "not run yet"

Label = tuple[str, ...]
"""The values of a row's or a column's axes, as they are written."""


@dataclass(frozen=True)
class Published:
    """A value of a public benchmark, or a cell that it leaves empty."""

    axes: Mapping[str, Any]
    """Axis -> value in our words; None if the original does not state it."""
    framework: str
    """In the original's words."""
    value: float | None
    unit: str
    """In the original's words."""
    version: str | None = None
    variant: str | None = None
    """Which implementation, if the original has several of one framework."""
    device: str | None = None
    remark: str | None = None


@dataclass(frozen=True)
class CellResult:
    """The result of a case: its newest good median, or why there is none."""

    throughput: float | None = None
    minibatches: float | None = None
    speedup: float | None = None
    efficiency: float | None = None
    """A fraction."""
    unit: str = ""
    n: int = 0
    spread: float | None = None
    run_id: str | None = None
    sent_bytes_per_step: int | None = None
    """Gradients that a trainer sends in a step, if it counts them."""
    reason: str | None = None
    """Why the newest attempt has no value."""
    tokens_per_device: float | None = None
    """A second."""
    mfu: float | None = None
    """A fraction."""
    tflops: float | None = None
    """Model FLOP/s of a device, in 10^12."""


@dataclass(frozen=True)
class Cell:
    """One cell: a measured value, a published one, or the reason why there is no measured one."""

    row: Label
    column: Label
    case_id: str | None
    value: float | None
    unit: str
    published: float | None
    published_unit: str | None
    reason: str | None
    """Why `value` is None."""
    n: int = 0
    spread: float | None = None
    speedup: float | None = None
    efficiency: float | None = None
    run_id: str | None = None
    sent_bytes_per_step: int | None = None
    note: str | None = None
    """Notes about the published value: its framework's version, device, remark."""
    placed: str | None = None
    """Nodes x trainers on each, if trainers of parameter servers have no node of their own."""


def fill(
    table: SuiteTable,
    skipped: Mapping[str, str],
    results: Mapping[str, CellResult],
    published: Iterable[Published] = (),
) -> list[Cell]:
    """Fill a table: a cell for each case and for each published value, row by row.

    A published value is shown next to the case with the same row and column; axes that make neither
    are not compared. If a row matches several implementations of a framework, it is shown next to
    each of them. `skipped` holds by case_id why a case cannot run there, `results` what was
    measured.
    """
    cells: list[Cell] = []
    ours: dict[tuple[Label, Label], Case] = {}
    # If a cell has several cases, take the first that can run: some lines only run `single`.
    for case in sorted(table.cases, key=lambda case: case.case_id in skipped):
        axes = case.axes()
        ours.setdefault((_label(table.rows, axes), _label(table.columns, axes)), case)
    variants: dict[Label, list[str | None]] = {}
    theirs: dict[tuple[Label, str | None, Label], Published] = {}
    for each in published:
        row, column = _label(table.rows, each.axes), _label(table.columns, each.axes)
        known = variants.setdefault(row, [])
        if each.variant not in known:
            known.append(each.variant)
        theirs.setdefault((row, each.variant, column), each)
    rows = dict.fromkeys([row for row, _ in ours] + list(variants))
    columns = dict.fromkeys([c for _, c in ours] + [c for _, _, c in theirs])
    for row in rows:
        for variant in variants.get(row, [None]):
            for column in columns:
                own, figure = ours.get((row, column)), theirs.get((row, variant, column))
                if own is not None or figure is not None:
                    named = (*row[:-1], f"{row[-1]} ({variant})") if variant else row
                    cells.append(_cell(table, named, column, own, skipped, results, figure))
    return cells


def _label(axes: Sequence[str], values: Mapping[str, Any]) -> Label:
    shape = {"devices": f"{values.get('nodes')}x{values.get('devices_per_node')}"}
    found = ({**values, **shape}.get(axis) for axis in axes)
    return tuple("-" if value is None else str(value) for value in found)


def _cell(
    table: SuiteTable,
    row: Label,
    column: Label,
    case: Case | None,
    skipped: Mapping[str, str],
    results: Mapping[str, CellResult],
    figure: Published | None,
) -> Cell:
    result = results.get(case.case_id, CellResult()) if case else CellResult()
    value: float | None = getattr(result, table.metric)
    if value is not None and table.metric in ("efficiency", "mfu"):
        value *= 100
    unit = METRICS[table.metric][1]
    return Cell(
        row=row,
        column=column,
        case_id=case.case_id if case else None,
        value=value,
        unit=f"{result.unit}/s" if table.metric == "throughput" and result.unit else unit,
        published=figure.value if figure else None,
        published_unit=figure.unit if figure else None,
        reason=None if value is not None else _reason(table, case, skipped, result, figure),
        n=result.n,
        spread=result.spread,
        speedup=result.speedup,
        efficiency=result.efficiency,
        run_id=result.run_id,
        sent_bytes_per_step=result.sent_bytes_per_step,
        note=_note(figure),
        placed=_placement_text(case),
    )


def _placement_text(case: Case | None) -> str | None:
    if case is None or case.strategy is not Strategy.PARAMETER_SERVER:
        return None
    return None if case.nodes >= case.trainers else f"{case.nodes}x{case.devices_per_node}"


def _reason(
    table: SuiteTable,
    case: Case | None,
    skipped: Mapping[str, str],
    result: CellResult,
    figure: Published | None,
) -> str:
    if case is None:
        framework = figure.framework if figure else ""
        absent = table.published.only if table.published else {}
        return absent.get(framework, "the suite has no such case")
    if case.case_id in skipped:
        return f"unsupported here: {skipped[case.case_id]}"
    if result.reason is not None:
        return result.reason
    if result.throughput is not None and table.metric in ("mfu", "tflops"):
        return "the FLOPs of the case or the peak of its devices are unknown"
    if result.throughput is not None and table.metric == "tokens_per_device":
        return "the case counts no tokens"
    if result.throughput is not None:
        return "the baseline was not measured in the same run"
    return NOT_RUN


def _note(figure: Published | None) -> str | None:
    if figure is None:
        return None
    version = f"{figure.framework} {figure.version}" if figure.version else figure.framework
    return ", ".join(part for part in (version, figure.device, figure.remark) if part)
