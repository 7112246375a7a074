"""Judges a night as a whole: changes that many series share, and each residual."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from statistics import median

from nightbench.alerts.shared_alerts import LiveSharedChange
from nightbench.core.model import (
    HistoryPoint,
    MeasuredCase,
    PlannedCase,
    RegressionPolicy,
    Run,
    Verdict,
    VerdictKind,
)
from nightbench.detection import ChangeDetector, Judgement, nights_before
from nightbench.detection import verdict_sentences as sentences
from nightbench.detection.case_verdicts import verdict_of
from nightbench.detection.change_detector import judge_nights
from nightbench.detection.changes import LEAST_REFERENCE, TAIL
from nightbench.detection.detector import segment, segment_before
from nightbench.detection.evidence import REFERENCE
from nightbench.detection.factors import (
    APART,
    Factor,
    FactorKind,
    NightRow,
    SharedChange,
    without_shared,
)
from nightbench.detection.shared_changes import shared_changes
from nightbench.detection.two_way_fit import SMALLEST_GROUP
from nightbench.warehouse import Warehouse

CHANGES = (VerdictKind.REGRESSED, VerdictKind.IMPROVED)

Placements = Mapping[str, Mapping[str, Sequence[str]]]
"""case_id -> run_id -> nodes; the nodes of most runs under an empty run_id alone."""


@dataclass(frozen=True)
class SharedVerdicts:
    """A night's verdicts, with what the series share taken into account."""

    verdicts: Sequence[Verdict]
    changes: Sequence[SharedChange] = ()
    own: frozenset[str] = frozenset()
    """Members that show a change of their own after the shared change is subtracted."""
    rows: Mapping[str, NightRow] = field(default_factory=dict)
    """Rows of the cases that have a value, by case_id."""


def judge_shared(
    warehouse: Warehouse,
    run: Run,
    planned: Mapping[str, PlannedCase],
    measured: Mapping[str, MeasuredCase],
    histories: Mapping[str, Sequence[HistoryPoint]],
    verdicts: Sequence[Verdict],
    policy: RegressionPolicy,
    placed: Placements,
    machines: Mapping[str, Sequence[HistoryPoint]],
) -> SharedVerdicts:
    """Find the changes that cases of a nightly run share, and judge the residual of each.

    A series that changed with others without showing it alone is `regressed` or `improved` by what
    they show together. `machines` are the nights of reference builds by case_id: controls of the
    nodes, of which the case next to it has no shared change left.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    rows = {
        case_id: _row(run, planned[case_id], each.point, histories.get(case_id, ()), placed)
        for case_id, each in measured.items()
        if each.point is not None
    }
    days = {p.run_id: p.at for row in rows.values() for p in row.points}
    controls = list(_controls(warehouse, run, days))
    for case_id in machines.keys() & rows.keys():
        row = rows[case_id]
        own = {each for each in row.factors if each.kind in (FactorKind.LINE, FactorKind.WORKLOAD)}
        controls.append(
            replace(
                row,
                name=f"reference of {case_id}",
                points=machines[case_id],
                factors={*row.factors} - own,
                is_control=True,
            )
        )
        rows[case_id] = replace(row, factors=own, nodes={}, usual_nodes=())
    return find_shared(rows, controls, verdicts, policy)


def find_shared(
    rows: Mapping[str, NightRow],
    controls: Sequence[NightRow],
    verdicts: Sequence[Verdict],
    policy: RegressionPolicy,
) -> SharedVerdicts:
    """Find the changes that series share, and judge the residual of each. Pure.

    Args:
        rows: of the cases that have a value, by case_id.
        controls: control measurements of the same night.
        verdicts: of each case by itself.
        policy: of the suite.
    """
    alone = {
        each.case_id: (each.since.date(), each.level_change)
        for each in verdicts
        if each.since is not None and each.level_change is not None
    }
    changes = shared_changes([*rows.values(), *controls], policy, alone)
    lines: dict[Factor, list[str]] = defaultdict(list)
    for case_id, row in rows.items():
        lines[_line(row)].append(case_id)
    mine = {
        verdict.case_id: [each for each in changes if verdict.case_id in each.members]
        for verdict in verdicts
    }
    again: dict[str, Sequence[HistoryPoint]] = {}
    beside: dict[str, str] = {}
    for verdict in verdicts:
        if verdict.kind not in CHANGES:
            continue
        case_id, row = verdict.case_id, rows[verdict.case_id]
        if mine[case_id]:
            again[case_id] = without_shared(row, changes)
            continue
        others = [rows[other] for other in lines[_line(row)] if other != case_id]
        unchanged = _unchanged_by_release(row, others, alone)
        if unchanged:
            again[case_id], beside[case_id] = row.points, unchanged
    # Here a new version makes no change likelier.
    nights = (
        (ChangeDetector(with_smallest=False, by_releases=False), points[:-1], points[-1])
        for points in again.values()
    )
    left = dict(zip(again, judge_nights(nights, len(again), policy), strict=True))
    own = set()
    found: list[Verdict] = []
    for verdict in verdicts:
        case_id = verdict.case_id
        if case_id not in rows or not (mine[case_id] or case_id in left):
            found.append(verdict)
        elif not mine[case_id]:
            now = left[case_id], beside[case_id]
            found.append(_without_release(rows[case_id], verdict, *now))
        elif verdict.kind in CHANGES:
            # Members may change by different amounts, but not from another night on.
            kind, since = left[case_id].kind, left[case_id].since
            if kind is verdict.kind and not any(
                since and abs((since.date() - each.since).days) <= APART for each in mine[case_id]
            ):
                own.add(case_id)
            found.append(sentences.with_shared(verdict, mine[case_id]))
        else:
            found.append(_verdict_of_shared(rows[case_id], verdict, mine[case_id][0]))
    return SharedVerdicts(found, changes, frozenset(own), rows)


def residual_parts(
    live: Sequence[LiveSharedChange], rows: Mapping[str, NightRow]
) -> dict[int, float]:
    """Return by alert the part of its shared change that members show tonight; 1: all of it.

    The median over the members: each one's distance tonight from its level before, as a part of its
    own step. A shared change of which too few members have a value has none.
    """
    found: dict[int, float] = {}
    for shared in live:
        parts = []
        for case_id in sorted(shared.members.keys() & rows.keys()):
            points = rows[case_id].points
            before = [p.value for p in points if p.at.date() < shared.since][-REFERENCE:]
            if len(before) >= LEAST_REFERENCE and shared.members[case_id]:
                off = math.log(points[-1].value / median(before))
                parts.append(off / math.log1p(shared.members[case_id]))
        if len(parts) >= SMALLEST_GROUP:
            found[shared.alert_id] = median(parts)
    return found


def _line(row: NightRow) -> Factor:
    return next(factor for factor in row.factors if factor.kind is FactorKind.LINE)


def _unchanged_by_release(
    row: NightRow, others: Sequence[NightRow], alone: Mapping[str, tuple[date, float]]
) -> str:
    """Return how few series of a line moved with one that moved with no other.

    A new version makes a change that begins with it likelier. If it moved fewer than three
    series of its line, it does not, and the nights speak for themselves. Else empty.
    """
    since = alone[row.name][0] if row.name in alone else None
    before = [each for each in others if since and each.points[0].at.date() < since]
    moved = [each for each in before if each.name in alone and alone[each.name][0] == since]
    if since is None or len(before) < SMALLEST_GROUP or len(moved) + 1 >= SMALLEST_GROUP:
        return ""
    return sentences.not_of_the_version(since, len(moved), len(before), _line(row).name)


def _without_release(row: NightRow, verdict: Verdict, left: Judgement, unchanged: str) -> Verdict:
    """Return the verdict on a series that moved with no other, by what its nights alone say."""
    if left.kind in CHANGES:
        return verdict
    return replace(
        verdict_of(verdict.case_id, verdict.cluster, row.points[-1], left),
        smallest_slowdown=verdict.smallest_slowdown,
        sentence=left.sentence + unchanged,
    )


def _verdict_of_shared(row: NightRow, verdict: Verdict, shared: SharedChange) -> Verdict:
    """Return the verdict on a series that moved with others and does not show it alone."""
    step = shared.members[row.name]
    before = [point for point in row.points if point.at.date() < shared.since]
    since = [point for point in row.points if point.at.date() >= shared.since]
    tonight = row.points[-1]
    baseline = verdict.baseline or tonight.value / (1 + step)
    return replace(
        verdict,
        kind=VerdictKind.REGRESSED if shared.is_drop else VerdictKind.IMPROVED,
        sentence=sentences.shown_by_others(tonight.value, baseline, shared, step),
        baseline=baseline,
        change=tonight.value / baseline - 1,
        level_change=step,
        low=min(shared.low, step),
        high=max(shared.high, step),
        since=since[0].at,
        first_bad_run_id=since[0].run_id or None,
        last_good_run_id=(before[-1].run_id or None) if before else None,
    )


def _row(
    run: Run,
    planned: PlannedCase,
    tonight: HistoryPoint,
    history: Sequence[HistoryPoint],
    placed: Placements,
) -> NightRow:
    past = nights_before(run, history)
    nights = segment(past, tonight)
    if len(nights) < TAIL:
        # New hardware or a new driver: the nights before show which series it changed.
        nights = [*segment_before(past, nights, tonight), *nights]
    case = planned.case
    factors = {
        Factor(FactorKind.CLUSTER, run.cluster),
        Factor(FactorKind.LINE, case.framework),
        Factor(FactorKind.WORKLOAD, case.workload),
    }
    if case.nodes > 1:
        factors.add(Factor(FactorKind.NETWORK, run.cluster))
    nodes = placed.get(case.case_id, {})
    usual = nodes.get("", ())
    return NightRow(case.case_id, [*nights, tonight], factors, nodes, usual_nodes=usual)


def placements(
    warehouse: Warehouse, run: Run, case_ids: Sequence[str]
) -> dict[str, dict[str, Sequence[str]]]:
    """Return the nodes that series ran on, see `Placements`."""
    found: dict[str, dict[str, Sequence[str]]] = {}
    for row in warehouse.series.read(
        "placements", cluster=run.cluster, case_ids=case_ids, until=run.started_at
    ):
        nodes = found.setdefault(row["case_id"], {})
        if not nodes:
            nodes[""] = row["nodes"]
        else:
            nodes.update(dict.fromkeys(row["run_ids"], row["nodes"]))
    return found


def _controls(warehouse: Warehouse, run: Run, days: Mapping[str, datetime]) -> Iterable[NightRow]:
    points: dict[tuple[str, ...], list[HistoryPoint]] = defaultdict(list)
    for row in warehouse.causes.read("night_controls", cluster=run.cluster, until=run.started_at):
        if row["run_id"] in days and row["median"] > 0:
            key = (row["node"], row["metric"], row["device"], row["backend"] or "")
            point = HistoryPoint(days[row["run_id"]], row["median"], row["run_id"])
            points[key].append(point)
    for (node, metric, *rest), measured in points.items():
        factors = {Factor(FactorKind.CLUSTER, run.cluster)}
        if "+" in node:
            factors.add(Factor(FactorKind.NETWORK, run.cluster))
        measured.sort(key=lambda point: point.at)
        name = " ".join(filter(None, (metric, node, *rest)))
        yield NightRow(name, measured, factors, usual_nodes=node.split("+"), is_control=True)
