"""Events and progress.json, reported while a gang is prepared and measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.core.model import JobSpec
from nightbench.gang.decisions import NodeView


@dataclass(frozen=True)
class GangEvent:
    """An event of a gang, as one line of a log."""

    kind: str
    """ship, provision, pod, batch, epoch, agent, sweep, waiting, repeat, lost, back, paused,
    outcome or cancel."""
    message: str
    node: str | None = None
    epoch: int | None = None
    """The epoch that this controller has claimed, of an event `epoch`."""

    def __str__(self) -> str:
        return f"{self.node}: {self.message}" if self.node else self.message


OnEvent = Callable[[GangEvent], None]


def ignore(event: GangEvent) -> None:
    """Ignore an event."""


class ProgressDocument:
    """Builds progress.json from the views of the nodes."""

    def __init__(self, job: JobSpec) -> None:
        self._job = job
        self._total = job.protocol.warmup_steps + job.protocol.measured_steps
        self._durations: list[float] = []
        self._first: tuple[int, float] | None = None
        """(step, node's clock in s) from which the rate of this repeat is measured."""

    def repeat_ended(self, duration_s: float) -> None:
        """Record the duration of a repeat that ended well."""
        self._durations.append(duration_s)

    def next_repeat(self) -> None:
        """Begin another repeat."""
        self._first = None

    def document(
        self,
        state: str,
        repeat: int,
        views: Sequence[NodeView] = (),
        running_s: float = 0.0,
        message: str = "",
    ) -> dict[str, Any]:
        """Return progress.json.

        The state is provisioning, waiting, preparing, running, collecting or ended; the repeat is 0
        before the first.
        """
        phase, step, rate = self._steps(views)
        # Disturbed repeats are launched again: their numbers go beyond the protocol's.
        left = max(self._job.protocol.repeats - repeat, 0)
        return {
            "state": state,
            "repeat": repeat,
            "repeats": max(self._job.protocol.repeats, repeat),
            "phase": phase,
            "step": step,
            "steps": self._total,
            "throughput": self._throughput(rate),
            "unit": self._job.unit,
            "eta_s": self._eta_s(left, step, rate, running_s) if state != "ended" else 0.0,
            "message": message,
        }

    def _steps(self, views: Sequence[NodeView]) -> tuple[str | None, int, float | None]:
        """Return phase, step (warm-up and window together) and steps/s of the slowest trainer."""
        measured = {process.name for process in self._job.processes if process.measured}
        trainers = [
            process
            for view in views
            for name, process in view.processes.items()
            if name in measured and process.phase
        ]
        if not trainers:
            return None, 0, None
        slowest = min(trainers, key=lambda p: (self._step_of(p.phase, p.step), p.t_s or 0.0))
        step = self._step_of(slowest.phase, slowest.step)
        if slowest.t_s is None or slowest.phase not in ("warmup", "window"):
            return slowest.phase, step, None
        if self._first is None or self._first[0] > step:
            self._first = (step, slowest.t_s)
        steps, seconds = step - self._first[0], slowest.t_s - self._first[1]
        return slowest.phase, step, steps / seconds if steps > 0 and seconds > 0 else None

    def _step_of(self, phase: str, step: int) -> int:
        if phase == "warmup":
            return step
        if phase == "window":
            return min(self._job.protocol.warmup_steps + step, self._total)
        return self._total if phase in ("drain", "finish") else 0

    def _throughput(self, rate: float | None) -> float | None:
        """Estimate units/s for display; the measured throughput comes from the window's records."""
        units = self._job.units_per_trainer_step
        return None if rate is None or units is None else rate * units * self._job.measured

    def _eta_s(self, left: int, step: int, rate: float | None, running_s: float) -> float | None:
        if self._durations:
            usual = sum(self._durations) / len(self._durations)
            return round(left * usual + max(usual - running_s, 0.0), 1)
        if rate is None:
            return None
        rest = (self._total - step) / rate
        return round(rest + left * (running_s + rest), 1)
