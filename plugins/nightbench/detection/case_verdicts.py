"""Makes a verdict for every planned case of a run, measured or not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nightbench.core.model import (
    CaseStatus,
    HistoryPoint,
    Measurement,
    Reason,
    RegressionPolicy,
    Run,
    Verdict,
    VerdictKind,
)
from nightbench.core.sentences import sentences
from nightbench.detection.change_detector import ChangeDetector, judge_nights
from nightbench.detection.detector import Judgement, segment
from nightbench.detection.node_modes import Modes, modes_of


def judge_cases(
    run: Run,
    planned: Iterable[str],
    measured: Mapping[str, Measurement],
    histories: Mapping[str, Sequence[HistoryPoint]],
    policy: RegressionPolicy,
    not_judged: Mapping[str, str] | None = None,
    controls: Mapping[str, Mapping[str, float]] | None = None,
    with_smallest: bool = True,
    placed: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> list[tuple[Verdict, Judgement | None]]:
    """Return the verdict of each planned case with the detector's judgement; None without a value.

    Those of large runs are judged on several processors.

    Args:
        run: the run that is judged; its `started_at` is the time of tonight.
        planned: case_ids in the order of the plan.
        measured: by case_id; a planned case without one is `missing`.
        histories: good nightly points by case_id, oldest first, without this run's own.
        policy: the suite's.
        not_judged: case_id of what was measured without the policy's metric -> why there is none.
        controls: of the nodes, by case_id and run_id.
        with_smallest: look for smallest slowdown and drift, too.
        placed: as of `modes_of_cases`.

    Raises:
        UserError: a process that judges was ended from outside.
    """
    lacks, measures = not_judged or {}, controls or {}
    found: dict[str, tuple[Verdict, Judgement | None]] = {}
    tonight: dict[str, HistoryPoint] = {}
    case_ids = list(planned)

    for case_id in case_ids:
        each = measured.get(case_id)
        lacking = _lacking(each, lacks.get(case_id))
        if each is not None and lacking is None:
            tonight[case_id] = point_of(run, each)
        elif lacking is not None:
            history = nights_before(run, histories.get(case_id, ()))
            verdict = Verdict(
                case_id,
                run.cluster,
                run.run_id,
                *lacking,
                history=len(history),
                last_good_run_id=_run_id(history[-1] if history else None),
            )
            found[case_id] = verdict, None
    nights = (
        (
            ChangeDetector(
                with_smallest,
                measures.get(case_id, {}),
                nodes=(placed or {}).get(case_id, {}),
            ),
            nights_before(run, histories.get(case_id, ())),
            point,
        )
        for case_id, point in tonight.items()
    )
    judged = judge_nights(nights, len(tonight), policy)
    for (case_id, point), judgement in zip(tonight.items(), judged, strict=True):
        found[case_id] = verdict_of(case_id, run.cluster, point, judgement), judgement
    return [
        (replace(verdict, metric=policy.metric), each)
        for verdict, each in (found[case_id] for case_id in case_ids)
    ]


def nights_before(run: Run, history: Iterable[HistoryPoint]) -> list[HistoryPoint]:
    """Return the nights before a run: one that is judged again must not be its own baseline."""
    return [p for p in history if p.run_id != run.run_id and p.at < run.started_at]


def modes_of_cases(
    run: Run,
    measured: Mapping[str, Measurement],
    histories: Mapping[str, Sequence[HistoryPoint]],
    placed: Mapping[str, Mapping[str, Sequence[str]]],
) -> dict[str, Modes]:
    """Return the node modes of each series that has them, with its earlier nights, by case_id.

    Args:
        run: the run that is judged.
        measured: by case_id.
        histories: good nightly points by case_id, oldest first, without this run's own.
        placed: case_id -> run_id -> nodes; the nodes of most runs under an empty run_id.
    """
    found: dict[str, Modes] = {}
    for case_id, nodes in placed.items():
        history, each = histories.get(case_id, ()), measured[case_id]
        if len(nodes) > 1 and each.throughput is not None and history:
            tonight = point_of(run, each)
            modes = modes_of([*segment(history, tonight), tonight], nodes)
            if modes is not None:
                by_run = {point.run_id: point for point in modes.points}
                points = [by_run.get(point.run_id, point) for point in history]
                found[case_id] = replace(modes, points=points)
    return found


def point_of(run: Run, measurement: Measurement) -> HistoryPoint:
    """Return tonight's point of a series.

    Raises:
        ValueError: the measurement has no throughput.
    """
    if measurement.throughput is None:
        raise ValueError(f"{measurement.case.case_id} has no throughput")
    return HistoryPoint(
        at=run.started_at,
        value=measurement.throughput,
        run_id=run.run_id,
        n=measurement.n,
        spread=measurement.spread,
        fingerprint_id=measurement.fingerprint_id or None,
        definition_digest=measurement.definition_digest or None,
        framework_version=measurement.framework_version,
    )


def verdict_of(case_id: str, cluster: str, tonight: HistoryPoint, judgement: Judgement) -> Verdict:
    """Return a judgement of tonight's point of a series as its verdict."""
    return Verdict(
        case_id=case_id,
        cluster=cluster,
        run_id=tonight.run_id,
        kind=judgement.kind,
        sentence=judgement.sentence,
        value=tonight.value,
        baseline=judgement.baseline,
        change=judgement.change,
        history=judgement.history,
        smallest_slowdown=judgement.smallest_slowdown,
        level_change=judgement.level_change,
        low=judgement.low,
        high=judgement.high,
        since=judgement.since,
        first_bad_run_id=_run_id(judgement.first_bad),
        last_good_run_id=_run_id(judgement.last_good),
    )


def _lacking(
    measurement: Measurement | None, not_judged: str | None
) -> tuple[VerdictKind, str] | None:
    """Return the verdict on a case without a value that can be judged; None for all others."""
    if measurement is None:
        return VerdictKind.MISSING, "Planned, but the run has no result."
    if measurement.status is CaseStatus.CANCELLED:
        return VerdictKind.MISSING, _why(measurement.reasons)
    if measurement.status is CaseStatus.UNAVAILABLE:
        return VerdictKind.UNAVAILABLE, _why(measurement.reasons)
    if measurement.status is CaseStatus.FAILED:
        return VerdictKind.FAILED, _why(measurement.reasons)
    if not_judged and not measurement.quarantined:
        return VerdictKind.INSUFFICIENT_DATA, f"Not judged: {not_judged}."
    if measurement.quarantined or measurement.throughput is None:
        reasons = measurement.quarantine_reasons or measurement.reasons
        return VerdictKind.FAILED, f"Quarantined: {sentences(reasons)}"
    return None


def _run_id(point: HistoryPoint | None) -> str | None:
    return (point.run_id or None) if point else None


def _why(reasons: Sequence[Reason]) -> str:
    return sentences(reasons) or "the measurement failed without a reason"
