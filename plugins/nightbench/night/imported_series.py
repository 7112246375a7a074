"""Changes that the detector finds in imported series."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nightbench.alerts.explain import explain_alerts
from nightbench.alerts.outbox import ALERT
from nightbench.alerts.ranking import store_ranks
from nightbench.core.model import HistoryPoint, Verdict, VerdictKind
from nightbench.detection.history import HistoryReport, judge_histories
from nightbench.warehouse import Warehouse


@dataclass(frozen=True)
class ImportedSeries:
    """A series with all its nights, imported or measured, and its changes."""

    case_id: str
    cluster: str
    nights: tuple[HistoryPoint, ...]
    report: HistoryReport


def judge_imported(
    warehouse: Warehouse, series: Collection[tuple[str, str]], min_change: float
) -> Iterator[ImportedSeries]:
    """Judge the whole history of series (case_id, cluster), each night as when it was measured."""
    names = sorted(series)
    nights = [warehouse.series.history(*name) for name in names]
    histories = [
        (f"{case_id} on {cluster}", points)
        for (case_id, cluster), points in zip(names, nights, strict=True)
    ]
    reports = judge_histories(histories, min_change=min_change)
    for (case_id, cluster), points, report in zip(names, nights, reports, strict=True):
        yield ImportedSeries(case_id, cluster, tuple(points), report)


def open_alerts(
    warehouse: Warehouse, series: Collection[ImportedSeries], min_change: float
) -> list[ImportedSeries]:
    """Open and return an alert for each series that dropped within its last 30 nights.

    Their causes are found as after a night: a framework's version that changed with the drop.

    No message is sent: the user reads the answer. A series with a live alert gets no other.
    """
    opened = []
    for each in series:
        if each.report.status != VerdictKind.REGRESSED:
            continue
        verdict = _verdict(each)
        warehouse.alerts.lock(each.cluster)
        warehouse.series.store_verdicts([verdict])
        if warehouse.alerts.open(verdict):
            (alert,) = warehouse.alerts.find(case_id=each.case_id, cluster=each.cluster, limit=1)
            warehouse.messages.settle([(ALERT, str(alert["alert_id"]), verdict.run_id)])
            opened.append(each)
    for run_id in sorted({each.nights[-1].run_id for each in opened}):
        run = warehouse.runs.get(run_id)
        if run is not None:
            explain_alerts(warehouse.causes, run, min_change)
            store_ranks(warehouse, run.cluster)
    return opened


def _verdict(series: ImportedSeries) -> Verdict:
    change, last = series.report.changes[-1], series.nights[-1]
    return Verdict(
        series.case_id,
        series.cluster,
        last.run_id,
        VerdictKind.REGRESSED,
        change.sentence,
        value=last.value,
        baseline=change.baseline,
        change=last.value / change.baseline - 1,
        level_change=change.change,
        history=len(series.nights),
        smallest_slowdown=series.report.smallest_slowdown,
        low=change.low,
        high=change.high,
        since=change.first_bad.at,
        first_bad_run_id=change.first_bad.run_id,
        last_good_run_id=change.last_good.run_id,
    )
