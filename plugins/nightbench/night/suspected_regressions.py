"""Regressions that are doubted: what is known of each, and which of them a night has time for.

A suspected regression is measured again before the message of its night is sent. What that needs
is stored with the request (`request_confirmations`), so that whoever measures it, hours later or by
hand, means the same builds.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nightbench.core.budget import PREPARE_S, duration, guess_repeat_s
from nightbench.core.errors import UserError
from nightbench.core.model import Build, HistoryPoint, PlannedCase, Verdict, VerdictKind
from nightbench.core.plan import wheel_digest
from nightbench.core.run_plan import CasePlan, RunPlan
from nightbench.warehouse import Reader, WarehouseUnavailable
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.experiments import NIGHTBENCH, ConfirmationRepository

log = logging.getLogger(__name__)

PAIRS, PAIRS_ELSEWHERE = 5, 3
"""Rounds of two builds, on the night's nodes and once on others."""

AGAIN, AGAIN_ELSEWHERE = 3, 2
"""Rounds where there is one build only: each is two launches of it."""


class BuildGone(UserError):
    """The last good build is not available any more."""


@dataclass(frozen=True)
class SuspectedRegression:
    """A regression with what it is measured again by."""

    alert_id: int
    run_id: str
    """The night that is doubted."""
    case_id: str
    value: float
    """What it brought, units of work per second."""
    baseline: float
    """The level before."""
    bad: Build
    """As that night planned it."""
    bad_version: str | None
    """What its framework said of itself."""
    good: Build | None
    """As the last good night planned it; None where nobody knows."""
    good_version: str | None
    good_run_id: str | None
    nodes: tuple[str, ...]
    """On which it was measured."""
    definition_digest: str

    @property
    def change(self) -> float:
        """As a verdict has it: value / baseline - 1."""
        return self.value / self.baseline - 1

    def to_json(self) -> dict[str, Any]:
        """As it is kept beside what was asked for."""
        return {**dataclasses.asdict(self), "change": self.change}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SuspectedRegression:
        """The inverse of `to_json`; what else stands there is passed over."""
        known = {field.name: document[field.name] for field in dataclasses.fields(cls)}
        good = known["good"]
        known |= {
            "bad": Build(**known["bad"]),
            "good": Build(**good) if good else None,
            "nodes": tuple(known["nodes"]),
        }
        return cls(**known)


def builds_of(suspect: SuspectedRegression) -> tuple[Build, Build] | None:
    """The last good build and the night's; None where they are one, as far as anybody knows.

    Raises:
        Gone: a wheel or a prefix does not hold any more what it held, or cannot be read.
    """
    pair = _pair(suspect)
    for build in pair or ():
        _still_there(build)
    return pair


def _pair(suspect: SuspectedRegression) -> tuple[Build, Build] | None:
    """As `builds_of`, without a look at the wheels."""
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
    elif _says_version(good) and _says_version(bad) and then is not None and then == now:
        # A lock that was named by its version, say: another word for the same.
        return None
    if good.source == "index":
        good = dataclasses.replace(good, version=plain(good.version) or then)
    return good, bad


def plain(version: str | None) -> str | None:
    """A version without its local part: `2.13.0` for `2.13.0+cpu`."""
    return version.partition("+")[0] if version else None


def _is_one(one: Build, other: Build) -> bool:
    names = ["line", "variant", "source", "digest"]
    if one.source != "wheel" or not one.digest:
        names += ["location", "version"]
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _says_version(build: Build) -> bool:
    return build.source == "index"


def _still_there(build: Build) -> None:
    if build.source != "wheel" or not build.location:
        return
    path = Path(build.location)
    try:
        if not path.is_file():
            raise BuildGone(f"the wheel {path} is not there any more")
        if build.digest and wheel_digest(path) != build.digest:
            raise BuildGone(f"the wheel {path} is another file now than it was then")
    except OSError as error:
        raise BuildGone(f"the wheel {path} cannot be read: {error.strerror or error}") from None


# --- asking -------------------------------------------------------------------------------


class RunFacts:
    """What the warehouse holds of runs, each read once for all suspects that rest on it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._points: dict[str, dict[str, HistoryPoint]] = {}
        self._planned: dict[str, dict[str, PlannedCase]] = {}
        self._verdicts: dict[str, dict[str, Verdict]] = {}

    def point(self, run_id: str, case_id: str) -> HistoryPoint | None:
        """What a case brought; None where it has no value that counts."""
        if run_id not in self._points:
            measured = self._reader.measured(run_id)
            self._points[run_id] = {m.case_id: m.point for m in measured if m.point}
        return self._points[run_id].get(case_id)

    def planned(self, run_id: str, case_id: str) -> PlannedCase | None:
        """What a run meant to measure."""
        if run_id not in self._planned:
            planned = self._reader.planned_cases(run_id)
            self._planned[run_id] = {each.case_id: each for each in planned}
        return self._planned[run_id].get(case_id)

    def last_good(self, run_id: str, case_id: str) -> str | None:
        """The last run before a case fell, by the verdict of a night that found it fallen."""
        if run_id not in self._verdicts:
            verdicts = self._reader.verdicts(run_id)
            self._verdicts[run_id] = {each.case_id: each for each in verdicts}
        verdict = self._verdicts[run_id].get(case_id)
        if verdict is None or verdict.kind is not VerdictKind.REGRESSED:
            return None
        return verdict.last_good_run_id


def suspected_regression(
    reader: Reader, plan: RunPlan, alert: Mapping[str, Any], nights: RunFacts | None = None
) -> SuspectedRegression | None:
    """What is known of the regression that an alert tells of; None where it has no level.

    Args:
        reader: the warehouse.
        plan: of the night that is doubted; its verdicts are stored.
        alert: alert_id, case_id, value, baseline.
        nights: what is known of runs already, where several suspects are asked for.
    """
    case_id = alert["case_id"]
    case = next((each for each in plan.cases if each.planned.case_id == case_id), None)
    if case is None or not alert["value"] or not alert["baseline"]:
        return None
    run_id, nights = plan.run.run_id, nights or RunFacts(reader)
    tonight = nights.point(run_id, case_id)
    good_run_id = nights.last_good(run_id, case_id) if tonight else None
    planned = nights.planned(good_run_id, case_id) if good_run_id else None
    before = nights.point(good_run_id, case_id) if good_run_id else None
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
    """Rounds on the night's nodes and on others, for two builds or for one alone."""
    return (PAIRS, PAIRS_ELSEWHERE) if has_two else (AGAIN, AGAIN_ELSEWHERE)


def new_confirmation_id(now: datetime) -> str:
    """Of the launches: readable, sortable and unique: `confirm-20261121T010203-9f3a`."""
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
    except Exception:  # Documents and files of other nights are read: none may silence an alert.
        log.exception("the suspects of run %s are not all measured again", plan.run.run_id)


def request_confirmations(connection: Connection, plan: RunPlan) -> None:
    """Ask for a night's suspects to be measured again, as far as its budget goes.

    The largest fall comes first. What does not fit is put down as skipped, with its reason. Asked
    again for the same night nothing is added.

    Args:
        connection: the loader's, to the warehouse.
        plan: of the night, whose verdicts and alerts have been stored.
    """
    reader, repository = Reader(connection), ConfirmationRepository(connection)
    run_id, budget_s = plan.run.run_id, plan.policy.confirm_s
    if budget_s <= 0:
        return
    asked = [row for row in repository.find(run_id=run_id) if row["asked_by"] == NIGHTBENCH]
    known = {row["alert_id"] for row in asked}
    left_s = budget_s - math.fsum(
        row["detail"].get("expected_s", 0.0) for row in asked if row["state"] != "skipped"
    )
    past, nights = reader.case_past(plan.run.cluster), RunFacts(reader)
    for alert in repository.suspects(run_id):
        suspect = (
            None
            if alert["alert_id"] in known
            else suspected_regression(reader, plan, alert, nights)
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
    """Seconds that a suspect is expected to take, with preparing.

    Args:
        suspect: the suspect.
        plan: of its night.
        repeat_s: what a repeat usually takes; a guess from the protocol where None.
    """
    try:
        # Whether the wheels are still those is seen when they are measured: reading them takes
        # long, and whoever asks holds the lock of the cluster's alerts.
        has_two = _pair(suspect) is not None
    except (UserError, OSError):
        return 0.0  # Nothing is launched: it ends with that reason.
    here, there = rounds_of(has_two)
    case = _case(plan, suspect.case_id).planned.case
    elsewhere = 2 * case.nodes <= len(plan.cluster.nodes)
    once = repeat_s or guess_repeat_s(plan.protocol, math.inf)
    rounds, times = (here + there, 2) if elsewhere else (here, 1)
    return times * PREPARE_S + 2 * rounds * once


def _case(plan: RunPlan, case_id: str) -> CasePlan:
    return next(each for each in plan.cases if each.planned.case_id == case_id)


def _refusal(expected_s: float, left_s: float, budget_s: float) -> str | None:
    if expected_s <= left_s:
        return None
    takes, whole = duration(expected_s), duration(budget_s)
    left = f"{duration(left_s)} of the night's {whole} were left"
    if expected_s > budget_s:
        left = f"a night has {whole} for it"
    return f"Not measured again: that takes about {takes}, and {left} (policy.confirm)"
