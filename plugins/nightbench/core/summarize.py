"""From the steps of ranks to the values of a case: pure arithmetic, by the rules of measurement.

Collective training and synchronous parameter servers: samples of all ranks in their windows over
the slowest rank's window. Asynchronous parameter servers: samples of all trainers in the interval
that their windows have in common, on the controller's clock. Both values are computed a second time
from the step times, which were recorded independently, so that checks can compare them.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from nightbench.core.losses import losses_of_repeats, training_losses
from nightbench.core.model import (
    FIGURES,
    Build,
    Case,
    CaseStatus,
    ClockOffset,
    Figures,
    Measurement,
    RankResult,
    Reason,
    ReasonCode,
    RepeatRecord,
    RepeatSummary,
    Strategy,
    digest_of,
    reasons_from_json,
)
from nightbench.core.statistics import describe

MEASURED = frozenset({"ok", "disturbed"})
"""Statuses of repeats that have values; those of a disturbed one are shown and never counted."""

N = TypeVar("N", int, float)


def asynchronous(case: Case) -> bool:
    """Say whether trainers take their steps without waiting for each other."""
    return case.strategy is Strategy.PARAMETER_SERVER and case.sync != "sync"


def throughput_of(
    case: Case, said: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]
) -> float | None:
    """Return a repeat's throughput, for the controller of an adaptive protocol.

    `said` and `results` as in `repeat_record`. None if there is none that counts.
    """
    record = repeat_record(said, results)
    return summarize_repeat(record, case).throughput if record.status == "ok" else None


def repeat_record(
    said: Mapping[str, Any],
    results: Mapping[str, Mapping[str, Any]],
    fingerprints: Mapping[str, str] | None = None,
) -> RepeatRecord:
    """One launch of the gang.

    `said` is what its controller wrote of it (`repeat`, `status`, `reasons`, `clocks`, …),
    `results` the result.json of each node that came back, `fingerprints` the fingerprint id of
    each.
    """
    ranks = [
        RankResult.from_json(node, process)
        for node, result in sorted(results.items())
        for process in result["processes"]
    ]
    power_w, power_absent = _power(results)
    tails = [r["log_tail"] for r in results.values() if r.get("log_tail")]
    started = said.get("started_at")
    return RepeatRecord(
        repeat=said["repeat"],
        status=said["status"],
        reasons=reasons_from_json(said.get("reasons")),
        ranks=tuple(sorted(ranks, key=lambda rank: (rank.role, rank.rank))),
        clocks={
            node: ClockOffset(clock["offset_s"], clock["error_s"])
            for node, clock in (said.get("clocks") or {}).items()
        },
        fingerprints=fingerprints or {},
        started_at=datetime.fromisoformat(started) if started else None,
        log_tail=said.get("log_tail") or (tails[0] if tails else None),
        power_w=power_w,
        power_absent=power_absent,
        error=said.get("error"),
    )


def _power(results: Mapping[str, Mapping[str, Any]]) -> tuple[float | None, str | None]:
    """Return the mean power of all nodes' devices in W, or why it is not known.

    Nodes that are one machine (local ones) have the same CPU packages, which count once.
    """
    total, machines = 0.0, set()
    for node, result in sorted(results.items()):
        power = result.get("power")
        if power is None:
            return None, f"{node}: power was not recorded"
        if power["mean_w"] is None:
            return None, f"{node}: {power['absent']}"
        machine = (power["source"], result.get("boot_id") or node)
        if power["source"] != "rapl" or machine not in machines:
            total += power["mean_w"]
        machines.add(machine)
    return (total, None) if results else (None, "no node returned a result")


def summarize_repeat(record: RepeatRecord, case: Case) -> RepeatSummary:
    """Put the ranks of one launch together to the numbers of the repeat.

    Returns:
        The numbers; without throughput, and with the problem named, if there is none.
    """
    trainers = [rank for rank in record.ranks if rank.measured]
    problem = _no_result(record, case, trainers)
    if problem is not None:
        return _without_throughput(record, problem)
    rates = _common_interval if asynchronous(case) else _slowest_window
    summary = rates(record, trainers)
    if summary.problem is None and not _positive(summary.throughput):
        found = str(summary.throughput)
        problem = Reason(ReasonCode.BAD_FIGURE, subject="the throughput", observed=found)
        summary = dataclasses.replace(summary, throughput=None, problem=problem)
    elif summary.problem is None and record.status == "disturbed":
        summary = dataclasses.replace(summary, problem=_first_reason(record))
    first_losses = [r.loss_first for r in trainers if r.loss_first is not None]
    return dataclasses.replace(
        summary,
        drift=_drift(trainers),
        **_figures(trainers, _largest),
        power_w=record.power_w,
        power_absent=record.power_absent,
        loss_first=statistics.fmean(first_losses) if first_losses else None,
        loss_median=_median(loss for r in trainers for loss in r.loss_window),
        losses=training_losses(trainers),
        reported=_medians(r.reported for r in trainers),
    )


def _first_reason(record: RepeatRecord) -> Reason:
    ended = Reason(ReasonCode.ENDED_AS, observed=record.status)
    return record.reasons[0] if record.reasons else ended


def _no_result(record: RepeatRecord, case: Case, trainers: Sequence[RankResult]) -> Reason | None:
    if record.status not in MEASURED:
        return _first_reason(record)
    expected = max((rank.world_size or 0 for rank in trainers), default=0) or case.trainers
    if len(trainers) != expected:
        found = f"{len(trainers)} trainers"
        return Reason(ReasonCode.NO_TRAINER, observed=found, expected=str(expected))
    for rank in trainers:
        if not rank.step_seconds or rank.samples_per_step <= 0:
            return Reason(ReasonCode.NO_STEPS, rank.node, rank.name, "0 steps")
        if not _positive(rank.window_wall_s):
            return Reason(ReasonCode.BAD_WINDOW, rank.node, rank.name, f"{rank.window_wall_s} s")
    return None


def _without_throughput(
    record: RepeatRecord, problem: Reason, overlap: float | None = None
) -> RepeatSummary:
    return RepeatSummary(record.repeat, None, None, None, None, overlap, problem=problem)


def _slowest_window(record: RepeatRecord, trainers: Sequence[RankResult]) -> RepeatSummary:
    """Throughput of all samples over the slowest rank's window."""
    samples = math.fsum(r.samples_per_step * len(r.step_seconds) for r in trainers)
    window = max(r.window_wall_s for r in trainers)
    stepping = max(math.fsum(r.step_seconds) for r in trainers)
    by_steps = samples / stepping if stepping > 0 else None
    return RepeatSummary(record.repeat, samples / window, window, samples, by_steps)


def _common_interval(record: RepeatRecord, trainers: Sequence[RankResult]) -> RepeatSummary:
    """Throughput in the interval that all windows share, on the controller's clock."""
    missing = sorted({r.node for r in trainers} - set(record.clocks))
    if missing:
        return _without_throughput(record, Reason(ReasonCode.NO_CLOCK_OFFSET, missing[0]))
    offset = {node: clock.offset_s for node, clock in record.clocks.items()}
    opened = max(r.window_open_s - offset[r.node] for r in trainers)
    closed = min(r.window_close_s - offset[r.node] for r in trainers)
    length = closed - opened
    if length <= 0:
        gap = Reason(ReasonCode.NO_COMMON_INTERVAL, observed=f"{-length:.3f} s")
        return _without_throughput(record, gap, overlap=0.0)
    shortest = min(r.window_close_s - r.window_open_s for r in trainers)
    samples = by_laps = 0.0
    for rank in trainers:
        here = offset[rank.node]
        start, end = opened + here, closed + here
        samples += rank.samples_per_step * steps_within(_steps_by_ends(rank), start, end)
        by_laps += rank.samples_per_step * steps_within(_steps_by_laps(rank), start, end)
    return RepeatSummary(
        record.repeat, samples / length, length, samples, by_laps / length, length / shortest
    )


def steps_within(steps: Iterable[tuple[float, float]], start: float, end: float) -> float:
    """Count the steps inside an interval; one that crosses an end counts for its part inside.

    Steps are (begin, end), all times in seconds.
    """
    counted = []
    for begin, finish in steps:
        inside = min(finish, end) - max(begin, start)
        if finish > begin and inside > 0:
            counted.append(inside / (finish - begin))
    return math.fsum(counted)


def _steps_by_ends(rank: RankResult) -> list[tuple[float, float]]:
    """Begin and end of the steps from the window's opening on, from the recorded ends.

    The first of them begins with the window: the device is synchronised there, and what lies
    between the last warm-up step and the opening belongs to no step.
    """
    begin = rank.window_open_s
    return list(pairwise([begin, *(end for end in rank.step_end_s if end > begin)]))


def _steps_by_laps(rank: RankResult) -> list[tuple[float, float]]:
    """Begin and end of the window's steps, from their lap times alone."""
    return list(pairwise(accumulate(rank.step_seconds, initial=rank.window_open_s)))


def _drift(trainers: Sequence[RankResult]) -> float | None:
    """Median step of the window's last third over that of its first third, less one.

    Of several ranks the median counts; None for windows of fewer than six steps.
    """
    drifts = []
    for rank in trainers:
        third = len(rank.step_seconds) // 3
        if third < 2:
            return None
        first = statistics.median(rank.step_seconds[:third])
        last = statistics.median(rank.step_seconds[-third:])
        if first <= 0:
            return None
        drifts.append(last / first - 1)
    return _median(drifts)


def _largest(values: Iterable[N | None]) -> N | None:
    return max((value for value in values if value is not None), default=None)


def _figures(
    results: Sequence[Figures], of_times: Callable[[Iterable[Any]], Any]
) -> dict[str, Any]:
    """Return the figures of several results: times by `of_times`, the largest number of bytes."""
    return {
        name: (of_times if name.endswith("_s") else _largest)(getattr(r, name) for r in results)
        for name in FIGURES
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _medians(named: Iterable[Mapping[str, float] | None]) -> dict[str, float] | None:
    known = [each for each in named if each]
    names = sorted({name for each in known for name in each})
    return {
        name: statistics.median(each[name] for each in known if name in each) for name in names
    } or None


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0


def summarize_case(
    *,
    run_id: str,
    case: Case,
    cluster: str,
    build: Build,
    unit: str,
    repeats: Sequence[RepeatSummary],
    records: Sequence[RepeatRecord] = (),
    good: Collection[int] | None = None,
    refusals: Sequence[Reason] = (),
    definition_digest: str = "",
    status: CaseStatus = CaseStatus.OK,
    reasons: Sequence[Reason] = (),
) -> Measurement:
    """Take the median over the good repeats of a case.

    `records` are the same repeats as they came back, for versions and fingerprints. `good` are the
    numbers of those that passed their checks, all that ended well when None; `refusals` are the
    checks that the last of the others failed.

    Returns:
        The measurement, without scaling (see `scale`). It failed when no repeat is left.
    """
    bad = {record.repeat for record in records if record.status != "ok"}
    counted = [
        r
        for r in repeats
        if r.throughput is not None and r.repeat not in bad and (good is None or r.repeat in good)
    ]
    joules = [r.power_w / r.throughput for r in counted if r.power_w and r.throughput]
    silent = [r.power_absent for r in counted if r.power_absent]
    if status is CaseStatus.OK and not counted:
        status = CaseStatus.FAILED
        problems = dict.fromkeys(r.problem for r in repeats if r.problem)
        reasons = reasons or tuple(problems) or (Reason(ReasonCode.NO_GOOD_REPEAT), *refusals)
    return Measurement(
        run_id=run_id,
        case=case,
        cluster=cluster,
        build=build,
        unit=unit,
        repeats=tuple(repeats),
        **describe([r.throughput for r in counted if r.throughput is not None]),
        framework_version=next(_versions(case.framework, records), None),
        python=" and ".join(sorted({*_versions("python", records)})) or None,
        **_figures(counted, _median),
        power_w=_median(r.power_w for r in counted),
        joules_per_unit=_median(joules),
        energy_absent=silent[0] if silent and not joules else None,
        found_batch_size=_largest(rank.batch_size for x in records for rank in x.ranks),
        reported=_medians(r.reported for r in counted),
        losses=losses_of_repeats(counted),
        definition_digest=definition_digest,
        fingerprint_id=_fingerprint(records),
        status=status,
        reasons=tuple(reasons),
    )


def _versions(name: str, records: Iterable[RepeatRecord]) -> Iterator[str]:
    ranks = (rank for record in records for rank in record.ranks)
    return (rank.versions[name] for rank in ranks if name in rank.versions)


def _fingerprint(records: Iterable[RepeatRecord]) -> str:
    """One name for the fingerprints of all nodes of the gang; the only one as it is."""
    nodes: dict[str, str] = {}
    for record in records:
        nodes.update(record.fingerprints)
    found = sorted(set(nodes.values()))
    if len(found) <= 1:
        return found[0] if found else ""
    return digest_of(found)[: len(found[0])]
