"""Checks of one repeat: did it run what was planned, and do its numbers hold together?

To add a check, add an entry to `REPEAT_CHECKS`, with a function of a `Repeat`, of the `RankResult`
of a trainer that measured, or of a `Step`. A repeat that fails a `fail` check is quarantined and
does not count for the median.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from nightbench.checks.engine import (
    NOTHING,
    POSITIVE,
    PRESENT,
    Check,
    CheckContext,
    CheckedRow,
    Repeat,
    Subjects,
    at_least,
    at_most,
    equal_to,
    run_checks,
)
from nightbench.checks.training import TRAINING_CHECKS, is_number
from nightbench.core.model import (
    CheckResult,
    RankResult,
    RepeatRecord,
    RepeatSummary,
    Severity,
    Strategy,
)
from nightbench.core.sentences import sentences

FAIL, WARN = Severity.FAIL, Severity.WARN

TOLERANCE = 0.01
"""Largest relative difference of two independent recordings of the same time."""

LOG_TOLERANCE = 0.1
"""The same if one of them is what a log states: of some steps, rounded, without the pauses."""

MIN_OVERLAP = 0.8
SLOW_STEP = 10.0


@dataclass(frozen=True)
class Step:
    """One step of the window of a rank."""

    seconds: float
    typical_s: float
    """Median over the rank's steps."""


def _failure(repeat: Repeat) -> str:
    record = repeat.record
    return "" if record.status == "ok" else f"{record.status}: {sentences(record.reasons)}"


def _wrong_fields(context: CheckContext, rank: RankResult) -> str:
    rules = {
        "samples_per_step": is_number(rank.samples_per_step) and rank.samples_per_step > 0,
        "step_end_s": len(rank.step_end_s) >= len(rank.step_seconds),
        "time_to_first_step_s": is_number(rank.time_to_first_step_s),
        "peak_memory.resident_bytes": is_number(rank.peak_resident_bytes),
        "precision": bool(rank.precision) or context.from_log,
        "versions": bool(rank.versions),
    }
    return ", ".join(f"{name} is missing or wrong" for name, right in rules.items() if not right)


def _absent(context: CheckContext, repeat: Repeat) -> str:
    """Return processes without a result, trainers without a measurement, and unplanned ones."""
    planned = {p.name: p for p in context.processes}
    arrived = {r.name: r for r in repeat.record.ranks}
    windows = {r.name for r in repeat.measured}
    trainers = {p.name for p in context.trainers}
    words = [f"{name} is missing" for name in planned if name not in arrived]
    words += [
        f"{name} measured no step"
        for name in planned
        if name in arrived and name in trainers and name not in windows
    ]
    words += [
        f"{name} ran as {r.role} {r.rank} on {r.node}, planned as "
        f"{planned[name].role} {planned[name].rank} on {planned[name].node}"
        for name, r in arrived.items()
        if name in planned
        and (r.role, r.rank, r.node) != (planned[name].role, planned[name].rank, planned[name].node)
    ]
    words += [f"{name} was not planned" for name in arrived if name not in planned]
    return ", ".join(words)


def _differing_weights(repeat: Repeat) -> str:
    """Return the digest of each rank's weights if they differ or one is missing."""
    digests = {r.name: r.weights_digest for r in repeat.measured}
    if len(set(digests.values())) <= 1 and None not in digests.values():
        return ""
    named = {name: digest[:12] if digest else "none" for name, digest in digests.items()}
    return ", ".join(f"{name} {digest}" for name, digest in sorted(named.items()))


def _differing_steps(repeat: Repeat) -> str:
    steps = {rank.name: len(rank.step_seconds) for rank in repeat.measured}
    if len(set(steps.values())) <= 1:
        return ""
    return ", ".join(f"{name} {count}" for name, count in sorted(steps.items()))


def _parameters(context: CheckContext, rank: RankResult) -> int | None:
    """Return the trainable parameters; None if a parameter server may hold them."""
    # A server may hold the embedding tables: then trainers cannot count them.
    uncounted = None if context.case.strategy is Strategy.PARAMETER_SERVER else 0
    return rank.parameters if rank.parameters is not None else uncounted


def _declares_transport(context: CheckContext) -> bool:
    case = context.case
    between = case.strategy is Strategy.COLLECTIVE and case.nodes > 1
    return between and context.transport is not None


def _wrong_transport(context: CheckContext, rank: RankResult) -> str:
    """Return what is wrong with the transport that a rank used.

    A transport is written `backend`, `backend/network` or `backend/network/interface`, as `gloo`,
    `nccl/ib` or `gloo/socket/eth0`; the declared one must be a prefix of the one found. InfiniBand
    that falls back to sockets is the most common cause of wrong figures on a cluster.
    """
    expected, found = context.transport or "", rank.transport
    if found is None:
        return f"expected {expected}; found nothing that names the transport in use"
    wanted, had = expected.split("/"), found.split("/")
    if had[: len(wanted)] == wanted:
        return ""
    why = ""
    if wanted[:2] == ["nccl", "ib"] and had[:2] == ["nccl", "socket"]:
        why = ": InfiniBand fell back to sockets"
    elif wanted[0] == "nccl" and had[0] == "gloo":
        why = ": the GPUs' own library was not used"
    elif wanted[:2] == had[:2]:
        why = ": another network interface was used"
    return f"expected {expected}; found {found}{why}"


def _may_have_more(context: CheckContext) -> bool:
    """Return whether a window may have more steps than the protocol: some logs have every tenth."""
    return bool(context.protocol.min_seconds) or context.from_log


def _steps_wanted(context: CheckContext) -> str:
    more = " or more" if _may_have_more(context) else ""
    return f"{context.protocol.measured_steps} measured steps{more} on every trainer"


def _tolerance(context: CheckContext) -> float:
    return LOG_TOLERANCE if context.from_log else TOLERANCE


def _difference(found: float, other: float) -> float | None:
    return abs(found / other - 1) if other else None


def _contradiction(summary: RepeatSummary) -> float | None:
    """Return the relative difference from the throughput by step times."""
    if summary.throughput is None:
        return None
    # An unconfirmed throughput counts as contradicted.
    found = _difference(summary.throughput, summary.step_throughput or 0.0)
    return math.inf if found is None else found


REPEAT_CHECKS: tuple[Check, ...] = (
    # --- the record ---
    Check(
        "repeat_ended_well", FAIL, "repeat", lambda c, repeat: _failure(repeat), NOTHING,
        "all processes end with exit code 0",
        of_failed=True,
    ),
    Check(
        "schema", FAIL, "rank", _wrong_fields, NOTHING,
        "every trainer reports its fields with the right type and range",
    ),
    Check(
        "unit", FAIL, "rank", lambda c, rank: rank.samples_per_step,
        equal_to(lambda c: c.units_per_trainer_step),
        lambda c: f"{c.units_per_trainer_step} {c.unit} in every trainer's step",
        show="{:g}",
        applies=lambda c: c.units_per_trainer_step is not None,
    ),
    Check(
        "precision", FAIL, "rank", lambda c, rank: rank.precision,
        equal_to(lambda c: c.case.precision, of_text=True),
        lambda c: f"every trainer reports that it computes in {c.case.precision}",
        from_rank=True,
    ),
    # --- the ranks ---
    Check(
        "ranks_present", FAIL, "repeat", _absent, NOTHING,
        lambda c: f"the {len(c.processes)} planned processes, and no other",
    ),
    Check(
        "weights_agree", FAIL, "repeat", lambda c, repeat: _differing_weights(repeat), NOTHING,
        "all ranks hold the same weights after the window",
        applies=lambda c: c.case.strategy is Strategy.COLLECTIVE and len(c.trainers) > 1,
        from_rank=True,
    ),
    Check(
        "parameters", FAIL, "rank", _parameters, equal_to(lambda c: c.parameters),
        lambda c: f"{c.parameters} trainable parameters on every trainer",
        show="{:.0f}",
        applies=lambda c: c.parameters is not None,
        from_rank=True,
    ),
    Check(
        "parameters_agree", FAIL, "repeat",
        lambda c, repeat: len({r.parameters for r in repeat.measured} - {None}), at_most(1),
        "one number of trainable parameters on all trainers",
        show="{:.0f}",
        from_rank=True,
    ),
    Check(
        "transport", FAIL, "rank", _wrong_transport, NOTHING,
        lambda c: f"gradients travel over {c.transport}, as the cluster declares",
        applies=_declares_transport,
        from_rank=True,
    ),
    # --- the steps ---
    Check(
        "steps", FAIL, "rank", lambda c, rank: len(rank.step_seconds),
        equal_to(lambda c: c.protocol.measured_steps), _steps_wanted,
        show="{:.0f}",
        applies=lambda c: not _may_have_more(c),
    ),
    Check(
        "steps_at_least", FAIL, "rank", lambda c, rank: len(rank.step_seconds),
        at_least(lambda c: c.protocol.measured_steps), _steps_wanted,
        show="{:.0f}",
        applies=_may_have_more,
    ),
    Check(
        "steps_agree", FAIL, "repeat", lambda c, repeat: _differing_steps(repeat), NOTHING,
        "the same number of steps on every trainer, because the trainers run each step together",
        applies=lambda c: len(c.trainers) > 1 and not (c.asynchronous or c.from_log),
    ),
    Check(
        "window_seconds", FAIL, "rank", lambda c, rank: rank.window_wall_s,
        at_least(lambda c: c.protocol.min_seconds),
        lambda c: f"a window of {c.protocol.min_seconds:g} s or more",
        show="{:.2f} s",
        applies=lambda c: bool(c.protocol.min_seconds),
    ),
    Check(
        "step_times_positive", FAIL, "step", lambda c, step: step.seconds, POSITIVE,
        "every step takes more than 0 s",
        show="{:.6f} s",
    ),
    Check(
        "step_ends_monotonic", FAIL, "rank",
        lambda c, rank: sum(b < a for a, b in itertools.pairwise(rank.step_end_s)), at_most(0),
        "0 steps that end before the previous step",
        show="{:.0f}",
    ),
    Check(
        "window_positive", FAIL, "rank",
        lambda c, rank: min(rank.window_wall_s, rank.window_close_s - rank.window_open_s), POSITIVE,
        "the window is longer than 0 s on both of its clocks",
        show="{:.6f} s",
    ),
    Check(
        "window_matches_steps", FAIL, "rank",
        lambda c, rank: _difference(sum(rank.step_seconds), rank.window_wall_s),
        at_most(_tolerance),
        lambda c: f"the sum of the step times is the window's length within {_tolerance(c):.0%}",
        show="{:.2%}",
    ),
    Check(
        "no_slow_step", WARN, "step",
        lambda c, step: step.seconds / step.typical_s if step.typical_s > 0 else None,
        at_most(SLOW_STEP),
        f"no step over {SLOW_STEP:g} times the median step",
        show="{:.1f} times",
    ),
    # --- the throughput ---
    Check(
        "throughput_present", FAIL, "repeat", lambda c, repeat: repeat.summary.throughput, PRESENT,
        "a throughput",
        show="{:.5g}",
    ),
    Check(
        "throughput_positive", FAIL, "repeat", lambda c, repeat: repeat.summary.throughput,
        POSITIVE, "greater than 0 and finite",
        show="{:.5g}",
    ),
    Check(
        "throughput_matches_steps", FAIL, "repeat",
        lambda c, repeat: _contradiction(repeat.summary), at_most(_tolerance),
        lambda c: f"within {_tolerance(c):.0%} of the throughput by the step times",
        show="{:.2%}",
    ),
    Check(
        "overlap", FAIL, "repeat", lambda c, repeat: repeat.summary.overlap or 0.0,
        at_least(MIN_OVERLAP),
        f"trainers measured together for {MIN_OVERLAP:.0%} of the shortest window",
        show="{:.1%}",
        applies=lambda c: c.asynchronous,
    ),
    *TRAINING_CHECKS,
)  # fmt: skip


def check_repeats(
    context: CheckContext, records: Sequence[RepeatRecord], summaries: Sequence[RepeatSummary]
) -> list[CheckResult]:
    """Run `REPEAT_CHECKS` on all repeats of a case; a repeat is good when no `fail` check is red.

    Each record has a summary of the same number.
    """
    by_repeat = {summary.repeat: summary for summary in summaries}
    trainers = {p.name for p in context.trainers}
    rows: dict[str, list[CheckedRow]] = {"repeat": [], "rank": [], "step": []}
    for record in records:
        measured = [r for r in record.ranks if r.name in trainers and r.step_seconds]
        repeat = Repeat(record, by_repeat[record.repeat], measured)
        rows["repeat"].append(CheckedRow(record.repeat, "", repeat))
        for rank in measured:
            typical_s = median(rank.step_seconds)
            rows["rank"].append(CheckedRow(record.repeat, rank.name, rank))
            rows["step"] += [
                CheckedRow(record.repeat, rank.name, Step(seconds, typical_s))
                for seconds in rank.step_seconds
            ]
    failed = frozenset(r.repeat for r in records if r.status != "ok")
    (results,) = run_checks("repeat", REPEAT_CHECKS, [Subjects(context, rows, failed)])
    return list(results)
