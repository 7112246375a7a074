"""Replays the warehouse's history under two policies and asks people's labels which is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
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
from nightbench.core.model import HistoryPoint, RegressionPolicy, RunKind
from nightbench.detection import ChangeDetector
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
    """What a policy would have done, beside another one."""

    series: int
    nights: int
    """That were replayed and count."""
    labelled: tuple[LabelledAlert, ...]
    current: Score
    proposed: Score | None
    """None where none was proposed."""


Progress = Callable[[int, int, str], None]
"""Called before each series: how many are done, of how many, and which comes next."""


def backtest(
    pasts: Sequence[PastSeries],
    labelled: Sequence[LabelledAlert],
    policy_of: Callable[[str], RegressionPolicy],
    proposed: Mapping[str, Any] | None = None,
    since: datetime | None = None,
    progress: Progress | None = None,
) -> Backtest:
    """Replay series under their suites' policies and, where asked for, under changed ones.

    Args:
        pasts: the series.
        labelled: alerts of the past of which people said something.
        policy_of: the policy of a suite.
        proposed: fields of the policy that are proposed to be other.
        since: only alerts from then on count.
        progress: hears of each series.
    """
    # No alert rests on the smallest slowdown, which takes most of a judgement's time.
    detector = ChangeDetector(with_smallest=False)
    sides: tuple[list[RaisedAlert], list[RaisedAlert]] = ([], [])
    for done, past in enumerate(pasts):
        if progress:
            progress(done, len(pasts), past.series[0])
        policy = policy_of(past.suite)
        sides[0].extend(replay(past.series, past.points, policy, detector, since))
        if proposed:
            other = replace(policy, **proposed)
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
    """Series of the warehouse with all their nights, imported ones too.

    Args:
        connection: of a role that may read the marts.
        names: case ids, or patterns of them with `*`; all where empty.
        suite: only series that this suite measured last.
        cluster: only on this one.

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
            f"series: found none{_asked(names, suite, cluster)}, expected series with nightly "
            "results. `nightbench results` shows cases, `nightbench import` loads older ones."
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


def pasts_in(path: Path, names: Sequence[str] = ()) -> list[PastSeries]:
    """Series of a file as `nightbench import` takes it; nothing is stored.

    Raises:
        UserError: the file is not what it should be, or holds no such series.
    """
    found: dict[SERIES, PastSeries] = {}
    points: dict[SERIES, list[HistoryPoint]] = {}
    for run, planned, measured in read_history(path):
        named = not names or any(fnmatchcase(planned.case_id, name) for name in names)
        if measured.throughput is None or run.run_kind is not RunKind.NIGHTLY or not named:
            continue
        key = (planned.case_id, run.cluster)
        points.setdefault(key, []).append(
            HistoryPoint(
                run.started_at,
                measured.throughput,
                run.run_id,
                measured.n,
                measured.spread,
                measured.fingerprint_id or None,
                measured.definition_digest or None,
                measured.framework_version,
            )
        )
        found[key] = PastSeries(key, run.suite, points[key])
    if not found:
        raise UserError(f"{path}: found no nightly series{_asked(names)}")
    for nights in points.values():
        nights.sort(key=lambda point: point.at)
    return list(found.values())


def labels_of(connection: Connection) -> list[LabelledAlert]:
    """Alerts on falls of which people said whether they were right."""
    warehouse = Warehouse(connection)
    events: dict[int, list[dict[str, Any]]] = {}
    for event in warehouse.alerts.moves():
        events.setdefault(event["alert_id"], []).append(event)
    labelled = []
    for row in warehouse.alerts.regressions():
        label = label_of(events.get(row["alert_id"], []), row.pop("dismissed_as"))
        if label is not None:
            labelled.append(LabelledAlert(is_true=label, **row))
    return labelled


def _asked(names: Sequence[str], suite: str | None = None, cluster: str | None = None) -> str:
    said = [f'named "{name}"' for name in names]
    said += [f"of suite {suite}"] if suite else []
    said += [f"on {cluster}"] if cluster else []
    return f" {' or '.join(said)}" if said else ""
