"""Drills of the detector: a real case, measured night after night, of which the last are slowed.

    <spool>/comparisons/<id>/run.json        the request, the sleep that it adds, the result
    <spool>/comparisons/<id>/runs/<night>/   each night, as every run has it

The nights are measured one right after another, dated a day apart, and judged as real ones are.
Results and verdicts that exist are read from the spool, so that any process can resume. The runs
are stored in a spool of their own: no ingest finds them, and no history contains them.
"""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from nightbench.alerts import AlertItem, Message, message
from nightbench.alerts.replay import AlertLife
from nightbench.core.capabilities import refuse_broken
from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseStatus,
    Catalog,
    Cluster,
    HistoryPoint,
    Measurement,
    RunKind,
    Suite,
    Verdict,
    VerdictKind,
)
from nightbench.core.run_plan import RunPlan, make_plan
from nightbench.detection import Judgement, judge_cases
from nightbench.detection.case_verdicts import measured_case, point_of
from nightbench.detection.changes import FEWEST
from nightbench.experiments.experiment_spool import DRILL, Document, read_request, store_request
from nightbench.gang import Shipment, Target, case_runner
from nightbench.gang.progress import OnEvent
from nightbench.night.load_batch import build_load_batch
from nightbench.spool import RunSpool, Spool, utc_now
from nightbench.spool.plans import mark_ended, read_plan, store_plan

SLEEP_VARIABLE = "NIGHTBENCH_DRILL_SLEEP_S"
"""Environment variable; ranks refuse it in a run whose id does not begin with `drill-`."""


@dataclass(frozen=True)
class Drill:
    """A drill and its place in the spool."""

    drill_id: str
    spool: Spool
    suite: Suite
    """With the one case."""
    cluster: Cluster
    catalog: Catalog
    nights: int
    size: float
    """Fraction of the throughput that the slowdown takes."""
    began: datetime
    before: int
    """Nights that are not slowed: what the detector knows of the series then."""

    @property
    def case_id(self) -> str:
        """The case."""
        return self.suite.cases[0].case_id

    @property
    def first_slow(self) -> int:
        """Number of the first slowed night, from 1."""
        return self.before + 1

    @property
    def folder(self) -> RunSpool:
        """Its files."""
        return self.spool.comparison(self.drill_id)

    def night(self, number: int) -> RunSpool:
        """Return the run of a night, in the drill's own spool."""
        return Spool(self.folder.folder).run(f"{self.drill_id}-n{number:02d}")

    def at(self, night: int) -> datetime:
        """Return the date of a night: the last one is today's."""
        return self.began - timedelta(days=self.nights - night)

    def plan(self, run_id: str, started_at: datetime | None = None) -> RunPlan:
        """Return the plan of a run of the case that sends no message."""
        # The throughput shows the slowdown, whichever metric the suite judges.
        policy = self.suite.policy.model_copy(update={"metric": "throughput"})
        name = f"drill-{self.suite.name}"
        suite = dataclasses.replace(self.suite, name=name, alerts=(), policy=policy)
        refuse_broken(suite.cases, suite, self.cluster, self.catalog)
        return make_plan(
            suite,
            self.cluster,
            self.catalog,
            run_kind=RunKind.DRILL,
            run_id=run_id,
            started_at=started_at,
        )


@dataclass(frozen=True)
class DrillNight:
    """A night of a drill, measured and judged."""

    number: int
    sleep_s: float
    """In each step."""
    measurement: Measurement
    verdict: Verdict
    judgement: Judgement | None
    opened: bool
    """It opened the alert."""


def nights_needed(suite: Suite) -> int:
    """Return the number of nights that a verdict needs before it."""
    return max(suite.policy.min_history, FEWEST - 1)


def store_drill(drill: Drill, request: Mapping[str, Any], requested_by: str) -> None:
    """Write the request before anything is measured; it may be written again to resume.

    Raises:
        UserError: there are too few nights to find anything, or the case has changed since the
            drill was begun.
    """
    needed = nights_needed(drill.suite)
    if drill.before < needed:
        raise UserError(
            f"before: found {drill.before}; expected at least {needed}, which suite "
            f"{drill.suite.name} needs for verdicts"
        )
    if drill.nights < drill.first_slow + 1:
        raise UserError(
            f"nights: found {drill.nights}; expected at least {drill.first_slow + 1}: "
            f"{drill.before} before the slowdown, and two to detect a change"
        )
    (job,) = drill.plan(drill.drill_id).jobs
    identity = {"code": drill.catalog.code_digest, "definition": job.definition_digest}
    store_request(
        drill.folder,
        DRILL,
        request,
        identity,
        requested_by,
        drill_id=drill.drill_id,
        began=drill.began.isoformat(),
        sleep_s=None,
        found=None,
    )


# --- measuring ----------------------------------------------------------------------------


def measure_night(
    drill: Drill,
    number: int,
    targets: Mapping[str, Target],
    shipment: Shipment,
    on_event: OnEvent,
    refresh: Callable[[], None],
) -> None:
    """Measure a night, unless it has been; one that was cut continues.

    Raises: KeyboardInterrupt: after the gang has been ended on the nodes. UserError: it yielded no
    result; it is measured again when the drill is resumed.
    """
    folder = drill.night(number)
    if folder.has_ended:
        return
    plan = _plan_night(drill, number, _sleep_s(drill, number))
    store_plan(plan, Spool(drill.folder.folder))
    (end,) = case_runner.measure_cases(plan.jobs, folder, targets, shipment, on_event, refresh)
    if end.status is not CaseStatus.OK:
        # The night is not over: it is measured again when the drill is resumed.
        raise UserError(
            f"night {number}: {plan.jobs[0].case.case_id} {end.status}: {end.why}. Fix this, then "
            f"continue: nightbench drill --resume {drill.drill_id}"
        )
    mark_ended(folder)


def _plan_night(drill: Drill, number: int, sleep_s: float) -> RunPlan:
    folder = drill.night(number)
    plan = drill.plan(folder.run_id, drill.at(number))
    (job,) = plan.jobs
    env = {**job.env, SLEEP_VARIABLE: repr(sleep_s)} if sleep_s else job.env
    generation = _next_generation(folder, drill.case_id)
    return dataclasses.replace(
        plan, jobs=(dataclasses.replace(job, env=env, generation=generation),)
    )


def _next_generation(folder: RunSpool, case_id: str) -> int:
    """Return the generation that is still open: one with an outcome launches nothing more."""
    generations = folder.generations(case_id)
    if not generations:
        return 0
    outcome = folder.case(case_id, generations[-1]).outcome()
    return generations[-1] + (outcome is not None)


def _sleep_s(drill: Drill, number: int) -> float:
    """Return the seconds that each step of a night sleeps: the same for all slowed nights.

    They are computed once from the steps of the nights before, and stored.
    """
    if number < drill.first_slow:
        return 0.0
    document = read_request(drill.folder, DRILL)
    if document["sleep_s"] is None:
        before = [
            step_s
            for night in range(1, drill.first_slow)
            for step_s in _steps_s(drill.night(night), drill.case_id)
        ]
        if not before:
            raise UserError(f"{drill.drill_id}: no night yielded a result, so none can be slowed")
        document["sleep_s"] = statistics.median(before) * drill.size / (1 - drill.size)
        drill.folder.save_run(document)
    return float(document["sleep_s"])


def _steps_s(folder: RunSpool, case_id: str) -> list[float]:
    """Return the seconds of a step, as each trainer of each repeat of a night saw it."""
    store = folder.latest(case_id)
    if store is None:
        return []
    windows = [
        process["summary"]["window"]
        for repeat in store.repeats()
        for result in store.results(repeat).values()
        for process in result["processes"]
        if process.get("summary")
    ]
    return [window["wall_s"] / window["steps"] for window in windows if window["steps"]]


# --- judging ------------------------------------------------------------------------------


def judge_nights(drill: Drill, nights: int) -> list[DrillNight]:
    """Return the first nights of a drill, each judged by those before it, as real nights are.

    The detector is the suite's, and so is the rule of what opens an alert.
    """
    history: list[HistoryPoint] = []
    life = AlertLife(drill.suite.policy.clear_change)
    found = []
    slow_s = read_request(drill.folder, DRILL)["sleep_s"] or 0.0
    for number in range(1, nights + 1):
        folder = drill.night(number)
        plan = read_plan(folder)
        measurement = build_load_batch(folder).cases[0].measurement
        if measurement is None:
            raise UserError(f"{folder.run_id}: yielded no result")
        (verdict,), judgements = judge_cases(
            plan.run,
            [drill.case_id],
            {drill.case_id: measured_case(plan.run, measurement)},
            {drill.case_id: history},
            plan.policy,
        )
        sleep_s = slow_s if number >= drill.first_slow else 0.0
        opened = bool(life.night(verdict, plan.run.started_at).to_open)
        found.append(
            DrillNight(number, sleep_s, measurement, verdict, judgements.get(drill.case_id), opened)
        )
        if measurement.status is CaseStatus.OK and not measurement.quarantined:
            history.append(point_of(plan.run, measurement))
    return found


def alert_night(drill: Drill, nights: Sequence[DrillNight]) -> DrillNight | None:
    """Return the night that raised the alert of the slowdown; None while none has."""
    slowed = (night for night in nights if night.number >= drill.first_slow)
    regressed = (night for night in slowed if night.verdict.kind is VerdictKind.REGRESSED)
    return next((night for night in regressed if night.opened), None)


def alert_message(drill: Drill, night: DrillNight) -> Message:
    """Return the message of the alert as a channel gets it, marked as a drill's."""
    run = read_plan(drill.night(night.number)).run
    judgement = night.judgement
    news = AlertItem(
        verdict=night.verdict,
        unit=night.measurement.unit,
        first_bad=judgement.first_bad if judgement else None,
        last_good=judgement.last_good if judgement else None,
    )
    alert = message(run, drill.suite.owner, [news])
    return Message(
        f"Drill: {alert.title}",
        f"This is a drill: from night {drill.first_slow} on each step slept "
        f"{1000 * night.sleep_s:.3g} ms, so that {drill.size:.1%} of the throughput was lost. "
        f"Nothing is wrong.\n\n{alert.body}",
    )


def plot_points(drill: Drill, nights: Sequence[DrillNight]) -> list[HistoryPoint]:
    """Return the nights as a series, for its plot."""
    return [
        HistoryPoint(drill.at(night.number), night.measurement.throughput)
        for night in nights
        if night.measurement.throughput is not None
    ]


def end_drill(drill: Drill, nights: Sequence[DrillNight]) -> Document:
    """Store the result of a drill and return its run.json: no alert of it stays open."""
    found = alert_night(drill, nights)
    document = read_request(drill.folder, DRILL) | {
        "ended_at": utc_now(),
        "found": found.number if found else None,
        "delay": found.number - drill.first_slow + 1 if found else None,
        "false_alarms": [n.number for n in nights if n.opened and n.number < drill.first_slow],
        "nights": [
            {
                "night": night.number,
                "date": f"{drill.at(night.number):%Y-%m-%d}",
                "sleep_s": night.sleep_s,
                "value": night.measurement.throughput,
                "verdict": str(night.verdict.kind),
                "sentence": night.verdict.sentence,
            }
            for night in nights
        ],
    }
    drill.folder.save_run(document)
    return document
