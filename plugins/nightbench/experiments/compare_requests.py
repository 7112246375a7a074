"""Comparisons that people request: what may be asked, and which one is measured next.

A request is a row of `raw.compare_request`; its comparison is that of `nightbench ab`, in the spool
under the id that it gets when it is taken. Whoever takes it again goes on where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from nightbench.config import load_catalog
from nightbench.config.clusters import cluster_of
from nightbench.config.compare_builds import (
    FORMS,
    MERGE_BASE,
    committed,
    planned_build,
    uploaded,
)
from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.core.budget import clock, guess_repeat_s
from nightbench.core.compare_queue import Shares, Waiting, left_s, ordered
from nightbench.core.errors import UserError
from nightbench.core.expected_nights import LONGEST_RUN, expected_nights
from nightbench.core.model import RunKind
from nightbench.experiments.ab import with_cases
from nightbench.experiments.compare_measuring import SEED
from nightbench.experiments.comparison import ComparisonContext, plan_comparison
from nightbench.experiments.paired_statistics import LEAST_ROUNDS
from nightbench.experiments.profiles import refuse_unprofiled
from nightbench.night.acceptance import accepting
from nightbench.night.planning import case_histories, open_now
from nightbench.night.scheduled_suites import ScheduledSuite
from nightbench.spool import Spool
from nightbench.spool.run import started_at
from nightbench.warehouse import opened
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.repository import Row

PRIORITIES: Mapping[str, int] = {"low": -1, "normal": 0, "high": 1}
MOST_ROUNDS = 1000
LONGEST = {"note": 2000, "change_url": 2000, "change_commit": 200}
ENDED = ("success", "failed", None)
"""States of a DAG run that measures no more."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompareGoal:
    """What somebody asks for, by the form or over REST."""

    a: str
    """One of `compare_builds.FORMS`; b too."""
    b: str
    suite: str
    cluster: str | None = None
    cases: tuple[str, ...] = ()
    rounds: int = 7
    min_effect: float = 0.01
    budget_s: float | None = None
    priority: str = "normal"
    note: str = ""
    change_url: str = ""
    change_commit: str = ""
    fork: bool = False
    profile: bool = False

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> CompareGoal:
        """Read fields of the form or of a body; those that are empty have their defaults.

        Raises:
            UserError: a field is unknown or missing, or holds what it cannot.
        """
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(params) - set(known)):
            raise UserError(f"{unknown[0][:80]}: expected one of {', '.join(known)}")
        given = {name: value for name, value in params.items() if value not in (None, "", [])}
        if "a" not in given and (of := committed(str(given.get("b", "")))):
            given["a"] = f"{given['b'].partition('=')[0]}=commit:{of[0]}@{MERGE_BASE}"
        for name in ("a", "b", "suite"):
            if name not in given:
                raise UserError(f"{name}: found nothing; expected {_RULES[name][1]}")
        for name, value in given.items():
            fits, expected = _RULES[name]
            if not fits(value):
                raise UserError(f"{name}: found {str(value)[:80]!r}; expected {expected}")
        return cls(**{**given, "cases": tuple(given.get("cases", ()))})


def _is_text(longest: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and len(value) <= longest and value.isprintable()


def _is_number(least: float, most: float, *, whole: bool = False) -> Callable[[Any], bool]:
    kinds = int if whole else (int, float)
    return lambda value: (
        isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 100 and all(map(_is_text(400), value))


_BUILD = f"a build: {FORMS}"
_RULES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "a": (_is_text(2000), _BUILD),
    "b": (_is_text(2000), _BUILD),
    "suite": (_is_text(200), "the name of a suite"),
    "cluster": (_is_text(200), "the name of a cluster"),
    "cases": (_is_names, "a list of at most 100 names of cases"),
    "rounds": (
        _is_number(LEAST_ROUNDS, MOST_ROUNDS, whole=True),
        f"a whole number from {LEAST_ROUNDS} to {MOST_ROUNDS}",
    ),
    "min_effect": (_is_number(0.0001, 0.5), "a fraction from 0.0001 to 0.5, 0.01 for 1 %"),
    "budget_s": (_is_number(60, 48 * 3600), "seconds, from 60 to 172800"),
    "priority": (lambda value: value in PRIORITIES, " or ".join(PRIORITIES)),
    **{name: (_is_text(most), f"a line of at most {most}") for name, most in LONGEST.items()},
    "fork": (lambda value: isinstance(value, bool), "true or false"),
    "profile": (lambda value: isinstance(value, bool), "true or false"),
}
"""Field of a request -> whether a value fits, and what is expected."""


# --- asking -------------------------------------------------------------------------------


def checked_goal(goal: CompareGoal, connect: Connect, spool: Spool) -> Row:
    """Return a goal as the queue takes it, after every check that needs no node.

    Raises:
        UserError: an unknown name, a build that may not be named, a case that cannot run there, or
            more than a person's budget.
    """
    catalog = accepting(load_catalog(), connect)
    suite, cluster, known = resolve_request(RunRequest(goal.suite, cluster=goal.cluster), catalog)
    builds = (planned_build(goal.a, cluster), planned_build(goal.b, cluster))
    for text in (goal.a, goal.b):
        if (sent := uploaded(text)) and not spool.uploads.path(*sent).exists():
            raise UserError(f'build: found "{text}", which nobody has sent; send the wheel first')
    _refuse_lone_merge_base(goal)
    plan = plan_comparison(
        ComparisonContext(with_cases(suite, goal.cases), cluster, known),
        builds,
        comparison_id="compare",
        rounds=goal.rounds,
        min_effect=goal.min_effect,
        seed=SEED,
    )
    if goal.profile:
        refuse_unprofiled(builds[0].line, known)
    past = case_histories(cluster.name, connect, spool)
    launches_s = [
        (past[case.case_id].repeat_s if case.case_id in past else None)
        or guess_repeat_s(suite.protocol, suite.repeat_timeout_s)
        for case in plan.cases
    ]
    estimate_s = 2 * (goal.rounds + goal.profile) * sum(launches_s)
    if goal.budget_s is not None:
        estimate_s = min(estimate_s, goal.budget_s)
    if estimate_s > cluster.compare.person_s:
        raise UserError(
            f"rounds: {goal.rounds} rounds of {len(plan.cases)} cases take about "
            f"{estimate_s / 60:.0f} min; expected {cluster.compare.person_s / 60:.0f} min at most "
            f"(compare.person of cluster {cluster.name}). Name fewer cases or rounds, or budget_s"
        )
    return {
        **{name: getattr(goal, name) for name in ("a", "b", "rounds", "min_effect", "budget_s")},
        **{name: getattr(goal, name) for name in LONGEST},
        "suite": suite.name,
        "cluster": cluster.name,
        "cases": [case.case_id for case in plan.cases],
        "priority": PRIORITIES[goal.priority],
        "is_fork": goal.fork,
        "profile": "with" if goal.profile else None,
        "estimate_s": estimate_s,
    }


def _refuse_lone_merge_base(goal: CompareGoal) -> None:
    a, b = committed(goal.a), committed(goal.b)
    if (b and b[1] == MERGE_BASE) or (a and a[1] == MERGE_BASE and (b is None or b[0] != a[0])):
        raise UserError(
            f"builds: found {goal.a} and {goal.b}; expected {MERGE_BASE} as A alone, beside a "
            "commit of the same repository"
        )


# --- the queue ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Gap:
    """Whether comparisons may begin on a cluster now, and until when."""

    until: datetime | None = None
    """No launch begins that cannot end by then."""
    why_not: str = ""


def gap(cluster: str, suites: Iterable[ScheduledSuite], spool: Spool, now: datetime) -> Gap:
    """Return the time before the next night of a cluster; nights go first.

    Raises:
        UserError: there is no such cluster.
    """
    where = cluster_of(cluster)
    for run in reversed(spool.runs()[-50:]):
        document, began = run.run() or {}, started_at(run)
        if (
            document.get("cluster") == cluster
            and document.get("run_kind") == RunKind.NIGHTLY
            and run.loaded() is None
            and began is not None
            and now.replace(tzinfo=None) - began < LONGEST_RUN
        ):
            return Gap(why_not=f"the night {run.run_id} goes on")
    try:
        span = open_now(where, now)
    except UserError as error:
        return Gap(why_not=str(error))
    ends = [span.end] if span else []
    for each in suites:
        if each.cluster == cluster and each.timetable is not None:
            nights = expected_nights(each.timetable, now, now + timedelta(days=2))
            ends += [night.scheduled_at for night in nights][:1]
    return Gap(min(ends, default=None))


def launch_s(row: Row) -> float:
    """Return the seconds that a launch of a request is expected to take."""
    seconds, rounds = row["estimate_s"] or 0.0, row["rounds"] + (row["profile"] is not None)
    if row["profile"] == "after":
        seconds, rounds = left_s(row), 1
    return float(seconds / (2 * rounds * max(1, len(row["cases"]))))


def queue_of(rows: Sequence[Row], shares: Shares) -> list[int]:
    """Return the numbers of what may be measured next on a cluster, first to last."""
    return [
        each.request_id
        for each in ordered(list(map(Waiting.of, rows)), shares)
        if each.place is not None
    ]


def take(
    connect: Connect,
    spool: Spool,
    dag_run_id: str,
    dag_run_state: Callable[[str], str | None],
    suites: Callable[[], Iterable[ScheduledSuite]],
) -> tuple[Row, Gap] | None:
    """Take the comparison that a DAG run measures next; None where there is none.

    It is the one that the DAG run has taken before, if that has not ended; else one whose DAG run
    has ended without it; else the next of the queue.
    """
    now = datetime.now(UTC)
    with opened(connect) as warehouse:
        rows = warehouse.compares.find(states=("queued", "running"))
        if not rows:
            return None
        nights = list(suites())

        def gap_of(cluster: str) -> Gap:
            try:
                return gap(cluster, nights, spool, now)
            except UserError as error:  # its file is gone: what waits for it goes on waiting
                return Gap(why_not=str(error))

        running = [row for row in rows if row["state"] == "running"]
        for row in sorted(running, key=lambda each: each["dag_run_id"] != dag_run_id):
            mine = row["dag_run_id"] == dag_run_id
            if mine or (
                dag_run_state(row["dag_run_id"]) in ENDED
                and warehouse.compares.adopt(row["request_id"], row["dag_run_id"], dag_run_id)
            ):
                return row, gap_of(row["cluster"])
        busy = {row["cluster"] for row in running}
        spent = warehouse.compares.spent()
        for cluster in sorted({row["cluster"] for row in rows} - busy):
            queued = {
                row["request_id"]: row
                for row in rows
                if row["cluster"] == cluster and row["state"] == "queued"
            }
            found = gap_of(cluster)
            if found.why_not:
                log.info("%s: %d wait: %s", cluster, len(queued), found.why_not)
                continue
            policy = cluster_of(cluster).compare
            mine_of = {person: s for (where, person), s in spent.items() if where == cluster}
            for request_id in queue_of(list(queued.values()), Shares(policy, mine_of)):
                row = queued[request_id]
                if found.until and now + timedelta(seconds=2 * launch_s(row)) > found.until:
                    log.info("%s: %d waits until after %s", cluster, request_id, clock(found.until))
                    continue
                name = f"compare-{now:%Y%m%dT%H%M%S}-{request_id}"
                if warehouse.compares.begin(request_id, name, dag_run_id):
                    (taken,) = warehouse.compares.find(request_id)
                    return taken, found
    return None
