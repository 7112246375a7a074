"""Finds the first bad version of a framework line; each step is a comparison, as `ab` makes it.

    <spool>/bisects/<id>/run.json           the request, and how the bisect stands
    <spool>/bisects/<id>/steps/<n>.json     the n-th step: versions, comparison, result
    <spool>/comparisons/<id>/               the launches of a step

Which version comes next depends on the steps that have ended (`version_search`), and a step that
was cut goes on where its comparison stands: another process can resume at any point.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.run_plan import new_run_id
from nightbench.experiments.ab import AbRequest, plan_ab
from nightbench.experiments.bisect_request import BisectRequest
from nightbench.experiments.comparison import ComparisonPlan
from nightbench.experiments.engine import (
    ComparisonObserver,
    ExperimentContext,
    MeasurementStopped,
    run_comparison,
)
from nightbench.experiments.experiment_spool import BISECT, Document, read_request, store_request
from nightbench.experiments.version_search import (
    EndedStep,
    SearchState,
    SearchStep,
    StepKind,
    VersionResult,
    search_state,
)
from nightbench.gang import EnvironmentUnavailable
from nightbench.spool import RunSpool, Spool, read_json, utc_now, write_json


class BudgetSpent(UserError):
    """Time or steps are used up; what was found so far stands."""


class BisectObserver(ComparisonObserver):
    """What is reported while a bisect is measured; here all of it is ignored."""

    def step_begins(self, step: Document, plan: ComparisonPlan) -> None:
        """A step begins or goes on; its comparison is reported next."""

    def step_ended(self, step: Document, state: SearchState) -> None:
        """A step has ended, and the search stands so."""


# --- in the spool -------------------------------------------------------------------------


def store_bisect(
    spool: Spool,
    bisect_id: str,
    request: BisectRequest,
    requested_by: str,
    suite: str,
    cluster: str,
) -> RunSpool:
    """Write the request before anything is measured, and return the bisect's folder.

    One that is there goes on with what it was begun with; only its limits change.

    Raises:
        UserError: the id belongs to another request.
    """
    folder = spool.bisect(bisect_id)
    known = folder.run()
    if known is not None:
        # The nodes stay those of the first step: results of others would not be comparable.
        request = dataclasses.replace(request, left_out=known["request"]["left_out"])
    document = dataclasses.asdict(request) | {"versions": list(request.versions)}
    free = ("budget_s", "most_tests", "outside_hours", "left_out")
    identity = {key: value for key, value in document.items() if key not in free}
    state = {"state": "running", "stopped": None, "ended_at": None}
    names = {"suite": suite, "cluster": cluster}
    store_request(folder, BISECT, document, identity, requested_by, **names, **state)
    return folder


def request_of(folder: RunSpool) -> BisectRequest:
    """Return the request of a bisect.

    Raises:
        UserError: there is no such bisect.
    """
    request = read_request(folder, BISECT)["request"]
    return BisectRequest(**{**request, "versions": tuple(request["versions"])})


def read_steps(folder: RunSpool) -> list[Document]:
    """Return the steps that were begun, in their order."""
    steps: list[Document] = []
    while (document := read_json(_step_file(folder, len(steps) + 1))) is not None:
        steps.append(document)
    return steps


def save_step(folder: RunSpool, step: Mapping[str, Any]) -> None:
    """Store a step as it stands."""
    write_json(_step_file(folder, step["number"]), step)


def _step_file(folder: RunSpool, number: int) -> Any:
    return folder.folder / "steps" / f"{number:03d}.json"


def read_state(folder: RunSpool) -> SearchState:
    """Return the state of the search after the steps that have ended."""
    ended = [
        EndedStep(StepKind(s["kind"]), s["version"], s["against"], VersionResult(s["result"]))
        for s in read_steps(folder)
        if s["status"] == "ended"
    ]
    return search_state(request_of(folder).versions, ended)


def mark_stopped(folder: RunSpool, why: str) -> None:
    """Store that a bisect is not measured any more, although its search has not ended."""
    folder.save_run({**(folder.run() or {}), "state": "stopped", "stopped": why})


def bisect_document(folder: RunSpool) -> Document:
    """Return all that is known of a bisect: what `--json` prints and the warehouse stores."""
    document, request = read_request(folder, BISECT), request_of(folder)
    steps, state = read_steps(folder), read_state(folder)
    stopped = document["stopped"]
    return {
        "schema": BISECT.schema,
        "bisect_id": folder.run_id,
        "alert_id": request.alert_id,
        "case_id": request.case_id,
        "cluster": document["cluster"],
        "suite": document["suite"],
        "line": request.line,
        "good": request.versions[0],
        "bad": request.versions[-1],
        "versions": list(request.versions),
        "state": document["state"],
        "stopped": stopped,
        "outcome": str(state.end) if document["state"] == "ended" else None,
        "last_good": state.last_good,
        "first_bad": state.first_bad,
        "suspects": list(state.suspects),
        "sentence": f"{stopped}; {state.sentence}" if stopped else state.sentence,
        "notes": list(state.notes),
        "ratio": _checked_ratio(steps),
        "budget_s": request.budget_s,
        "spent_s": _spent_s(steps),
        "requested_by": document["requested_by"],
        "started_at": document["started_at"],
        "ended_at": document["ended_at"],
        "steps": steps,
    }


def _checked_ratio(steps: Sequence[Document]) -> float | None:
    """Return the bad version's throughput over the good one's; None before the check."""
    ratios = [s["ratio"] for s in steps if s["kind"] == StepKind.CHECK and s["status"] == "ended"]
    return ratios[-1] if ratios else None


def _spent_s(steps: Sequence[Document]) -> float:
    return math.fsum(step["spent_s"] for step in steps)


# --- measuring ----------------------------------------------------------------------------


async def measure_bisect(
    folder: RunSpool,
    spool: Spool,
    context: ExperimentContext,
    observer: BisectObserver,
    keep: Callable[[Document], None],
) -> Document:
    """Test versions until the first bad one is found or the budget is spent.

    Args:
        folder: of the bisect, as `store_bisect` returns it.
        spool: where its comparisons are stored.
        context: where it is measured; its suite has the one case.
        observer: is told how it goes.
        keep: stores the bisect's document, which it gets after every step; may store it again.

    Returns:
        The document of the bisect at the end.

    Raises:
        UserError: the good version cannot be measured any more, so no other can be judged; it can
            be resumed when that is mended.
        asyncio.CancelledError: after the gang has been ended on the nodes.
    """
    bisect = _Bisect(folder, spool, context, request_of(folder), observer)
    running = {"state": "running", "stopped": None, "ended_at": None}
    ended: Document = {"state": "stopped", "stopped": "it was interrupted"}
    with folder.steered():
        folder.save_run({**(folder.run() or {}), **running})
        keep(bisect_document(folder))
        try:
            while (following := read_state(folder).next) is not None:
                await bisect.step(following)
                observer.step_ended(read_steps(folder)[-1], read_state(folder))
                keep(bisect_document(folder))
            ended = {"state": "ended", "stopped": None, "ended_at": utc_now()}
        except (BudgetSpent, MeasurementStopped) as error:
            ended["stopped"] = str(error)
        except UserError as error:
            ended["stopped"] = str(error)
            raise
        finally:
            folder.save_run({**(folder.run() or {}), **ended})
            keep(bisect_document(folder))
    return bisect_document(folder)


@dataclass(frozen=True)
class _Bisect:
    """One process that measures the steps of a bisect."""

    folder: RunSpool
    spool: Spool
    context: ExperimentContext
    request: BisectRequest
    observer: BisectObserver

    async def step(self, following: SearchStep) -> None:
        """Measure one step from its first launch, or from where it was cut, to its result."""
        steps = read_steps(self.folder)
        if steps and steps[-1]["status"] == "running":
            step = steps[-1]
        else:
            self._check_budget(steps)
            step = self._new_step(len(steps) + 1, following, steps)
        began, before_s = time.monotonic(), step["spent_s"]

        def save() -> None:
            # At the end of every launch: what a killed process has used is used.
            step["spent_s"] = before_s + time.monotonic() - began
            save_step(self.folder, step)

        save()
        request = self._comparison_request(step)
        plan = self._plan(request, step)
        self.observer.step_begins(step, plan)
        try:
            result = await run_comparison(
                plan,
                self.spool,
                dataclasses.asdict(request),
                self.folder.run_id,
                self.context,
                self.observer,
                save,
            )
            self._judge(step, result)
        except EnvironmentUnavailable as error:
            if step["kind"] == StepKind.CHECK:
                step |= {"status": "void", "why": str(error)}
                raise
            _end(step, VersionResult.SKIPPED, f"it cannot be installed: {error}")
        finally:
            save()

    def _check_budget(self, steps: Sequence[Document]) -> None:
        """Refuse a step for which there is no room."""
        ended = [step for step in steps if step["status"] == "ended"]
        if len(ended) >= self.request.most_tests:
            raise BudgetSpent(f"{len(ended)} tests were made, and no more were allowed")
        spent_s, budget_s = _spent_s(steps), self.request.budget_s
        longest_s = max((step["spent_s"] for step in ended if step["rounds"]), default=0.0)
        if budget_s - spent_s < longest_s or budget_s <= spent_s:
            raise BudgetSpent(
                f"{_span(spent_s)} of {_span(budget_s)} are used up, and a test takes up to "
                f"{_span(longest_s)}"
            )

    def _new_step(self, number: int, following: SearchStep, steps: Sequence[Document]) -> Document:
        rounds = self.request.rounds
        return {
            "number": number,
            "kind": str(following.kind),
            "version": following.version,
            "against": following.against,
            "comparison_id": new_run_id("ab", datetime.now(UTC)),
            "status": "running",
            "result": None,
            "why": "",
            "ratio": None,
            "low": None,
            "high": None,
            "rounds": 0,
            "wanted_rounds": rounds * 2 if following.again else rounds,
            "min_effect": self._deciding_effect(steps),
            "started_at": utc_now(),
            "ended_at": None,
            "spent_s": 0.0,
        }

    def _deciding_effect(self, steps: Sequence[Document]) -> float:
        """Return half of the fall from the good version to the bad one, in logarithms."""
        ratio = _checked_ratio(steps)
        if ratio is None:
            return self.request.min_effect
        return float(max(ratio**-0.5 - 1, self.request.min_effect / 2))

    def _comparison_request(self, step: Document) -> AbRequest:
        """Return the request with which `nightbench ab --resume` and `cancel` find the step."""
        request = self.request
        return AbRequest(
            a=f"{request.line}={step['against']}",
            b=f"{request.line}={step['version']}",
            suite=request.suite,
            cases=[request.case_id],
            cluster=request.cluster,
            rounds=step["wanted_rounds"],
            min_effect=step["min_effect"],
            seed=request.seed,
            outside_hours=request.outside_hours,
        )

    def _plan(self, request: AbRequest, step: Document) -> ComparisonPlan:
        context, steps = self.context, read_steps(self.folder)
        # Before the first step nobody knows what a launch takes: its time limit says nothing.
        launch_s = max((s["spent_s"] / s["rounds"] / 2 for s in steps if s["rounds"]), default=None)
        deadlines = [context.deadline] if context.deadline else []
        if launch_s is not None:
            left_s = max(self.request.budget_s - _spent_s(steps), 0.0)
            deadlines.append(datetime.now(UTC) + timedelta(seconds=left_s))
        plan = plan_ab(
            request,
            step["comparison_id"],
            context.suite,
            context.cluster,
            context.catalog,
            left_out=self.request.left_out,
            deadline=min(deadlines, default=None),
            past=context.past,
        )
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
                f"{self.folder.run_id}: {why}. It was measured before, so the nodes are to blame, "
                "not a version. Mend that, then go on: nightbench bisect --resume "
                f"{self.folder.run_id}"
            )
        _end(step, *judged(row, step["min_effect"]))


def judged(row: Mapping[str, Any], min_effect: float) -> tuple[VersionResult, str]:
    """Return what a comparison says of the newer version, and why.

    Args:
        row: the case in the comparison's result.
        min_effect: half of the fall that is looked for; a version is bad where its whole interval
            lies below it, and good where it lies above.
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
    return VersionResult.UNSURE, f"{why}: that holds both answers, the limit is {limit:.4f}"


def _end(step: Document, result: VersionResult, why: str) -> None:
    step |= {"status": "ended", "result": str(result), "why": why, "ended_at": utc_now()}


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
