"""The measured loop: warm up, synchronise, time, record. It is independent of any framework.

A *task* has `step()`, which runs (or queues) one training step, and `keep_weights()`, which copies
the weights at the start of the window. A *runtime* has

    mark()             a point in time, cheap, never stalling the device (an event on GPUs)
    laps(marks)        seconds between neighbouring marks; called when the device is idle
    device_sync()      waits until the device is idle
    barrier()          waits for the other ranks, if the framework can
    agree(value)       rank 0's value on all ranks; a single rank gets its own value

Two clocks time the window independently, so that a check can compare them. The marks give the step
times. Two readings of the monotonic clock at the synchronised ends give the window.
"""

import math
import os
import time

DRAIN_LIMIT_S = 120.0
"""Maximum time for which a trainer continues to step after its window for the others."""

MARGIN = 1.05
"""Rank 0 decides for all ranks, and another rank's window may be a few milliseconds shorter. So
rank 0 aims at this multiple of the minimum time, which all ranks then reach."""


class Measured:
    """Result of the loop. Times are seconds; points in time are on the node's monotonic clock."""

    def __init__(self):
        self.open_s = self.close_s = self.wall_s = 0.0
        self.first_step_end_s = 0.0
        self.step_seconds = []
        """Laps of the window's steps: from the end of one to the end of the next."""
        self.step_end_s = []
        """Ends of all steps: warm-up, window, drain."""
        self.warmup_steps = self.drain_steps = 0


def measure(task, runtime, protocol, recorder, drain_file=None):
    """Run the protocol and return a Measured.

    Args:
        task: the object whose steps are measured.
        runtime: the framework's clock and barriers (see above).
        protocol: mapping with warmup_steps, measured_steps and min_seconds.
        recorder: gets every phase and step as it happens.
        drain_file: for asynchronous training: after its window, the rank continues to step until
            this path exists, so that no rank is timed while another has already stopped.
    """
    measured = Measured()
    measured.warmup_steps = protocol["warmup_steps"]

    # Asynchronous ranks may take different numbers of steps; agreeing would make them wait.
    agree = _alone if drain_file else runtime.agree

    recorder.phase("warmup")
    warmup_laps = _warm_up(task, runtime, recorder, measured)
    wanted = _steps_for(protocol, warmup_laps, agree)
    task.keep_weights()
    runtime.barrier()

    recorder.phase("window")
    measured.open_s = time.monotonic()
    marks = [runtime.mark()]
    while wanted:
        _steps(task, runtime, recorder, "window", wanted, marks)
        runtime.device_sync()
        # Read before the ranks agree. The time to agree is outside the window, unless more steps
        # follow: then it counts in the next lap.
        measured.close_s = time.monotonic()
        elapsed_s = measured.close_s - measured.open_s
        wanted = _steps_missing(protocol, elapsed_s, len(marks) - 1, agree)
    measured.wall_s = measured.close_s - measured.open_s
    measured.step_seconds = runtime.laps(marks)
    measured.step_end_s += _ends(measured.open_s, measured.step_seconds)
    if not measured.warmup_steps:
        measured.first_step_end_s = measured.step_end_s[0]

    if drain_file:
        recorder.phase("drain")
        laps = _drain(task, runtime, recorder, drain_file, measured.close_s + DRAIN_LIMIT_S)
        measured.drain_steps = len(laps)
        measured.step_end_s += _ends(measured.close_s, laps)
    return measured


def _warm_up(task, runtime, recorder, measured):
    """Run the warm-up and return its laps; the first step is waited for and timed separately."""
    laps = []
    left = measured.warmup_steps
    for count in (1, left - 1) if left else ():
        begin_s = time.monotonic()
        marks = [runtime.mark()]
        _steps(task, runtime, recorder, "warmup", count, marks, done=len(laps))
        runtime.device_sync()
        if not laps:
            measured.first_step_end_s = time.monotonic()
        phase_laps = runtime.laps(marks)
        measured.step_end_s += _ends(begin_s, phase_laps)
        laps += phase_laps
    return laps


def _steps(task, runtime, recorder, phase, count, marks, done=None):
    done = len(marks) - 1 if done is None else done
    for number in range(done + 1, done + count + 1):
        task.step()
        # Recorded within the lap: only two clock readings are between the last mark and the end.
        recorder.step(phase, number)
        marks.append(runtime.mark())


def _alone(value):
    """Return the rank's own decision, for ranks that need not agree."""
    return value


def _steps_for(protocol, warmup_laps, agree):
    """Return the window's steps; for a minimum time, rank 0 estimates them from the warm-up."""
    steps = protocol["measured_steps"]
    if not protocol["min_seconds"]:
        return steps
    settled = sorted(warmup_laps[len(warmup_laps) // 2 :])
    if settled:
        lap = settled[len(settled) // 2]
        steps = max(steps, math.ceil(protocol["min_seconds"] * MARGIN / max(lap, 1e-6)))
    return int(agree(steps))


def _steps_missing(protocol, elapsed_s, done, agree):
    """Return the steps to add on all ranks while rank 0 finds the window too short."""
    if not protocol["min_seconds"]:
        return 0
    missing_s = protocol["min_seconds"] * MARGIN - elapsed_s
    steps = math.ceil(missing_s * done / elapsed_s) if missing_s > 0 else 0
    return int(agree(steps))


def _drain(task, runtime, recorder, drain_file, limit_s):
    marks = [runtime.mark()]
    while not os.path.exists(drain_file) and time.monotonic() < limit_s:
        _steps(task, runtime, recorder, "drain", 1, marks)
    runtime.device_sync()
    return runtime.laps(marks)


def _ends(begin_s, laps):
    ends = []
    for lap in laps:
        begin_s += lap
        ends.append(begin_s)
    return ends


EARLY_STEPS = 6
"""First steps of a training whose losses are stored, also of the warm-up."""


def loss_summary(losses, measured, again):
    """Return the losses of a rank for rank.json, and whether all of them are finite.

    JSON has no NaN: null replaces a loss that is not finite.

    Args:
        losses: of all steps.
        measured: the result of `measure`.
        again: whether the last loss is that of one more step on the first batch.

    Raises:
        ValueError: a step has no loss.
    """
    steps = len(measured.step_end_s) + again
    losses = [float(loss) for loss in losses if loss is not None]
    if len(losses) < steps:
        words = "losses() of trainer.py returned {} numbers; expected one for each of {} steps"
        raise ValueError(words.format(len(losses), steps))
    known = [loss if math.isfinite(loss) else None for loss in losses]
    window = known[measured.warmup_steps :][: len(measured.step_seconds)]
    early = known[: min(EARLY_STEPS, steps - again)]
    summary = {"first": known[0], "early": early, "window": window, "last": window[-1]}
    if again:
        summary["again"] = known[-1]
    return summary, None not in known
