"""Judges the cases of a run that were measured next to a reference build by their paired ratio.

A night's ratio to the build that ran in turn with it shows what the build did; the reference's own
throughput shows what the node did. Both become series like any other, in the unit of the work: the
ratio times the reference's usual throughput is the night's throughput on a usual machine.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import median

from nightbench.core.model import (
    HistoryPoint,
    MeasuredCase,
    PairNight,
    RegressionPolicy,
    Run,
    Verdict,
    VerdictKind,
)
from nightbench.detection import ChangeDetector, Judgement, nights_before
from nightbench.detection.detector import segment
from nightbench.detection.verdict_sentences import with_pairs
from nightbench.night.case_controls import controls_of_cases
from nightbench.warehouse import Warehouse

Histories = Mapping[str, Sequence[HistoryPoint]]


@dataclass(frozen=True)
class PairedCase:
    """A case that is judged by its ratio tonight."""

    measured: MeasuredCase
    """Tonight, as on a usual machine."""
    history: list[HistoryPoint]
    """The nights before in the same way; those without a reference are no part of it."""
    machine: Sequence[HistoryPoint]
    """Nights of the reference, oldest first, tonight last."""
    tonight: PairNight
    judged: Judgement
    """Judgement of the reference: the node's."""

    def after(self, verdict: Verdict) -> Verdict:
        """Return a verdict whose sentence names the basis of the verdict, and the node's change."""
        node = self.judged
        is_changed = node.kind in (VerdictKind.REGRESSED, VerdictKind.IMPROVED)
        return with_pairs(
            verdict, self.tonight, node.level_change if is_changed else None, node.since
        )


def rebased(nights: Iterable[PairNight]) -> dict[str, PairNight]:
    """Return nights by run_id as if all had used the newest reference.

    A night that measured two references says how many times as fast one is as the other. Nights
    that cannot be converted so are left out.

    Args:
        nights: the newest first; of each run the reference first, and then the one before.
    """
    found: dict[str, PairNight] = {}
    factors: dict[str, float] = {}
    """build_id -> its throughput as a multiple of the newest reference's."""
    for run_id, group in itertools.groupby(nights, attrgetter("run_id")):
        both = list(group)
        factors = factors or {both[0].reference: 1.0}
        known = next((each for each in both if each.reference in factors), None)
        if known is None:
            continue
        factor = factors[known.reference]
        for each in both:
            factors.setdefault(each.reference, known.ratio * factor / each.ratio)
        found[run_id] = replace(known, ratio=known.ratio * factor, level=known.level / factor)
    return found


def paired_series(
    history: Sequence[HistoryPoint], by_run: Mapping[str, PairNight]
) -> tuple[list[HistoryPoint], list[HistoryPoint]]:
    """Return the nights that were measured next to a reference: by their ratio, and the reference.

    Args:
        history: good nights, oldest first, tonight last.
        by_run: run_id -> the night with its reference, see `rebased`.
    """
    kept = [(point, by_run[point.run_id]) for point in history if point.run_id in by_run]
    usual = median([night.level for _, night in kept]) if kept else 1.0
    by_ratio = [
        replace(point, value=night.ratio * usual, n=night.n, spread=night.spread)
        for point, night in kept
    ]
    reference = [
        replace(point, value=night.level, n=night.n, spread=None, framework_version=None)
        for point, night in kept
    ]
    return by_ratio, reference


def paired_cases(
    warehouse: Warehouse,
    run: Run,
    measured: Mapping[str, MeasuredCase],
    histories: Histories,
    policy: RegressionPolicy,
) -> dict[str, PairedCase]:
    """Return the cases that are judged by their ratio, by case_id, and store the node's changes.

    Those that were measured next to a reference tonight, and in enough comparable nights before.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    nights = warehouse.series.reference_nights(
        run.cluster, list(measured), run.run_id, run.started_at
    )
    found: dict[str, PairedCase] = {}
    for case_id, pairs in nights.items():
        by_run, tonight = rebased(pairs), measured[case_id]
        if run.run_id not in by_run or tonight.point is None:
            continue
        past = nights_before(run, histories[case_id])
        by_ratio, machine = paired_series([*past, tonight.point], by_run)
        *before, now = by_ratio
        if len(segment(before, now)) < policy.min_history:
            continue
        *machine_before, machine_now = machine
        detector = ChangeDetector(with_smallest=False)
        judged = detector.judge(machine_before, machine_now, policy)
        if judged.kind in (VerdictKind.REGRESSED, VerdictKind.IMPROVED):
            # The nodes' control measurements count for this series as for any other.
            for controls in controls_of_cases(warehouse.causes, run, [case_id]).values():
                with_controls = ChangeDetector(controls=controls, with_smallest=False)
                judged = with_controls.judge(machine_before, machine_now, policy)
        warehouse.series.store_machine(run.run_id, case_id, judged.kind, judged.sentence)
        found[case_id] = PairedCase(
            measured=replace(tonight, point=now),
            history=before,
            machine=machine,
            tonight=by_run[run.run_id],
            judged=judged,
        )
    return found
