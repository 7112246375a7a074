"""Speed-up and efficiency of the measurements of one run."""

import dataclasses
from collections.abc import Mapping, Sequence

from nightbench.core.model import SPLIT_AXES, Measurement, Strategy, digest_of

_SIZE = frozenset({"strategy", "nodes", "devices_per_node", "trainers"})
_SPLIT = frozenset(SPLIT_AXES) - {"recompute", "state_precision", "tuning"}
_SERVERS = frozenset({"pservers", "sync"})


def scale(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Add speed-up and efficiency to the measurements of one run.

    The baseline of a case is the smallest case of the run that differs from it only by its size.
    They have the same cluster, build, batch per device and all other axes; how its devices split
    the work belongs to its size. Parameter servers are counted in addition to the trainers. The
    baseline of a case with them is the single process that does the same work, whatever their
    number and their updates (PaddlePaddle's VGG16 tables divide by it). If the run has none, it is
    the smallest case with equally many servers and the same updates. A case has neither value if
    the run holds no single-trainer and no smaller case, or that one has no throughput that counts.
    Then no larger baseline takes its place, because a series must not jump when its baseline fails.

    Returns:
        The measurements in the same order.
    """
    groups: dict[str, list[Measurement]] = {}
    for each in measurements:
        groups.setdefault(_family(each), []).append(each)
    alone = {_work(m): m for m in measurements if m.case.strategy is Strategy.SINGLE}
    return [_scaled(each, groups[_family(each)], alone.get(_work(each))) for each in measurements]


def _family(measurement: Measurement) -> str:
    case = measurement.case
    served = case.strategy is Strategy.PARAMETER_SERVER
    return digest_of([_work(measurement), served, case.pservers, case.sync])


def _work(measurement: Measurement) -> str:
    """What a trainer of the case does, where, and by which build."""
    axes: Mapping[str, object] = {
        k: x for k, x in measurement.case.axes().items() if k not in _SIZE | _SERVERS | _SPLIT
    }
    return digest_of([axes, measurement.cluster, measurement.build.build_id])


def _scaled(
    measurement: Measurement, family: Sequence[Measurement], alone: Measurement | None
) -> Measurement:
    case = measurement.case

    def size(other: Measurement) -> tuple[int, bool, bool, bool, int, str]:
        # Of two smallest cases (single, collective 1x1), take the same strategy and stage.
        its = other.case
        unlike = (
            its.strategy is not case.strategy,
            its.shard_stage != case.shard_stage,
            its.micro_batches != case.micro_batches,
        )
        return its.trainers, *unlike, its.nodes, its.case_id

    served = case.strategy is Strategy.PARAMETER_SERVER
    baseline = alone if alone and served else min(family, key=size)
    smallest, largest = baseline.case.trainers, max(m.case.trainers for m in family)
    if smallest > 1 and smallest == largest:
        return measurement
    if baseline.throughput is None or baseline.quarantined or measurement.throughput is None:
        return measurement
    if baseline.found_batch_size != measurement.found_batch_size:
        return measurement  # Both use `max` but found different batch sizes: not equal work.
    speedup = measurement.throughput / baseline.throughput
    return dataclasses.replace(
        measurement,
        speedup=speedup,
        efficiency=speedup / (case.trainers / smallest),
        baseline_case_id=baseline.case.case_id,
    )
