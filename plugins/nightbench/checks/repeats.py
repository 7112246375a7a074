"""Checks of one repeat: did it train what was planned, and do its numbers hold together?

To add a check, add an entry to `REPEAT_CHECKS`; where it reads something new, add a column
to one of the frames in `repeat_frames.py`. A repeat that fails a `fail` check is quarantined and
does not count for the median.
"""

from __future__ import annotations

from collections.abc import Sequence

from nightbench.checks.engine import hold
from nightbench.checks.expectation import (
    Check,
    CheckContext,
    at_least,
    at_most,
    nothing,
    one_of,
    positive,
    present,
)
from nightbench.checks.repeat_frames import repeat_frames
from nightbench.checks.transport import declared
from nightbench.core.model import CheckResult, RepeatRecord, RepeatSummary, Severity, Strategy

FAIL, WARN = Severity.FAIL, Severity.WARN

TOLERANCE = 0.01
"""Largest relative difference of two independent recordings of the same time."""

LOG_TOLERANCE = 0.1
"""The same where one of them is what a log states: of some steps, rounded, without the pauses."""

MIN_OVERLAP = 0.8
SLOW_STEP = 10.0


def _several_collective_ranks(context: CheckContext) -> bool:
    return context.case.strategy is Strategy.COLLECTIVE and len(context.trainers) > 1


def _tolerance(context: CheckContext) -> float:
    return LOG_TOLERANCE if context.from_log else TOLERANCE


def _least_steps(context: CheckContext) -> bool:
    """Whether a window may have more steps than the protocol says: a log states every tenth."""
    return bool(context.protocol.min_seconds) or context.from_log


def _steps_wanted(context: CheckContext) -> str:
    more = " or more" if _least_steps(context) else ""
    return f"{context.protocol.measured_steps} measured steps{more} on every trainer"


REPEAT_CHECKS: tuple[Check, ...] = (
    # --- the record ---
    Check(
        "repeat_ended_well", FAIL, "repeats", "failure", nothing("failure"),
        expected="all processes end with exit code 0",
        of_failed=True,
    ),
    Check(
        "schema", FAIL, "ranks", "wrong_fields", nothing("wrong_fields"),
        expected="every trainer reports its fields with the right type and range",
    ),
    Check(
        "unit", FAIL, "ranks", "samples_per_step",
        one_of("samples_per_step", lambda c: [float(c.units_per_trainer_step or 0)]),
        expected=lambda c: f"{c.units_per_trainer_step} {c.unit} in every trainer's step",
        show="{:g}",
        applies=lambda c: c.units_per_trainer_step is not None,
    ),
    Check(
        "precision", FAIL, "ranks", "precision",
        one_of("precision", lambda c: [c.case.precision]),
        expected=lambda c: f"every trainer proves that it computes in {c.case.precision}",
        from_rank=True,
    ),
    # --- the ranks ---
    Check(
        "ranks_present", FAIL, "repeats", "absent", nothing("absent"),
        expected=lambda c: f"the {len(c.processes)} planned processes, and no other",
    ),
    Check(
        "weights_agree", FAIL, "repeats", "weights", nothing("weights"),
        expected="all ranks hold the same weights after the window",
        applies=_several_collective_ranks,
        from_rank=True,
    ),
    Check(
        "parameters", FAIL, "ranks", "parameters",
        one_of("parameters", lambda c: [float(c.parameters or 0)]),
        expected=lambda c: f"{c.parameters} trainable parameters on every trainer",
        show="{:.0f}",
        applies=lambda c: c.parameters is not None,
        from_rank=True,
    ),
    Check(
        "parameters_agree", FAIL, "repeats", "parameter_counts", at_most("parameter_counts", 1),
        expected="one number of trainable parameters on all trainers",
        show="{:.0f}",
        from_rank=True,
    ),
    Check(
        "transport", FAIL, "ranks", "wrong_transport", nothing("wrong_transport"),
        expected=lambda c: f"gradients travel over {c.transport}, as the cluster declares",
        applies=declared,
        from_rank=True,
    ),
    # --- the steps ---
    Check(
        "steps", FAIL, "ranks", "steps",
        one_of("steps", lambda c: [c.protocol.measured_steps]),
        expected=_steps_wanted,
        applies=lambda c: not _least_steps(c),
    ),
    Check(
        "steps_at_least", FAIL, "ranks", "steps",
        at_least("steps", lambda c: c.protocol.measured_steps),
        expected=_steps_wanted,
        applies=_least_steps,
    ),
    Check(
        "window_seconds", FAIL, "ranks", "window_wall_s",
        at_least("window_wall_s", lambda c: c.protocol.min_seconds),
        expected=lambda c: f"a window of {c.protocol.min_seconds:g} s or more",
        show="{:.2f} s",
        applies=lambda c: bool(c.protocol.min_seconds),
    ),
    Check(
        "step_times_positive", FAIL, "steps", "seconds", positive("seconds"),
        expected="every step takes more than 0 s",
        show="{:.6f} s",
    ),
    Check(
        "step_ends_monotonic", FAIL, "ranks", "backward_steps", at_most("backward_steps", 0),
        expected="0 steps that end before the one before them",
        show="{:.0f}",
    ),
    Check(
        "window_positive", FAIL, "ranks", "shortest_window_s", positive("shortest_window_s"),
        expected="the window is longer than 0 s on both of its clocks",
        show="{:.6f} s",
    ),
    Check(
        "window_matches_steps", FAIL, "ranks", "window_difference",
        at_most("window_difference", _tolerance),
        expected=lambda c: f"step times add up to the window within {_tolerance(c):.0%}",
        show="{:.2%}",
    ),
    Check(
        "no_slow_step", WARN, "steps", "times_median", at_most("times_median", SLOW_STEP),
        expected=f"no step over {SLOW_STEP:g} times the median step",
        show="{:.1f} times",
    ),
    # --- the throughput ---
    Check(
        "throughput_present", FAIL, "repeats", "throughput", present("throughput"),
        expected="a throughput",
        show="{:.5g}",
    ),
    Check(
        "throughput_positive", FAIL, "repeats", "throughput", positive("throughput"),
        expected="greater than 0 and finite",
        show="{:.5g}",
    ),
    Check(
        "throughput_matches_steps", FAIL, "repeats", "throughput_difference",
        at_most("throughput_difference", _tolerance),
        expected=lambda c: f"within {_tolerance(c):.0%} of what the step times say",
        show="{:.2%}",
    ),
    Check(
        "overlap", FAIL, "repeats", "overlap", at_least("overlap", MIN_OVERLAP),
        expected=f"trainers measured together for {MIN_OVERLAP:.0%} of the shortest window",
        show="{:.1%}",
        applies=lambda c: c.asynchronous,
    ),
    # --- the training ---
    Check(
        "loss_finite", FAIL, "ranks", "bad_losses", nothing("bad_losses"),
        expected="the loss of every step is a finite number",
        of_failed=True,
        from_rank=True,
    ),
    Check(
        "weights_move", FAIL, "ranks", "still", nothing("still"),
        expected="every trainable tensor moves within the window, by a finite amount",
        from_rank=True,
    ),
    Check(
        "weights_within_steps", FAIL, "ranks", "beyond", nothing("beyond"),
        expected="no tensor moves further than its optimiser's steps allow",
        from_rank=True,
    ),
    Check(
        "loss_falls", FAIL, "repeats", "loss_fall", positive("loss_fall"),
        expected="the loss of the first batch is lower after the window than before training",
        show="{:.4g} below",
        applies=lambda c: c.converges,
        from_rank=True,
    ),
)  # fmt: skip


def check_repeats(
    context: CheckContext, records: Sequence[RepeatRecord], summaries: Sequence[RepeatSummary]
) -> list[CheckResult]:
    """Run `REPEAT_CHECKS` on all repeats of a case; a repeat is good when no `fail` check is red.

    Raises:
        ValueError: a record has no summary of the same number.
    """
    if not records:
        return []
    by_repeat = {summary.repeat: summary for summary in summaries}
    unsummarized = [r.repeat for r in records if r.repeat not in by_repeat]
    if unsummarized:
        raise ValueError(f"no summary for repeats {unsummarized}")
    failed = frozenset(r.repeat for r in records if r.status != "ok")
    return hold(
        "repeat", REPEAT_CHECKS, repeat_frames(context, records, by_repeat), context, failed
    )
