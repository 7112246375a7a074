"""Suspected regressions: their facts, and which of them a night has time to confirm.

A suspected regression is measured again before the message of its night is sent. Its builds are
stored with the request (`request_confirmations`), so that a later measurement uses the same ones.
"""

import dataclasses
import functools
import logging
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nightbench.core.budget import PREPARE_S, duration, guess_repeat_s
from nightbench.core.code_digest import file_digest
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError
from nightbench.core.model import Build, VerdictKind
from nightbench.core.run_plan import RunPlan
from nightbench.warehouse import Warehouse, WarehouseUnavailable
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.experiments import NIGHTBENCH

log = logging.getLogger(__name__)

PAIRS, PAIRS_ELSEWHERE = 5, 3
"""Rounds with two builds, on the night's nodes and on others."""

AGAIN, AGAIN_ELSEWHERE = 3, 2
"""Rounds with one build only, each of two launches."""


class BuildGone(UserError):
    """The last good build is not available any more."""


@dataclass(frozen=True)
class SuspectedRegression:
    """A regression with the builds and nodes with which it is measured again."""

    alert_id: int
    run_id: str
    """The night of the suspected regression."""
    case_id: str
    value: float
    """Throughput of that night, units of work per second."""
    baseline: float
    """The level before."""
    bad: Build
    """Build that the night planned."""
    bad_version: str | None
    """Framework version that the ranks reported."""
    good: Build | None
    """Build that the last good night planned; None where unknown."""
    good_version: str | None
    good_run_id: str | None
    nodes: tuple[str, ...]
    """On which it was measured."""
    definition_digest: str

    @property
    def change(self) -> float:
        """Value / baseline - 1, as in verdicts."""
        return self.value / self.baseline - 1

    def to_json(self) -> dict[str, Any]:
        """Return it as the warehouse stores it with the request."""
        return {**to_document(self), "change": self.change}


def builds_of(suspect: SuspectedRegression) -> tuple[Build, Build] | None:
    """Return the last good build and the night's; None where they are the same, or one is unknown.

    Raises:
        BuildGone: a wheel or a prefix has changed, or cannot be read.
    """
    pair = _pair(suspect)
    for build in pair or ():
        _still_there(build)
    return pair


def _pair(suspect: SuspectedRegression) -> tuple[Build, Build] | None:
    """Return the same as `builds_of`, without reading the wheels."""
    good, bad = suspect.good, suspect.bad
    if good is None:
        return None
    then, now = plain(suspect.good_version), plain(suspect.bad_version)
    moved = then is not None and now is not None and then != now
    if _is_one(good, bad):
        if not moved or (good.source == "wheel" and good.digest):
            return None
        if good.source == "path":
            raise BuildGone(f"{good.location} held {good.line} {then} then, and holds {now} now")
    elif good.source == bad.source == "index" and then is not None and then == now:
        # The same build by another name, such as a lock that is named by its version.
        return None
    if good.source == "index":
        good = dataclasses.replace(good, version=plain(good.version) or then)
    return good, bad


def plain(version: str | None) -> str | None:
    """Return a version without its local part: `2.13.0` for `2.13.0+cpu`."""
    return version.partition("+")[0] if version else None


def _is_one(one: Build, other: Build) -> bool:
    names = ["line", "variant", "source", "digest"]
    if one.source != "wheel" or not one.digest:
        names += ["location", "version"]
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _still_there(build: Build) -> None:
    if build.source != "wheel" or not build.location:
        return
    path = Path(build.location)
    try:
        if not path.is_file():
            raise BuildGone(f"the wheel {path} is not there any more")
        if build.digest and file_digest(path) != build.digest:
            raise BuildGone(f"the wheel {path} is another file now than it was then")
    except OSError as error:
        raise BuildGone(f"the wheel {path} cannot be read: {error.strerror or error}") from None


# --- requests -------------------------------------------------------------------------------


class RunFacts:
    """Reads runs from the warehouse, each once for all suspected regressions."""

    def __init__(self, warehouse: Warehouse) -> None:
        runs = warehouse.runs
        self.points = functools.cache(
            lambda run_id: {each.case_id: each.point for each in runs.measured(run_id)}
        )
        self.planned = functools.cache(
            lambda run_id: {each.case_id: each for each in runs.planned_cases(run_id)}
        )
        self.verdicts = functools.cache(
            lambda run_id: {each.case_id: each for each in warehouse.series.verdicts(run_id)}
        )


def suspected_regression(
    warehouse: Warehouse, plan: RunPlan, alert: Mapping[str, Any], nights: RunFacts | None = None
) -> SuspectedRegression | None:
    """Return the suspected regression of an alert (alert_id, case_id, value, baseline).

    None where it has no level, or is about another figure than throughput. The verdicts of the
    plan's night are stored.
    """
    case_id = alert["case_id"]
    case = next((each for each in plan.cases if each.planned.case_id == case_id), None)
    if alert.get("metric", "throughput") != "throughput":
        return None
    if case is None or not alert["value"] or not alert["baseline"]:
        return None
    run_id, nights = plan.run.run_id, nights or RunFacts(warehouse)
    tonight = nights.points(run_id).get(case_id)
    verdict = nights.verdicts(run_id).get(case_id) if tonight else None
    fell = verdict if verdict is not None and verdict.kind is VerdictKind.REGRESSED else None
    good_run_id = fell.last_good_run_id if fell else None
    planned = nights.planned(good_run_id).get(case_id) if good_run_id else None
    before = nights.points(good_run_id).get(case_id) if good_run_id else None
    return SuspectedRegression(
        alert_id=alert["alert_id"],
        run_id=run_id,
        case_id=case_id,
        value=alert["value"],
        baseline=alert["baseline"],
        bad=case.planned.build,
        bad_version=tonight.framework_version if tonight else None,
        good=planned.build if planned else None,
        good_version=before.framework_version if before else None,
        good_run_id=good_run_id,
        nodes=tuple(dict.fromkeys(process.node for process in case.processes)),
        definition_digest=case.planned.definition_digest,
    )


def rounds_of(has_two: bool) -> tuple[int, int]:
    """Return the rounds on the night's nodes and on others, for two builds or for one."""
    return (PAIRS, PAIRS_ELSEWHERE) if has_two else (AGAIN, AGAIN_ELSEWHERE)


def new_confirmation_id(now: datetime) -> str:
    """Return an id that is readable, sortable and unique: `confirm-20261121T010203-9f3a`."""
    return f"confirm-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def confirm_suspects(connection: Connection, plan: RunPlan) -> None:
    """Request confirmations; errors are logged, and the night's message does not wait then.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    try:
        request_confirmations(connection, plan)
    except WarehouseUnavailable:
        raise
    except Exception:  # An unforeseen file of another night must not silence an alert.
        log.exception("the suspects of run %s are not all measured again", plan.run.run_id)


def request_confirmations(connection: Connection, plan: RunPlan) -> None:
    """Request that a night's suspected regressions are measured again, within its budget.

    The largest fall comes first. Those that do not fit are stored as skipped, with the reason. A
    second call for the same night adds nothing.
    """
    warehouse = Warehouse(connection)
    repository = warehouse.confirmations
    run_id, budget_s = plan.run.run_id, plan.policy.confirm_s
    if budget_s <= 0:
        return
    asked = [row for row in repository.find(run_id=run_id) if row["asked_by"] == NIGHTBENCH]
    known = {row["alert_id"] for row in asked}
    left_s = budget_s - math.fsum(
        row["detail"].get("expected_s", 0.0) for row in asked if row["state"] != "skipped"
    )
    past, nights = warehouse.runs.case_past(plan.run.cluster), RunFacts(warehouse)
    for alert in repository.suspects(run_id):
        suspect = (
            None
            if alert["alert_id"] in known
            else suspected_regression(warehouse, plan, alert, nights)
        )
        if suspect is None:
            continue
        known_past = past.get(suspect.case_id)
        digest = suspect.definition_digest
        repeat_s = known_past.of(digest).repeat_s if known_past else None
        expected_s = expected(suspect, plan, repeat_s)
        skipped = _refusal(expected_s, left_s, budget_s)
        repository.request(
            suspect.alert_id,
            run_id,
            new_confirmation_id(datetime.now(UTC)),
            {**suspect.to_json(), "expected_s": expected_s},
            within_s=budget_s,
            skipped=skipped,
        )
        left_s -= 0.0 if skipped else expected_s


def expected(suspect: SuspectedRegression, plan: RunPlan, repeat_s: float | None) -> float:
    """Return the seconds that a confirmation is expected to take, preparation included.

    `repeat_s` is what a repeat usually takes; a guess from the protocol where None.
    """
    try:
        # Wheels are compared when they are measured: reading them takes
        # long, and the lock of the cluster's alerts is held here.
        has_two = _pair(suspect) is not None
    except (UserError, OSError):
        return 0.0  # Nothing is launched: the confirmation ends with that reason.
    here, there = rounds_of(has_two)
    case = next(c.planned.case for c in plan.cases if c.planned.case_id == suspect.case_id)
    elsewhere = 2 * case.nodes <= len(plan.cluster.nodes)
    once = repeat_s or guess_repeat_s(plan.protocol, math.inf)
    rounds, times = (here + there, 2) if elsewhere else (here, 1)
    return times * PREPARE_S + 2 * rounds * once


def _refusal(expected_s: float, left_s: float, budget_s: float) -> str | None:
    if expected_s <= left_s:
        return None
    takes, whole = duration(expected_s), duration(budget_s)
    left = f"{duration(left_s)} of the night's {whole} were left"
    if expected_s > budget_s:
        left = f"a night has {whole} for it"
    return f"Not measured again: that takes about {takes}, and {left} (policy.confirm)"
