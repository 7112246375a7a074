"""Finds the first bad version of a framework line; each step is a comparison.

Which version comes next depends on the steps that have ended (`version_search`), and a step that
was interrupted continues where its comparison stopped: another process can resume at any point.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from nightbench.config.experiment_requests import BisectRequest, CompareRequest
from nightbench.core.budget import duration
from nightbench.core.documents import from_document
from nightbench.core.errors import UserError
from nightbench.core.model import TrainingKind
from nightbench.core.model.experiments import ExperimentKind
from nightbench.experiments.bisect_request import (
    bisect_document,
    checked_ratio,
    read_steps,
    request_of,
    save_step,
    search_so_far,
    spent_s,
    store_bisect,
    with_versions,
)
from nightbench.experiments.compare import plan_compare, with_cases
from nightbench.experiments.comparison import ComparisonPlan
from nightbench.experiments.engine import Turn, run_comparison
from nightbench.experiments.experiment_spool import (
    Document,
    MeasurementStopped,
    check_cancel,
    withdraw_cancel,
)
from nightbench.experiments.record import Ended
from nightbench.experiments.version_search import SearchStep, StepKind, VersionResult
from nightbench.gang import EnvironmentUnavailable
from nightbench.spool import RunSpool, utc_now


class BudgetSpent(MeasurementStopped):
    """Its time or its tests are used up."""


async def measure_bisect(turn: Turn) -> Ended:
    """Test versions until the first bad one is found or the budget is spent.

    The record gets the result after every step.

    Raises:
        UserError: the good version cannot be measured any more, so no other can be judged; it can
            be resumed when that is fixed.
        asyncio.CancelledError: after the gang has been ended on the nodes.
    """
    folder, observer, record = turn.folder, turn.observer, turn.record
    request = from_document(BisectRequest, turn.experiment.request)
    suite = with_cases(turn.context.suite, [request.case_id])
    context = dataclasses.replace(turn.context, suite=suite)
    turn = dataclasses.replace(turn, context=context)
    if folder.run() is None:
        request = await with_versions(request, turn)
    else:
        limits = {name: getattr(request, name) for name in ("budget_s", "most_tests")}
        request = dataclasses.replace(request_of(folder), **limits)
    by = turn.experiment.requested_by
    store_bisect(folder, request, by, suite.name, context.cluster.name)
    bisect = _Bisect(folder, request, turn)
    observer.say(
        f"{folder.run_id}: {request.line} {request.versions[0]} (good) to {request.versions[-1]} "
        f"(bad), {len(request.versions) - 2} versions between, measured with {request.case_id} on "
        f"{context.cluster.name}"
    )
    stopped: str | None = None
    state = ""
    with folder.controlled():
        withdraw_cancel(folder)
        stop = record.note(bisect_document(folder))
        try:
            while (following := search_so_far(folder).next) is not None:
                check_cancel(folder)
                if stop is not None:
                    raise MeasurementStopped(f"{folder.run_id}: {stop}")
                await bisect.step(following)
                observer.step_ended(read_steps(folder)[-1], search_so_far(folder))
                stop = record.note(bisect_document(folder))
        except BudgetSpent as error:
            state, stopped = "done", str(error)
        except MeasurementStopped as error:
            stopped = str(error)
    ends_as, why = record.finished(folder, stopped)
    state = state or ends_as
    return Ended(state, stopped or why, bisect_document(folder, state, stopped or ""))


@dataclass(frozen=True)
class _Bisect:
    folder: RunSpool
    request: BisectRequest
    turn: Turn

    async def step(self, following: SearchStep) -> None:
        """Measure one step from its first launch, or from where it was cut, to its result."""
        steps = read_steps(self.folder)
        if steps and steps[-1]["status"] == "running":
            step = steps[-1]
        else:
            self._check_budget(steps)
            step = self._new_step(len(steps) + 1, following, steps)
        began, before_s = time.monotonic(), step["spent_s"]

        def save() -> str | None:
            # Stored after every launch, so that the time of a killed process counts.
            step["spent_s"] = before_s + time.monotonic() - began
            save_step(self.folder, step)
            return self.turn.record.note()

        save()
        request = self._comparison_request(step)
        plan = self._plan(request, step)
        self.turn.observer.step_begins(step)
        asked = dataclasses.asdict(request)
        try:
            result = await run_comparison(plan, asked, self.folder.run_id, self.turn, save)
            self._judge(step, result)
        except EnvironmentUnavailable as error:
            if step["kind"] == StepKind.CHECK:
                step |= {"status": "void", "why": str(error)}
                raise
            _end(step, VersionResult.SKIPPED, f"it cannot be installed: {error}")
        finally:
            save()

    def _check_budget(self, steps: Sequence[Document]) -> None:
        ended = [step for step in steps if step["status"] == "ended"]
        if len(ended) >= self.request.most_tests:
            raise BudgetSpent(f"all {len(ended)} allowed tests were made")
        used_s, budget_s = spent_s(steps), self.request.budget_s
        longest_s = max((step["spent_s"] for step in ended if step["rounds"]), default=0.0)
        if budget_s - used_s < longest_s or budget_s <= used_s:
            raise BudgetSpent(
                f"{duration(used_s)} of the budget of {duration(budget_s)} are used up; another "
                f"test takes up to {duration(longest_s)}"
            )

    def _new_step(self, number: int, following: SearchStep, steps: Sequence[Document]) -> Document:
        rounds = self.request.rounds
        return {
            "number": number,
            "kind": str(following.kind),
            "version": following.version,
            "against": following.against,
            "comparison_id": f"{self.folder.run_id}-{number}",
            "status": "running",
            **dict.fromkeys(("result", "ratio", "low", "high", "ended_at")),
            "why": "",
            "rounds": 0,
            "wanted_rounds": rounds * 2 if following.again else rounds,
            "min_effect": self._deciding_effect(steps),
            "started_at": utc_now(),
            "spent_s": 0.0,
        }

    def _deciding_effect(self, steps: Sequence[Document]) -> float:
        """Return half of the fall from the good version to the bad one, in logarithms."""
        ratio = checked_ratio(steps)
        if ratio is None:
            return self.request.min_effect
        return float(max(ratio**-0.5 - 1, self.request.min_effect / 2))

    def _comparison_request(self, step: Document) -> CompareRequest:
        request = self.request
        return CompareRequest(
            a=f"{request.line}={step['against']}",
            b=f"{request.line}={step['version']}",
            suite=request.suite,
            cases=(request.case_id,),
            cluster=request.cluster,
            rounds=step["wanted_rounds"],
            min_effect=step["min_effect"],
            seed=request.seed,
            outside_hours=request.outside_hours,
        )

    def _plan(self, request: CompareRequest, step: Document) -> ComparisonPlan:
        context, steps = self.turn.context, read_steps(self.folder)
        # Before the first step, the duration of a launch is unknown; its time limit is no estimate.
        launch_s = max((s["spent_s"] / s["rounds"] / 2 for s in steps if s["rounds"]), default=None)
        deadlines = [context.deadline] if context.deadline else []
        if launch_s is not None:
            left_s = max(self.request.budget_s - spent_s(steps), 0.0)
            deadlines.append(datetime.now(UTC) + timedelta(seconds=left_s))
        context = dataclasses.replace(context, deadline=min(deadlines, default=None))
        name, out = step["comparison_id"], self.request.left_out
        plan = plan_compare(request, name, context, out, ExperimentKind.BISECT)
        return plan if launch_s is None else plan.expecting(launch_s)

    def _judge(self, step: Document, result: Document) -> None:
        """Write the result of a comparison into its step.

        Raises:
            MeasurementStopped: the comparison goes on another time.
            UserError: the older version, which could be measured before, cannot any more.
        """
        (row,) = result["cases"]
        if not result["complete"]:
            raise MeasurementStopped(row["stopped"])
        step |= {name: row[name] for name in ("ratio", "low", "high")} | {"rounds": row["n"]}
        failed = {launch["arm"] for launch in row["dropped"] if launch["status"] == "failed"}
        if not row["complete"] and "a" in failed:
            why = f"{step['against']} could not be measured: {row['stopped']}"
            step |= {"status": "void", "why": why}
            raise UserError(
                f"{self.folder.run_id}: {why}. This version was measured before, so the nodes are "
                "the cause, not the version. Fix the nodes, then continue: nightbench compare "
                f"bisect --resume {self.folder.run_id}"
            )
        if self.request.metric == "training" and row["n"]:
            _end(step, *judged_training(row["training"]))
        else:
            _end(step, *judged(row, step["min_effect"]))


def judged_training(found: Mapping[str, Any]) -> tuple[VersionResult, str]:
    """Return whether the newer version trains as the older one, and why."""
    results = {TrainingKind.CHANGED: VersionResult.BAD, TrainingKind.SAME: VersionResult.GOOD}
    return results.get(TrainingKind(found["kind"]), VersionResult.UNSURE), found["sentence"]


def judged(row: Mapping[str, Any], min_effect: float) -> tuple[VersionResult, str]:
    """Return what a case of a comparison's result says of the newer version, and why.

    It is bad if its whole interval is below `min_effect`, which is half of the drop that is
    looked for, and good if it is above.
    """
    if row["low"] is None:
        why = f"it could not be measured: {row['stopped'] or row['sentence']}"
        return VersionResult.SKIPPED, why
    why = (
        f"{row['ratio']:.4f} of its throughput ({row['low']:.4f} to {row['high']:.4f}, "
        f"{row['n']} rounds)"
    )
    limit = 1 / (1 + min_effect)
    if row["verdict"] == "slower":
        return VersionResult.BAD, why
    if row["low"] > limit:
        return VersionResult.GOOD, why
    return VersionResult.UNSURE, f"{why}: inconclusive, the limit is {limit:.4f}"


def _end(step: Document, result: VersionResult, why: str) -> None:
    step |= {"status": "ended", "result": str(result), "why": why, "ended_at": utc_now()}
