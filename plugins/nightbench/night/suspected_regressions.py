"""Suspected changes: their facts, and which of them a night has time to confirm.

A drop of the throughput, or a change of training, is measured again before the message of its night
is sent. Its builds are stored with the request (`request_confirmations`), so that a later
measurement uses the same ones. The time of a night goes to those with the largest expected gain for
each second.
"""

import dataclasses
import functools
import logging
import math
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import NormalDist
from typing import Any

from nightbench.core.budget import PREPARE_S, CaseHistory, duration, guess_repeat_s
from nightbench.core.code_digest import file_digest
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError, WarehouseUnavailable
from nightbench.core.model import Build, VerdictKind
from nightbench.core.model.experiments import NIGHT, NIGHTBENCH, Experiment, ExperimentKind
from nightbench.core.run_plan import RunPlan
from nightbench.detection.paired_training import traits_of
from nightbench.detection.robust import Z_90
from nightbench.detection.series import series_of
from nightbench.detection.training import PROVED_NIGHTS
from nightbench.detection.training_night import Range, TrainingNight
from nightbench.detection.training_tolerance import TrainingTraits
from nightbench.night.training_verdicts import NIGHTS_COMPARED
from nightbench.warehouse import Warehouse

log = logging.getLogger(__name__)

PAIRS, PAIRS_ELSEWHERE = 5, 3
"""Rounds with two builds, on the night's nodes and on others."""

AGAIN, AGAIN_ELSEWHERE = 3, 2
"""Rounds with one build only, each of two launches."""

UNREAL = 0.08
"""Share of the reported changes that are none: 1 - precision (docs/evaluation-detector.md)."""

_NORMAL = NormalDist()


class BuildGone(UserError):
    """The last good build is not available any more."""


@dataclass(frozen=True)
class TrainedBefore:
    """Losses of the last nights that trained as before, for a change of training."""

    nights: tuple[Mapping[str, Range], ...]
    """The newest first."""
    traits: TrainingTraits


@dataclass(frozen=True)
class SuspectedRegression:
    """A regression or a change of training, with the builds and nodes that measure it again."""

    alert_id: int
    run_id: str
    """The night of the suspected regression."""
    case_id: str
    value: float
    """Throughput of that night, units of work per second; of a change of training the loss."""
    baseline: float
    """The level before."""
    bad: Build
    """Build that the night planned."""
    bad_version: str | None
    """Framework version that the ranks reported."""
    good: Build | None
    """Build that the last good night planned; None if unknown."""
    good_version: str | None
    good_run_id: str | None
    nodes: tuple[str, ...]
    """On which it was measured."""
    definition_digest: str
    low: float | None = None
    """90 % interval of the change of level, by the night's verdict."""
    high: float | None = None
    noise: float | None = None
    """Relative standard deviation of that night's repeats; None if unknown."""
    trained: TrainedBefore | None = None
    """Training before a change of training; None for a drop of the throughput."""

    @property
    def change(self) -> float:
        """Value / baseline - 1, as in verdicts."""
        return self.value / self.baseline - 1

    def to_json(self) -> dict[str, Any]:
        """Return it as the warehouse stores it with the request."""
        return {**to_document(self), "change": self.change}


def builds_of(suspect: SuspectedRegression) -> tuple[Build, Build] | None:
    """Return the last good build and the night's; None if they are the same, or one is unknown.

    Raises:
        BuildGone: a wheel or a prefix has changed, or cannot be read.
    """
    pair = _pair(suspect)
    for build in pair or ():
        _check_wheel(build)
    return pair


def _pair(suspect: SuspectedRegression) -> tuple[Build, Build] | None:
    """Return the same as `builds_of`, without reading the wheels."""
    good, bad = suspect.good, suspect.bad
    if good is None:
        return None
    then, now = public_version(suspect.good_version), public_version(suspect.bad_version)
    moved = then is not None and now is not None and then != now
    if _is_same_build(good, bad):
        if not moved or (good.source == "wheel" and good.digest):
            return None
        if good.source == "path":
            raise BuildGone(f"{good.location} had {good.line} {then} before, and has {now} now")
    elif good.source == bad.source == "index" and then is not None and then == now:
        # The same build by another name, such as a lock that is named by its version.
        return None
    if good.source == "index":
        good = dataclasses.replace(good, version=public_version(good.version) or then)
    return good, bad


def public_version(version: str | None) -> str | None:
    """Return a version without its local part: `2.13.0` for `2.13.0+cpu`."""
    return version.partition("+")[0] if version else None


def _is_same_build(one: Build, other: Build) -> bool:
    names = ["line", "variant", "source", "digest"]
    if one.source != "wheel" or not one.digest:
        names += ["location", "version"]
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _check_wheel(build: Build) -> None:
    if build.source != "wheel" or not build.location:
        return
    path = Path(build.location)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileNotFoundError
        if build.digest and file_digest(path) != build.digest:
            raise BuildGone(f"the wheel {path} has changed since then")
    except (FileNotFoundError, NotADirectoryError):
        raise BuildGone(f"the wheel {path} no longer exists") from None
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

    None if it has no level, or is about another metric than throughput or losses. The verdicts
    of the plan's night are stored.
    """
    case_id = alert["case_id"]
    case = next((each for each in plan.cases if each.planned.case_id == case_id), None)
    if alert["metric"] not in ("throughput", "training"):
        return None
    if case is None or not alert["value"] or not alert["baseline"]:
        return None
    run_id, nights = plan.run.run_id, nights or RunFacts(warehouse)
    tonight = nights.points(run_id).get(case_id)
    verdict = nights.verdicts(run_id).get(case_id) if tonight else None
    dropped = verdict if verdict is not None and verdict.kind is VerdictKind.REGRESSED else None
    good_run_id = dropped.last_good_run_id if dropped else None
    trained = None
    if alert["metric"] == "training":
        dropped, same = None, _nights_before(warehouse, plan, case_id)
        if not same:
            return None
        (good_run_id,) = warehouse.series.run_ids([same[0].run_key]).values()
        traits = traits_of(case, plan.protocol)
        trained = TrainedBefore(tuple(night.losses for night in same), traits)
    planned = nights.planned(good_run_id).get(case_id) if good_run_id else None
    before = nights.points(good_run_id).get(case_id) if good_run_id else None
    sigma = float(series_of([tonight]).within[0]) if tonight else math.nan
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
        low=dropped.low if dropped else None,
        high=dropped.high if dropped else None,
        noise=None if math.isnan(sigma) else sigma,
        trained=trained,
    )


def _nights_before(warehouse: Warehouse, plan: RunPlan, case_id: str) -> list[TrainingNight]:
    """Return the nights that a changed training is compared with, the newest first."""
    rows = warehouse.series.training_nights([case_id], plan.run, NIGHTS_COMPARED)
    newest = sorted((night for *_, night in rows), key=lambda night: night.at, reverse=True)
    same = [night for night in newest[1:] if night.trains_as_defined_by(newest[0])]
    return same[:PROVED_NIGHTS]


def rounds_of(has_two: bool) -> tuple[int, int]:
    """Return the rounds on the night's nodes and on others, for two builds or for one."""
    return (PAIRS, PAIRS_ELSEWHERE) if has_two else (AGAIN, AGAIN_ELSEWHERE)


def confirmation_of(suspect: SuspectedRegression, plan: RunPlan, by: str) -> Experiment:
    """Return the experiment that measures a suspected regression again, with a name of its own."""
    name = f"confirm-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    where = (plan.run.suite, plan.run.cluster)
    return Experiment(
        name,
        ExperimentKind.CONFIRM,
        suspect.to_json(),
        *where,
        by,
        alert_id=suspect.alert_id,
        run_id=suspect.run_id,
    )


def confirm_suspects(warehouse: Warehouse, plan: RunPlan) -> None:
    """Request confirmations; errors are logged, and the night's message does not wait then.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    try:
        request_confirmations(warehouse, plan)
    except WarehouseUnavailable:
        raise
    except Exception:  # An unexpected file of another night must not stop an alert.
        log.exception("some suspects of run %s will not be measured again", plan.run.run_id)


def request_confirmations(warehouse: Warehouse, plan: RunPlan) -> None:
    """Request that a night's suspected regressions are measured again, within its budget.

    Those with the largest expected gain for each second come first. Those that do not fit are
    stored as skipped, with the reason. A second call for the same night adds nothing.
    """
    repository = warehouse.experiments
    run_id, budget_s = plan.run.run_id, plan.policy.confirm_s
    if budget_s <= 0:
        return
    kinds = [ExperimentKind.CONFIRM]
    asked = repository.find(run_id=run_id, kinds=kinds, requested_by=NIGHTBENCH)
    known = {row["alert_id"] for row in asked}
    left_s = budget_s - math.fsum(
        row["estimate_s"] or 0.0 for row in asked if row["state"] != "cancelled"
    )
    past, nights = warehouse.runs.case_past(plan.run.cluster), RunFacts(warehouse)
    wanted: list[tuple[float, float, SuspectedRegression]] = []
    for alert in repository.read("suspects", run_id=run_id):
        if alert["alert_id"] in known:
            continue
        suspect = suspected_regression(warehouse, plan, alert, nights)
        if suspect is None:
            continue
        case_past = past.get(suspect.case_id, CaseHistory()).of(suspect.definition_digest)
        expected_s = expected_seconds(suspect, plan, case_past.repeat_s)
        gain = expected_gain(suspect, plan.policy.clear_change)
        wanted.append((gain / max(expected_s, 1.0), expected_s, suspect))
    for _, expected_s, suspect in sorted(wanted, key=lambda each: -each[0]):
        skipped = _refusal(expected_s, left_s, budget_s)
        experiment = dataclasses.replace(
            confirmation_of(suspect, plan, NIGHTBENCH),
            state="cancelled" if skipped else "queued",
            priority=NIGHT,
            until=datetime.now(UTC) + timedelta(seconds=budget_s),
            estimate_s=expected_s,
            why=skipped or "",
        )
        repository.add(experiment)
        left_s -= 0.0 if skipped else expected_s


def smallest_effect(suspect: SuspectedRegression, min_change: float, *, has_two: bool) -> float:
    """Return the drop that an interval must exceed, as a ratio less one: .015 for 1.5 %.

    Two builds in one round share the hour, so a small part of the drop is real as well, from the
    suite's smallest change on. One build against a level of earlier nights does not: half way
    separates the levels best. A change of training is not decided by a ratio.
    """
    if suspect.trained is not None:
        return min_change
    half = -math.log(suspect.value / suspect.baseline) / 2
    bound = min(half, -math.log1p(-min_change)) if has_two else half
    return math.expm1(bound)


def expected_gain(suspect: SuspectedRegression, min_change: float) -> float:
    """Return what measuring again is expected to spare: throughput that is misjudged otherwise.

    A reported drop that is none, or less than the bound of a confirmation, is wrong by its distance
    from that bound. `UNREAL` of all reported drops are none. The others have the size of the
    night's interval, and of these it is the knowledge gradient (Frazier, Powell and Dayanik, 2008).
    It is large if the drop is near the bound for its uncertainty, and if the rounds say more
    than the night did. If training changed, the whole throughput is misjudged.
    """
    has_two = _has_two_builds(suspect)
    if has_two is None:
        return 0.0
    if suspect.trained is not None:
        return UNREAL
    rounds, _ = rounds_of(has_two)
    launches = rounds if has_two else 2 * rounds
    drop = -math.log(suspect.value / suspect.baseline)
    bound = math.log1p(smallest_effect(suspect, min_change, has_two=has_two))
    unsure = drop / 2
    if suspect.low is not None and suspect.high is not None:
        unsure = (math.log1p(suspect.high) - math.log1p(suspect.low)) / (2 * Z_90)
    error = (suspect.noise or 0.0) * math.sqrt((2 if has_two else 1) / launches)
    learnt = unsure**2 / (math.hypot(unsure, error) or 1.0)
    off = abs(drop - bound) / learnt if learnt else math.inf
    gradient = learnt * (_NORMAL.pdf(off) - off * _NORMAL.cdf(-off)) if learnt else 0.0
    return UNREAL * bound + (1 - UNREAL) * gradient


def _has_two_builds(suspect: SuspectedRegression) -> bool | None:
    """Return whether two builds are measured; None if nothing can be measured."""
    try:
        # Wheels are compared when they are measured: reading them takes
        # long, and the lock of the cluster's alerts is held here.
        return _pair(suspect) is not None
    except (UserError, OSError):
        return None


def expected_seconds(suspect: SuspectedRegression, plan: RunPlan, repeat_s: float | None) -> float:
    """Return the seconds that a confirmation is expected to take, preparation included.

    `repeat_s` is what a repeat usually takes; a guess from the protocol if None.
    """
    has_two = _has_two_builds(suspect)
    if has_two is None:
        return 0.0
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
        left = f"a night allows {whole}"
    return f"Not measured again: the measurement takes about {takes}, but {left} (policy.confirm)"
