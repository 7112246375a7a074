"""Replays the warehouse's history under two policies and scores both by people's labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from nightbench.alerts.replay import (
    SERIES,
    LabelledAlert,
    RaisedAlert,
    Score,
    label_of,
    replay,
    score,
)
from nightbench.core.errors import UserError
from nightbench.core.history_file import HistoryFile
from nightbench.core.model import HistoryPoint, RegressionPolicy, RunKind
from nightbench.detection import ChangeDetector
from nightbench.detection.case_verdicts import point_of
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.history_import import read_history


@dataclass(frozen=True)
class PastSeries:
    """A series with its suite."""

    series: SERIES
    suite: str
    points: Sequence[HistoryPoint]


@dataclass(frozen=True)
class Backtest:
    """Alerts under the current policies and under a proposed one."""

    series: int
    nights: int
    """Nights that were replayed and count."""
    labelled: tuple[LabelledAlert, ...]
    current: Score
    proposed: Score | None
    """None without a proposed policy."""


Progress = Callable[[int, int, str], None]
"""Called before each series with the number of finished ones, the total, and its name."""


def backtest(
    pasts: Sequence[PastSeries],
    labelled: Sequence[LabelledAlert],
    policy_of: Callable[[str], RegressionPolicy],
    proposed: Mapping[str, Any] | None = None,
    since: datetime | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Replay series under their suites' policies and, if given, under changed ones.

    `proposed` holds the fields of the policy with other values. Only alerts from `since` on count.
    """
    # Skip the smallest slowdown: it takes most of the time and affects no alert.
    detector = ChangeDetector(with_smallest=False)
    sides: tuple[list[RaisedAlert], list[RaisedAlert]] = ([], [])
    for done, past in enumerate(pasts):
        if progress:
            progress(done, len(pasts), past.series[0])
        policy = policy_of(past.suite)
        sides[0].extend(replay(past.series, past.points, policy, detector, since))
        if proposed:
            other = policy.model_copy(update=proposed)
            sides[1].extend(replay(past.series, past.points, other, detector, since))
    if progress:
        progress(len(pasts), len(pasts), "")
    chosen = {past.series for past in pasts}
    known = tuple(
        each
        for each in labelled
        if each.series in chosen and (since is None or each.opened_at >= since)
    )
    return Backtest(
        series=len(pasts),
        nights=sum(since is None or p.at >= since for past in pasts for p in past.points),
        labelled=known,
        current=score(sides[0], known),
        proposed=score(sides[1], known) if proposed else None,
    )


def pasts_of(
    connection: Connection,
    names: Sequence[str] = (),
    suite: str | None = None,
    cluster: str | None = None,
) -> list[PastSeries]:
    """Return series of the warehouse with all their nights, imported ones too.

    `names` are case ids, or patterns of them with `*`; all if empty. A suite's series are those
    that it measured last.

    Raises:
        UserError: there is no such series.
    """
    rows = [
        row
        for row in Warehouse(connection).series.find(suite, cluster)
        if not names or any(fnmatchcase(row["case_id"], name) for name in names)
    ]
    if not rows:
        raise UserError(
            f"series: found none{_filters(names, suite, cluster)}, expected series with nightly "
            "results. `nightbench results` lists cases, `nightbench import` loads older results."
        )
    warehouse = Warehouse(connection)
    return [
        PastSeries(
            (row["case_id"], row["cluster"]),
            row["suite"],
            warehouse.series.history(row["case_id"], row["cluster"]),
        )
        for row in rows
    ]


def pasts_in(file: HistoryFile) -> list[PastSeries]:
    """Return the series of a file for `nightbench import`; nothing is stored.

    Raises:
        UserError: the file is invalid, or holds no such series.
    """
    found: dict[SERIES, PastSeries] = {}
    points: dict[SERIES, list[HistoryPoint]] = {}
    for run, planned, measured in read_history(file):
        if measured.throughput is None or run.run_kind is not RunKind.NIGHTLY:
            continue
        key = (planned.case_id, run.cluster)
        points.setdefault(key, []).append(point_of(run, measured))
        found[key] = PastSeries(key, run.suite, points[key])
    if not found:
        raise UserError(f"{file.path}: found no nightly series")
    for nights in points.values():
        nights.sort(key=lambda point: point.at)
    return list(found.values())


def labels_of(connection: Connection) -> list[LabelledAlert]:
    """Return alerts on drops that people labelled right or wrong."""
    warehouse = Warehouse(connection)
    events: dict[int, list[dict[str, Any]]] = {}
    for event in warehouse.alerts.read("alert_moves"):
        events.setdefault(event["alert_id"], []).append(event)
    labelled = []
    for row in warehouse.alerts.read("regressions"):
        label = label_of(events.get(row["alert_id"], []), row.pop("dismissed_as"))
        if label is not None:
            labelled.append(LabelledAlert(is_true=label, **row))
    return labelled


def _filters(names: Sequence[str], suite: str | None = None, cluster: str | None = None) -> str:
    said = [f'named "{name}"' for name in names]
    said += [f"of suite {suite}"] if suite else []
    said += [f"on {cluster}"] if cluster else []
    return f" {' or '.join(said)}" if said else ""
