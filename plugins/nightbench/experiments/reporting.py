"""Reports the progress of an experiment, on a terminal and in a task's log."""

import time
from collections.abc import Callable

from nightbench.core.sentences import sentences
from nightbench.experiments.comparison import ComparedCase, ComparisonPlan
from nightbench.experiments.experiment_spool import Document
from nightbench.experiments.rounds import Arm, Launch
from nightbench.experiments.version_search import SearchState
from nightbench.gang.progress import GangEvent
from nightbench.nodes import NodesOut
from nightbench.report.live_view import NOTABLE, CaseState
from nightbench.report.tables import figure
from nightbench.spool import RunSpool

_QUIET_S = 30.0


class ComparisonReporter:
    """Reports a line for each launch, and its progress after a while without a line.

    With `all_events` minor events are reported as well.
    """

    def __init__(self, say: Callable[[str], None], *, all_events: bool = False) -> None:
        self._say = say
        self._all_events = all_events
        self._rounds = 0
        self._folder: RunSpool | None = None
        self._now: tuple[ComparedCase, int, str] | None = None
        self._said_s = time.monotonic()

    def say(self, text: str) -> None:
        """Say a line."""
        self._said_s = time.monotonic()
        self._say(text)

    def left_out(self, nodes: NodesOut) -> None:
        """Say which nodes are not used."""
        for why in nodes.values():
            self.say(sentences(why))

    def comparison_begins(self, plan: ComparisonPlan, folder: RunSpool) -> None:
        """Say what is compared and where."""
        self._rounds, self._folder, self._now = plan.rounds, folder, None
        a, b = (plan.builds[arm].build_id for arm in Arm)
        cases = f"{len(plan.cases)} {'case' if len(plan.cases) == 1 else 'cases'}"
        rounds = f"{plan.rounds} {'round' if plan.rounds == 1 else 'rounds'}"
        nodes = ", ".join(dict.fromkeys(node for case in plan.cases for node in case.nodes))
        self.say(
            f"{plan.comparison_id}: A {a}, B {b}, {cases}, {rounds} on "
            f"{plan.cluster.name} ({nodes})"
        )
        if a == b:
            self.say("A and B are the same build, so every difference between them is noise")

    def gang_event(self, event: GangEvent) -> None:
        """Say what happened on a node, if it is worth a line."""
        if self._all_events or event.kind in NOTABLE:
            self.say(f"  {event}")

    def launch_begins(self, case: ComparedCase, number: int, of_round: int, arm: Arm) -> None:
        """Store the launch that `refresh` reports on."""
        self._now = (case, number, f"{case.case_id} round {of_round} {arm.upper()}")

    def launch_ended(self, case: ComparedCase, number: int, launch: Launch) -> None:
        """Print the result of a launch."""
        if launch.status == "ok":
            outcome = f"{figure(launch.throughput)} {case.unit}/s"
        else:
            why = launch.why.split("\n")[0]
            outcome = f"{launch.status}; the round is dropped: {why}"
        label = f"round {launch.round} of {self._rounds}, {launch.arm.upper()}"
        self.say(f"{case.case_id}: {label}: {outcome}")

    def refresh(self) -> None:
        """Print the progress of a launch that has run for a while."""
        if self._now is None or time.monotonic() - self._said_s < _QUIET_S:
            return
        assert self._folder is not None
        case, number, label = self._now
        progress = self._folder.case(case.case_id, number).progress()
        state = CaseState(case.case_id, case.unit, None, progress)
        self.say(f"  {label}: {state.words() or 'preparing'}")

    def step_begins(self, step: Document) -> None:
        """Say which versions a bisect compares."""
        self.say(f"test {step['number']} ({step['kind']}): {step['version']} and {step['against']}")

    def step_ended(self, step: Document, state: SearchState) -> None:
        """Print the result of a version and the progress of the search."""
        self._now = None
        self.say(f"test {step['number']}: {step['version']} is {step['result']}: {step['why']}")
        self.say(state.sentence)
