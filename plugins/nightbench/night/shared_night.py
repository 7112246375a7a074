"""Judges a night as one: what many of its series moved by together, and what is left of each."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nightbench.core.model import (
    HistoryPoint,
    Measurement,
    PlannedCase,
    RegressionPolicy,
    Run,
    Verdict,
    VerdictKind,
)
from nightbench.detection import ChangeDetector, Judgement, point_of
from nightbench.detection.changes import TAIL
from nightbench.detection.detector import segment, segment_before
from nightbench.detection.factors import (
    Factor,
    FactorKind,
    NightRow,
    SharedMovement,
    without_shared,
)
from nightbench.detection.shared_movements import shared_movements
from nightbench.nodes.node_preflight import ALL_REDUCE
from nightbench.warehouse import Warehouse

CHANGES = (VerdictKind.REGRESSED, VerdictKind.IMPROVED)

JudgedCase = tuple[Verdict, Judgement | None]


@dataclass(frozen=True)
class SharedNight:
    """A night's cases, with what they share taken into account."""

    cases: Sequence[JudgedCase]
    movements: Sequence[SharedMovement]
    own: frozenset[str]
    """Members of a movement that show a change of their own when it is taken out."""


def judge_shared(
    warehouse: Warehouse,
    run: Run,
    planned: Mapping[str, PlannedCase],
    measured: Mapping[str, Measurement],
    histories: Mapping[str, Sequence[HistoryPoint]],
    cases: Sequence[JudgedCase],
    policy: RegressionPolicy,
) -> SharedNight:
    """Find the movements that cases of a nightly run share, and judge what is left of each.

    A series that moved with others without showing it alone is `regressed` or `improved` by what
    they show together.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    judged = {verdict.case_id: each for verdict, each in cases if each is not None}
    placed = _placements(warehouse, run, list(judged))
    rows = {
        case_id: _row(run, planned[case_id], measured[case_id], histories.get(case_id, ()), placed)
        for case_id in judged
    }
    alone = {
        case_id: (each.since.date(), each.level_change)
        for case_id, each in judged.items()
        if each.since is not None and each.level_change is not None
    }
    days = {p.run_id: p.at for row in rows.values() for p in row.points}
    controls = _controls(warehouse, run, days)
    movements = shared_movements([*rows.values(), *controls], policy, alone)
    own = set()
    found: list[JudgedCase] = []
    for verdict, judgement in cases:
        mine = [each for each in movements if verdict.case_id in each.members]
        if not mine or judgement is None:
            found.append((verdict, judgement))
            continue
        row = rows[verdict.case_id]
        if verdict.kind in CHANGES:
            *before, tonight = without_shared(row, movements)
            left = ChangeDetector(with_smallest=False).judge(before, tonight, policy)
            if left.kind in CHANGES:
                own.add(verdict.case_id)
            shared = "; ".join(each.sentence for each in mine)
            sentence = f"{verdict.sentence.rstrip('.')}; shared: {shared}."
            found.append((replace(verdict, sentence=sentence), judgement))
        else:
            found.append(_moved(row, verdict, judgement, mine[0]))
    return SharedNight(found, movements, frozenset(own))


def _moved(
    row: NightRow, verdict: Verdict, judgement: Judgement, movement: SharedMovement
) -> JudgedCase:
    """Return the verdict on a series that moved with others and does not show it alone."""
    step = movement.members[row.name]
    before = [point for point in row.points if point.at.date() < movement.since]
    since = [point for point in row.points if point.at.date() >= movement.since]
    tonight = row.points[-1]
    baseline = verdict.baseline or tonight.value / (1 + step)
    kind = VerdictKind.REGRESSED if movement.falls else VerdictKind.IMPROVED
    sentence = (
        f"{tonight.value:.4g} is {abs(tonight.value / baseline - 1):.1%} "
        f"{'below' if tonight.value < baseline else 'above'} {baseline:.4g}; its own nights do not "
        f"show a change, those of others do: {movement.sentence}, {step:+.1%} of this one."
    )
    changed = replace(
        verdict,
        kind=kind,
        sentence=sentence,
        baseline=baseline,
        change=tonight.value / baseline - 1,
        level_change=step,
        low=min(movement.low, step),
        high=max(movement.high, step),
        since=since[0].at,
        first_bad_run_id=since[0].run_id or None,
        last_good_run_id=(before[-1].run_id or None) if before else None,
    )
    return changed, replace(judgement, kind=kind, sentence=sentence, drift=None)


def _row(
    run: Run,
    planned: PlannedCase,
    measured: Measurement,
    history: Sequence[HistoryPoint],
    placed: Mapping[str, Mapping[str, Sequence[str]]],
) -> NightRow:
    tonight = point_of(run, measured)
    past = [p for p in history if p.run_id != run.run_id and p.at < run.started_at]
    nights = segment(past, tonight)
    if len(nights) < TAIL:
        # New hardware or a new driver: what came before shows what it moved.
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


def _placements(
    warehouse: Warehouse, run: Run, case_ids: Sequence[str]
) -> dict[str, dict[str, Sequence[str]]]:
    """Return case_id -> run_id -> nodes; the nodes of most runs under an empty run_id alone."""
    found: dict[str, dict[str, Sequence[str]]] = {}
    for row in warehouse.series.placements(run.cluster, case_ids, run.started_at):
        nodes = found.setdefault(row["case_id"], {})
        if not nodes:
            nodes[""] = row["nodes"]
        else:
            nodes.update(dict.fromkeys(row["run_ids"], row["nodes"]))
    return found


def _controls(warehouse: Warehouse, run: Run, days: Mapping[str, datetime]) -> Iterable[NightRow]:
    """Return the control measurements of the nodes as rows of the night."""
    points: dict[tuple[str, ...], list[HistoryPoint]] = defaultdict(list)
    for row in warehouse.causes.night_controls(run.cluster, run.started_at):
        if row["run_id"] in days and row["median"] > 0:
            key = (row["node"], row["metric"], row["device"], row["backend"] or "")
            point = HistoryPoint(days[row["run_id"]], row["median"], row["run_id"])
            points[key].append(point)
    for (node, metric, *rest), measured in points.items():
        factors = {Factor(FactorKind.CLUSTER, run.cluster)}
        if metric == ALL_REDUCE:
            factors.add(Factor(FactorKind.NETWORK, run.cluster))
        measured.sort(key=lambda point: point.at)
        name = " ".join(filter(None, (metric, node, *rest)))
        yield NightRow(name, measured, factors, usual_nodes=node.split("+"), is_control=True)
