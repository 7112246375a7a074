"""A drill of the detector: a real case, measured night after night, of which the last are slowed.

    <spool>/drills/<id>/run.json        what the drill is, the sleep that it adds, what came out
    <spool>/drills/<id>/runs/<night>/   each night as every run has it

The nights are measured one right after another and dated a day apart. The definition of what is
measured names the drill, and its runs lie beside those of the spool: no ingest finds them, no
history and no baseline knows of them. Its alert lives here and nowhere else.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

from nightbench import direct
from nightbench.alerts import LiveAlert, Message, News, alerts_for, message
from nightbench.detection import Judgement, judge_cases
from nightbench.detection.changes import FEWEST
from nightbench.detection.run import point_of
from nightbench.errors import UserError
from nightbench.gang import Shipment, SshTarget
from nightbench.gang.events import OnEvent
from nightbench.model import (
    CaseStatus,
    Catalog,
    Cluster,
    HistoryPoint,
    JobSpec,
    Measurement,
    RunKind,
    Suite,
    Verdict,
    VerdictKind,
    digest_of,
)
from nightbench.pipeline.bundles import build_bundle
from nightbench.pipeline.plans import RunPlan, make_plan, mark_ended, read_plan, store_plan
from nightbench.spool import RunSpool, Spool, utc_now

SCHEMA = "nightbench.drill/1"
KNOB = "NIGHTBENCH_DRILL_SLEEP_S"
"""Of the job's environment; ranks refuse it in a run whose id does not begin with `drill-`."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Drill:
    """What is drilled."""

    drill_id: str
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

    def at(self, night: int) -> datetime:
        """When a night is said to be: the last one is today's."""
        return self.began - timedelta(days=self.nights - night)


@dataclass(frozen=True)
class Night:
    """A night of a drill, measured and judged."""

    number: int
    sleep_s: float
    """In each step."""
    measurement: Measurement
    verdict: Verdict
    judgement: Judgement | None
    opened: bool
    """It opened the alert."""


def needed(suite: Suite) -> int:
    """Nights that have to lie before a verdict."""
    return max(suite.policy.min_history, FEWEST - 1)


def new_drill_id(now: datetime) -> str:
    """Readable, sortable and unique: `drill-20261121T010203-9f3a`."""
    return f"drill-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{token_hex(2)}"


def begin(spool: Spool, drill: Drill, asked: Mapping[str, Any]) -> RunSpool:
    """Write what is drilled; the same may be written again.

    Raises:
        UserError: there are too few nights to find anything, or the case has changed since the
            drill was begun.
    """
    if drill.before < needed(drill.suite):
        raise UserError(
            f"before: found {drill.before}; expected at least {needed(drill.suite)}, without which "
            f"suite {drill.suite.name} has no verdicts"
        )
    if drill.nights < drill.first_slow + 1:
        raise UserError(
            f"nights: found {drill.nights}; expected at least {drill.first_slow + 1}: "
            f"{drill.before} before the slowdown, and two to see a change"
        )
    folder = folder_of(spool, drill.drill_id)
    known = folder.run() or {}
    identity = {"code": drill.catalog.code_digest, "definition": _definition(drill)}
    if known and known["identity"] != identity:
        raise UserError(
            f"{drill.drill_id}: the case or the benchmark code has changed since it was begun; "
            "begin a new one"
        )
    folder.save_run(
        {
            "started_at": utc_now(),
            "sleep_s": None,
            "found": None,
            **known,
            "schema": SCHEMA,
            "drill_id": drill.drill_id,
            "run_kind": str(RunKind.DRILL),
            "began": drill.began.isoformat(),
            "asked": dict(asked),
            "identity": identity,
        }
    )
    return folder


def folder_of(spool: Spool, drill_id: str) -> RunSpool:
    """The files of a drill; nothing is created."""
    return spool.drill(drill_id)


def known_of(folder: RunSpool) -> Document:
    """What was asked for.

    Raises:
        UserError: there is no such drill.
    """
    document = folder.run()
    if document is None or document.get("schema") != SCHEMA:
        raise UserError(f'drill: found "{folder.run_id}", which is not in the spool')
    return document


def _definition(drill: Drill) -> str:
    """The same for all nights of a drill, and for nothing else."""
    job = make_plan(
        _suite(drill), drill.cluster, drill.catalog, run_kind=RunKind.DRILL, run_id=drill.drill_id
    ).jobs[0]
    return digest_of({"drill": drill.drill_id, "of": job.definition_digest})


def _suite(drill: Drill) -> Suite:
    return dataclasses.replace(drill.suite, name=f"drill-{drill.suite.name}", alerts=())


# --- measuring ----------------------------------------------------------------------------


def measure_night(
    drill: Drill,
    spool: Spool,
    number: int,
    targets: Mapping[str, SshTarget],
    shipment: Shipment,
    on_event: OnEvent,
    refresh: Callable[[], None],
) -> None:
    """Measure a night, unless it has been; one that was cut goes on.

    Raises:
        KeyboardInterrupt: after the gang has been ended on the nodes.
        UserError: it brought no result; it is measured anew when the drill goes on.
    """
    own = _own(spool, drill)
    folder = own.run(run_id_of(drill, number))
    if folder.run() is None or not (folder.run() or {}).get("ended_at"):
        sleep_s = _sleep(drill, spool, number)
        plan = _planned(drill, number, sleep_s, _generation(folder, drill.case_id))
        store_plan(plan, own)
        (came,) = direct.measure(plan.jobs, folder, targets, shipment, on_event, refresh)
        if came.status is not CaseStatus.OK:
            # The night is not over: whoever goes on measures it anew.
            raise UserError(
                f"night {number}: {came.case_id} {came.status}: {came.reason}. When that is mended "
                f"go on: nightbench drill --resume {drill.drill_id}"
            )
        mark_ended(folder)


def _own(spool: Spool, drill: Drill) -> Spool:
    return Spool(folder_of(spool, drill.drill_id).folder)


def run_id_of(drill: Drill, number: int) -> str:
    """The run of a night."""
    return f"{drill.drill_id}-n{number:02d}"


def _generation(folder: RunSpool, case_id: str) -> int:
    """Of the next try: a cancelled one has its outcome, and nothing more is launched for it."""
    generations = folder.generations(case_id)
    if not generations:
        return 0
    outcome = folder.case(case_id, generations[-1]).outcome()
    return generations[-1] + (outcome is not None)


def _planned(drill: Drill, number: int, sleep_s: float, generation: int) -> RunPlan:
    plan = make_plan(
        _suite(drill),
        drill.cluster,
        drill.catalog,
        run_kind=RunKind.DRILL,
        run_id=run_id_of(drill, number),
        started_at=drill.at(number),
    )
    definition = _definition(drill)

    def drilled(job: JobSpec) -> JobSpec:
        env = {**job.env, KNOB: repr(sleep_s)} if sleep_s else job.env
        return dataclasses.replace(
            job, env=env, generation=generation, definition_digest=definition
        )

    cases = tuple(
        dataclasses.replace(
            each, planned=dataclasses.replace(each.planned, definition_digest=definition)
        )
        for each in plan.cases
    )
    return dataclasses.replace(plan, cases=cases, jobs=tuple(map(drilled, plan.jobs)))


def _sleep(drill: Drill, spool: Spool, number: int) -> float:
    """Seconds that each step of a night sleeps: nought before the slowdown, then always the same.

    The length follows from the steps of the nights before, and is kept.
    """
    if number < drill.first_slow:
        return 0.0
    folder = folder_of(spool, drill.drill_id)
    document = known_of(folder)
    if document["sleep_s"] is None:
        before = [
            step_s
            for night in range(1, drill.first_slow)
            for step_s in _steps_s(_own(spool, drill).run(run_id_of(drill, night)), drill.case_id)
        ]
        if not before:
            raise UserError(f"{drill.drill_id}: no night brought a result, so none can be slowed")
        step_s = statistics.median(before)
        document["sleep_s"] = step_s * drill.size / (1 - drill.size)
        folder.save_run(document)
    return float(document["sleep_s"])


def _steps_s(folder: RunSpool, case_id: str) -> list[float]:
    """Seconds of a step, as each trainer of each repeat of a night saw it."""
    store = folder.latest(case_id)
    if store is None:
        return []
    windows = [
        process["summary"]["window"]
        for repeat in store.repeats()
        for result in store.results(repeat).values()
        for process in result["processes"]
        if process.get("summary") and process["role"] == "trainer"
    ]
    return [window["wall_s"] / window["steps"] for window in windows if window["steps"]]


# --- judging ------------------------------------------------------------------------------


def judged(drill: Drill, spool: Spool, nights: int) -> list[Night]:
    """Judge the first nights of a drill, each by those before it, as real nights are.

    The detector is the suite's, and so is the rule of what opens an alert.
    """
    own = _own(spool, drill)
    history: list[HistoryPoint] = []
    standing: list[LiveAlert] = []
    found = []
    document = known_of(folder_of(spool, drill.drill_id))
    for number in range(1, nights + 1):
        folder = own.run(run_id_of(drill, number))
        plan = read_plan(folder)
        measurement = build_bundle(folder).cases[0].measurement
        if measurement is None:
            raise UserError(f"{folder.run_id}: brought no result")
        ((verdict, judgement),) = judge_cases(
            plan.run,
            [drill.case_id],
            {drill.case_id: measurement},
            {drill.case_id: history},
            plan.policy,
        )
        changes = alerts_for([verdict], standing, plan.run.started_at, plan.policy.min_change)
        standing = _lived(standing, changes.to_resolve, changes.to_open)
        sleep_s = document["sleep_s"] or 0.0 if number >= drill.first_slow else 0.0
        found.append(Night(number, sleep_s, measurement, verdict, judgement, bool(changes.to_open)))
        if measurement.status is CaseStatus.OK and not measurement.quarantined:
            history.append(point_of(plan.run, measurement))
    return found


def _lived(
    standing: Sequence[LiveAlert], ended: Sequence[LiveAlert], opened: Sequence[Verdict]
) -> list[LiveAlert]:
    """The alerts after a night; what one night only suspects is left to the real life of alerts."""
    return [
        *(alert for alert in standing if alert not in ended),
        *(LiveAlert(v.case_id, v.cluster, v.kind, v.value, v.baseline) for v in opened),
    ]


def arrived(drill: Drill, nights: Sequence[Night]) -> Night | None:
    """The night that raised the alert of the slowdown; None while none has."""
    return next(
        (
            night
            for night in nights
            if night.opened
            and night.verdict.kind is VerdictKind.REGRESSED
            and night.number >= drill.first_slow
        ),
        None,
    )


def alert_of(drill: Drill, spool: Spool, night: Night) -> Message:
    """The message of the alert, as a channel gets it, marked as a drill's."""
    run = read_plan(_own(spool, drill).run(run_id_of(drill, night.number))).run
    judgement = night.judgement
    news = News(
        verdict=night.verdict,
        unit=night.measurement.unit,
        first_bad=judgement.first_bad if judgement else None,
        last_good=judgement.last_good if judgement else None,
    )
    said = message(run, drill.suite.owner, [news])
    return Message(
        f"Drill: {said.title}",
        f"This is a drill: from night {drill.first_slow} on each step slept "
        f"{1000 * night.sleep_s:.3g} ms, so that {drill.size:.1%} of the throughput was lost. "
        f"Nothing is wrong.\n\n{said.body}",
    )


def points_of(drill: Drill, nights: Sequence[Night]) -> list[HistoryPoint]:
    """The nights as a series, for its plot."""
    return [
        HistoryPoint(drill.at(night.number), night.measurement.throughput)
        for night in nights
        if night.measurement.throughput is not None
    ]


def end(spool: Spool, drill: Drill, nights: Sequence[Night]) -> Document:
    """Keep what came out, and return it: nothing of a drill stays open."""
    found = arrived(drill, nights)
    early = [n for n in nights if n.opened and n.number < drill.first_slow]
    folder = folder_of(spool, drill.drill_id)
    document = known_of(folder) | {
        "ended_at": utc_now(),
        "found": found.number if found else None,
        "delay": found.number - drill.first_slow + 1 if found else None,
        "false_alarms": [night.number for night in early],
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
    folder.save_run(document)
    return document
