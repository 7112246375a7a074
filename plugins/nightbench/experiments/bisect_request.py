"""The request of a bisect: versions, case and cluster, from a person, an alert and an index."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from nightbench.core.errors import UserError
from nightbench.core.plan import build_of
from nightbench.experiments.engine import ExperimentContext, unfit_nodes
from nightbench.gang.installable import installable
from nightbench.warehouse import Reader
from nightbench.warehouse.bisects import Bisects

DEFAULT_ROUNDS = 5
"""Of each step: the fall is known by then, and half of it decides."""


@dataclass(frozen=True)
class BisectRequest:
    """What a bisect searches, and its limits."""

    case_id: str
    suite: str
    """By name, or the absolute path of its file."""
    cluster: str | None
    """By name or path; the suite's own where None."""
    line: str
    versions: tuple[str, ...]
    """Ascending: the good one first, the bad one last."""
    budget_s: float
    """Of measuring, over all calls."""
    most_tests: int
    rounds: int = DEFAULT_ROUNDS
    min_effect: float = 0.01
    """The smallest fall that is looked for; half of the fall that is found decides later."""
    seed: int = 1
    alert_id: int | None = None
    outside_hours: bool = False
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Node -> why nothing is measured on it."""


@dataclass(frozen=True)
class BisectGoal:
    """What a person names of a bisect; an alert says the rest."""

    alert_id: int | None = None
    good: str | None = None
    bad: str | None = None
    case_id: str | None = None
    suite: str | None = None
    cluster: str | None = None
    versions: Sequence[str] = ()
    """The candidates; all that a node offers where there are none."""


def goal_of_alert(goal: BisectGoal, reader: Reader, bisects: Bisects) -> BisectGoal:
    """Return a goal with what it leaves open taken from its alert.

    The versions are those on both sides of the last change before the alert was opened.

    Raises:
        UserError: there is no such alert, or a version is missing and none changed before it.
    """
    rows = reader.alerts(states=None, alert_id=goal.alert_id)
    if not rows:
        raise UserError(
            f"There is no alert {goal.alert_id}. `nightbench alert list --all` lists them."
        )
    case_id, cluster = rows[0]["case_id"], rows[0]["cluster"]
    good, bad = goal.good, goal.bad
    if good and bad:
        run = reader.run(rows[0]["opened_run_id"])
        assert run is not None  # no alert without its run
        suite = run.suite
    else:
        change = bisects.version_change(rows[0]["alert_id"])
        if change is None:
            raise UserError(
                f"alert {goal.alert_id}: the framework's version is the same on all nights of "
                f"{case_id} on {cluster} before it, so no version can be to blame; name both "
                "versions, good and bad (--good and --bad)"
            )
        suite = change["suite"]
        good, bad = (
            named or change[side].partition("+")[0]
            for named, side in ((good, "good"), (bad, "bad"))
        )
    return dataclasses.replace(
        goal,
        good=good,
        bad=bad,
        case_id=goal.case_id or case_id,
        suite=goal.suite or suite,
        cluster=goal.cluster or cluster,
    )


def check_goal(goal: BisectGoal) -> None:
    """Refuse a goal that lacks something or makes no sense, before a node is looked at.

    Raises:
        UserError: so.
    """
    named = {"good": goal.good, "bad": goal.bad, "case": goal.case_id}
    missing = [name for name, value in named.items() if not value]
    if missing:
        raise UserError(
            f"{', '.join(missing)}: found nothing; expected an alert, or a good version, a bad one "
            "and a case"
        )
    assert goal.good is not None
    assert goal.bad is not None
    between(goal.versions, goal.good, goal.bad)


async def make_request(
    goal: BisectGoal, context: ExperimentContext, **limits: Any
) -> tuple[BisectRequest, tuple[str, ...]]:
    """Look at the nodes and return the request, with the sources of versions that failed.

    Args:
        goal: complete, with its suite.
        context: its suite has the one case.
        limits: of the request: budget_s, most_tests, rounds, ...

    Raises:
        UserError: bad is not newer than good, no node is left, or none can be asked for versions.
    """
    check_goal(goal)
    cluster, (case,) = context.cluster, context.suite.cases
    assert goal.good is not None
    assert goal.bad is not None
    assert goal.suite is not None
    left_out = await unfit_nodes(context, case.framework)
    offered: tuple[str, ...] = tuple(goal.versions)
    problems: tuple[str, ...] = ()
    if not offered:
        nodes = [node for node in cluster.nodes if node.name not in left_out]
        if not nodes:
            raise UserError(f"cluster {cluster.name}: no node is left to ask for versions")
        variant = build_of(case.framework, context.suite, cluster, context.catalog).variant
        found = await installable(
            cluster, nodes[0], context.targets, context.shipment, case.framework, variant
        )
        offered, problems = found.versions, found.problems
    request = BisectRequest(
        case_id=case.case_id,
        suite=goal.suite,
        cluster=goal.cluster,
        line=case.framework,
        versions=between(offered, goal.good, goal.bad),
        alert_id=goal.alert_id,
        left_out=left_out,
        **limits,
    )
    return request, problems


def between(known: Sequence[str], good: str, bad: str) -> tuple[str, ...]:
    """Return the versions from good to bad, ascending, both of them included.

    Final versions only, unless good or bad is a candidate or a nightly build itself.

    Raises:
        UserError: a text is no version, or bad is not newer than good.
    """
    low, high = _version(good), _version(bad)
    if low >= high:
        raise UserError(f"versions: found good {good}, bad {bad}; expected the bad one to be newer")
    early = low.is_prerelease or high.is_prerelease
    inner = {_version(each): each for each in known}
    chosen = [
        text
        for version, text in sorted(inner.items())
        # 2.13.0+cpu is a build of 2.13.0, not a version after it.
        if low < version < high
        and version.public not in (low.public, high.public)
        and (early or not version.is_prerelease)
    ]
    return (good, *chosen, bad)


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UserError(f'version: found "{text}"; expected one such as 2.13.0') from None
