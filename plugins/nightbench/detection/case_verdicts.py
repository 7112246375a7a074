"""Makes a verdict for every planned case of a run, measured or not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

from nightbench.core.model import (
    CaseStatus,
    HistoryPoint,
    MeasuredCase,
    Measurement,
    RegressionPolicy,
    Run,
    Verdict,
    VerdictKind,
)
from nightbench.core.sentences import sentences
from nightbench.detection.change_detector import ChangeDetector, judge_nights
from nightbench.detection.detector import Judgement, segment
from nightbench.detection.node_modes import Modes, modes_of

_UNMEASURED = {
    CaseStatus.CANCELLED: VerdictKind.MISSING,
    CaseStatus.UNAVAILABLE: VerdictKind.UNAVAILABLE,
    CaseStatus.FAILED: VerdictKind.FAILED,
}


def judge_cases(
    run: Run,
    planned: Iterable[str],
    measured: Mapping[str, MeasuredCase],
    histories: Mapping[str, Sequence[HistoryPoint]],
    policy: RegressionPolicy,
    controls: Mapping[str, Mapping[str, float]] | None = None,
    with_smallest: bool = True,
    placed: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> tuple[list[Verdict], dict[str, Judgement]]:
    """Return the verdicts of planned cases, and the judgements of those with a value by case_id.

    Those of large runs are judged on several processors.

    Args:
        run: the run that is judged; its `started_at` is the time of tonight.
        planned: case_ids in the order of the plan.
        measured: by case_id; a planned case without one is `missing`.
        histories: good nightly points by case_id, oldest first, without this run's own.
        policy: the suite's.
        controls: of the nodes, by case_id and run_id.
        with_smallest: look for smallest slowdown and drift, too.
        placed: as of `modes_of_cases`.

    Raises:
        UserError: a process that judges was ended from outside.
    """
    measures = controls or {}
    found: dict[str, Verdict] = {}
    tonight: dict[str, HistoryPoint] = {}
    case_ids = list(planned)

    for case_id in case_ids:
        each = measured.get(case_id)
        if each is not None and each.point is not None:
            tonight[case_id] = each.point
            continue
        history = nights_before(run, histories.get(case_id, ()))
        found[case_id] = Verdict(
            case_id,
            run.cluster,
            run.run_id,
            *_lacking(each),
            history=len(history),
            last_good_run_id=_run_id(history[-1] if history else None),
        )
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
    judgements = dict(zip(tonight, judge_nights(nights, len(tonight), policy), strict=True))
    for case_id, judgement in judgements.items():
        found[case_id] = verdict_of(case_id, run.cluster, tonight[case_id], judgement)
    return [replace(found[case_id], metric=policy.metric) for case_id in case_ids], judgements


def nights_before(run: Run, history: Iterable[HistoryPoint]) -> list[HistoryPoint]:
    """Return the nights before a run: one that is judged again must not be its own baseline."""
    return [p for p in history if p.run_id != run.run_id and p.at < run.started_at]


def modes_of_cases(
    measured: Mapping[str, MeasuredCase],
    histories: Mapping[str, Sequence[HistoryPoint]],
    placed: Mapping[str, Mapping[str, Sequence[str]]],
) -> dict[str, Modes]:
    """Return the node modes of each series that has them, with its earlier nights, by case_id.

    Args:
        measured: by case_id.
        histories: good nightly points by case_id, oldest first, without this run's own.
        placed: case_id -> run_id -> nodes; the nodes of most runs under an empty run_id.
    """
    found: dict[str, Modes] = {}
    for case_id, nodes in placed.items():
        history, tonight = histories.get(case_id, ()), measured[case_id].point
        if len(nodes) > 1 and tonight is not None and history:
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


_COMMON = {each.name for each in fields(Judgement)} & {each.name for each in fields(Verdict)}


def verdict_of(case_id: str, cluster: str, tonight: HistoryPoint, judgement: Judgement) -> Verdict:
    """Return a judgement of tonight's point of a series as its verdict."""
    return Verdict(
        case_id=case_id,
        cluster=cluster,
        run_id=tonight.run_id,
        value=tonight.value,
        first_bad_run_id=_run_id(judgement.first_bad),
        last_good_run_id=_run_id(judgement.last_good),
        **{name: getattr(judgement, name) for name in _COMMON},
    )


def measured_case(run: Run, measurement: Measurement) -> MeasuredCase:
    """Return a measurement that no warehouse has stored, as a verdict needs it."""
    counts = measurement.status is CaseStatus.OK and not measurement.quarantined
    return MeasuredCase(
        measurement.case.case_id,
        measurement.status,
        measurement.reasons,
        measurement.quarantine_reasons,
        point_of(run, measurement) if counts and measurement.throughput is not None else None,
    )


def _lacking(measured: MeasuredCase | None) -> tuple[VerdictKind, str]:
    """Return the verdict on a case without a value that can be judged, and its sentence."""
    if measured is None:
        return VerdictKind.MISSING, "Planned, but the run has no result."
    if measured.status in _UNMEASURED:
        why = sentences(measured.reasons) or "the measurement failed without a reason"
        return _UNMEASURED[measured.status], why
    if measured.not_judged:
        return VerdictKind.INSUFFICIENT_DATA, f"Not judged: {measured.not_judged}."
    reasons = measured.quarantine_reasons or measured.reasons
    return VerdictKind.FAILED, f"Quarantined: {sentences(reasons)}"


def _run_id(point: HistoryPoint | None) -> str | None:
    return (point.run_id or None) if point else None
