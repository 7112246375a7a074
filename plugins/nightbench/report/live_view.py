"""Progress of a run, read from its spool: in place on a terminal, else as lines."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from nightbench.core.budget import duration
from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import STACK, sentences
from nightbench.report.tables import figure
from nightbench.spool import RunSpool

if TYPE_CHECKING:
    from nightbench.gang.progress import GangEvent

_MARKS = {
    "ok": "[green]✓[/green]",
    "failed": "[red]✗[/red]",
    "cancelled": "[yellow]■[/yellow]",
    "unavailable": "[yellow]–[/yellow]",
    "left_out": "[cyan]–[/cyan]",
}
NOTABLE = ("ship", "provision", "lost", "back", "cancel")
"""Kinds of events that matter to the user."""
_QUIET_S = 30.0
_LOG_LINES = 16
_STACKS = 3


@dataclass(frozen=True)
class CaseState:
    """Progress of one case."""

    case_id: str
    unit: str
    outcome: Mapping[str, Any] | None
    progress: Mapping[str, Any] | None

    @property
    def status(self) -> str:
        """`waiting`, `running`, or how it ended."""
        if self.outcome is not None:
            return str(self.outcome["status"])
        return "running" if self.progress is not None else "waiting"

    def words(self) -> str:
        """Return the progress of the case: repeat, step, throughput, time left."""
        if self.outcome is not None:
            return sentences(reasons_from_json(self.outcome["reasons"])).split("\n")[0]
        now = self.progress
        if now is None:
            return ""
        parts = []
        if now.get("repeat"):
            parts.append(f"repeat {now['repeat']} of {now['repeats']}")
        if now.get("step") is not None and now.get("phase"):
            steps = f" of {now['steps']}" if now.get("steps") else ""
            parts.append(f"{now['phase']} step {now['step']}{steps}")
        if now.get("throughput"):
            parts.append(f"{figure(now['throughput'])} {self.unit}/s")
        if now.get("eta_s") is not None:
            parts.append(f"{duration(now['eta_s'])} left")
        if now.get("state") != "running":
            parts.append(str(now.get("message") or now.get("state") or ""))
        return " · ".join(part for part in parts if part)


class LiveView:
    """Shows the progress of a run's cases; on a terminal in place, else a line for each change.

    Args:
        run: the run.
        shown: a console, or a function that takes lines.
        history: seconds that a case usually takes, by case_id.
        cases: only these [default: all].
        all_events: show minor events, too.
    """

    def __init__(
        self,
        run: RunSpool,
        shown: Console | Callable[[str], None],
        history: Mapping[str, float] | None = None,
        *,
        cases: Collection[str] | None = None,
        all_events: bool = False,
    ) -> None:
        self._console = shown if isinstance(shown, Console) else None
        self._line: Callable[[str], None] = (
            partial(shown.print, markup=False, highlight=False, soft_wrap=True)
            if isinstance(shown, Console)
            else shown
        )
        self._run = run
        self._all_events = all_events
        self._units = {
            str(p["case_id"]): str(p.get("unit") or "units")
            for p in run.planned()
            if cases is None or p["case_id"] in cases
        }
        self._history = history or {}
        self._ended: dict[str, CaseState] = {}
        self._began: dict[str, float] = {}
        self._took: list[float] = []
        self._live: Live | None = None
        self._said: tuple[str, float] = ("", 0.0)
        self._announced: set[str] = set()

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._console is not None and self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Show the last state and what the failed cases wrote last, and stop."""
        self.refresh()
        if self._live is not None:
            self._live.stop()
        for state in self._ended.values():
            if state.status == "failed":
                self._show_log(state.case_id)

    def refresh(self, note: str = "") -> None:
        """Read the spool again and show what it says.

        The note is shown while no case runs.
        """
        states = self.states()
        if self._live is not None:
            self._live.update(self._picture(states, note), refresh=True)
        else:
            self._say(states, note)

    def hear(self, event: GangEvent) -> None:
        """Show an event that matters to the user: something is shipped, built, or wrong."""
        if self._all_events or event.kind in NOTABLE:
            self._line(f"  {event}")

    def states(self) -> list[CaseState]:
        """Return the progress of each case, in the order of the plan."""
        return [self._ended.get(case_id) or self._look(case_id) for case_id in self._units]

    def _look(self, case_id: str) -> CaseState:
        store = self._run.latest(case_id)
        outcome = store.outcome() if store else None
        progress = store.progress() if store and outcome is None else None
        state = CaseState(case_id, self._units[case_id], outcome, progress)
        if progress is not None:
            self._began.setdefault(case_id, time.monotonic())
        if outcome is not None:
            self._ended[case_id] = state
            if case_id in self._began:
                self._took.append(time.monotonic() - self._began[case_id])
        return state

    def seconds_left(self, states: Sequence[CaseState]) -> float | None:
        """Return the estimated seconds until the last case has ended; None while unknown."""
        usual = statistics.fmean(self._took) if self._took else None
        left = 0.0
        for state in states:
            if state.outcome is not None:
                continue
            whole = self._history.get(state.case_id, usual)
            began = self._began.get(state.case_id)
            spent = 0.0 if began is None else time.monotonic() - began
            if state.progress is not None and state.progress.get("eta_s") is not None:
                left += float(state.progress["eta_s"])
            elif whole is None:
                return None
            else:
                left += max(whole - spent, 0.0)
        return left

    def _headline(self, states: Sequence[CaseState], note: str) -> str:
        ended = sum(state.outcome is not None for state in states)
        number = min(ended + 1, len(states))
        words = f"case {number} of {len(states)}" if ended < len(states) else "all cases ended"
        left = self.seconds_left(states)
        if left is not None and ended < len(states):
            words += f" · about {duration(left)} left"
        idle = all(state.status != "running" for state in states)
        return f"{words} · {note}" if note and idle else words

    def _picture(self, states: Sequence[CaseState], note: str) -> RenderableType:
        grid = Table.grid(padding=(0, 1))
        for state in states:
            mark = _MARKS.get(state.status, "[cyan]▶[/cyan]" if state.progress else "·")
            grid.add_row(mark, escape(state.case_id), Text(state.words(), style="dim"))
        return Group(grid, Text(self._headline(states, note), style="bold"))

    def _say(self, states: Sequence[CaseState], note: str) -> None:
        """Print a line when something has changed, or when nothing was printed for a while."""
        ended = [state for state in states if state.outcome is not None]
        running = [state for state in states if state.status == "running"]
        now = running[0].progress if running else None
        key = f"{len(ended)} {running[0].case_id if running else note} "
        key += f"{now.get('repeat')}" if now else ""
        before, at = self._said
        if key == before and time.monotonic() - at < _QUIET_S:
            return
        self._said = (key, time.monotonic())
        for each in ended:
            if each.case_id not in self._announced:
                self._announced.add(each.case_id)
                said = each.words()
                # Only the checks decide whether a measurement is good; the results show this.
                status = "measured; not checked yet" if each.status == "ok" else each.status
                if not said.startswith(status):
                    said = f"{status}: {said}" if said else status
                self._line(f"{each.case_id}: {said}")
        if running:
            words = f"{running[0].case_id} · {running[0].words()}"
            self._line(f"[{self._headline(states, note)}] {words}")
        elif len(ended) < len(states) or note:
            self._line(f"[{self._headline(states, note)}]")

    def _show_log(self, case_id: str) -> None:
        """Print the error of a case's last repeat, or the end of its log, if it has one."""
        store = self._run.latest(case_id)
        numbers = store.repeats() if store else []
        if store is None or not numbers:
            return
        record = store.repeat(numbers[-1]) or {}
        text = record.get("error") or record.get("log_tail")
        if text:
            self._line(f"{case_id}: how repeat {numbers[-1]} failed:")
            for line in _relevant_lines(str(text).splitlines()):
                self._line(f"  {line}")
            self._line(f"  its log: nightbench logs --run {self._run.run_id} --case {case_id}")


def _relevant_lines(lines: Sequence[str]) -> list[str]:
    """Return the end of a log or traceback; of stacks the first lines: innermost calls."""
    stacks = [number for number, line in enumerate(lines) if line.endswith(STACK)]
    if not stacks:
        return list(lines[-_LOG_LINES:])
    shown = stacks[:_STACKS]
    ends = [*stacks[1:], len(lines)]
    parts = (
        lines[begin : min(begin + _LOG_LINES // len(shown), end)]
        for begin, end in zip(shown, ends, strict=False)
    )
    return [line for part in parts for line in part]
