"""Measuring a suspect again: the last good build and the night's in turn, on the same nodes.

Once more on other nodes, where the cluster has them. The launches are those of a comparison
(`comparing`), so another process goes on after the last that has ended, and takes up one that
runs. Where both builds are one, the same rounds hold it twice, and its launches are held against
the level of the nights before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nightbench.core.budget import CaseHistory
from nightbench.core.errors import UserError
from nightbench.core.model import Build, Catalog, Cluster, Suite
from nightbench.core.model.alerts import Confirmation
from nightbench.core.run_plan import RunPlan
from nightbench.experiments import comparison_result
from nightbench.experiments.compare import Listener, Stopped, measure_comparison
from nightbench.experiments.comparisons import ComparisonPlan, plan_comparison, store_comparison
from nightbench.experiments.confirmation_outcome import confirmation, inconclusive, smallest_effect
from nightbench.experiments.rounds import Side
from nightbench.gang import EnvironmentUnavailable, Shipment, SshTarget
from nightbench.night import cluster_preflight, node_placement
from nightbench.night.suspected_regressions import (
    BuildGone,
    SuspectedRegression,
    builds_of,
    rounds_of,
)
from nightbench.nodes import NodeState
from nightbench.spool import RunSpool, Spool
from nightbench.warehouse import NodeRepository, Reader
from nightbench.warehouse.connection import Connect
from nightbench.warehouse.experiments import NIGHTBENCH, UNDECIDED, ConfirmationRepository

__all__ = ["Asked", "Busy", "Ground", "begin", "end", "give_up_rest", "measure_again", "overdue"]

ELSEWHERE = "-other"
"""Ends the id of the launches on other nodes."""

_SEED = 1
_NOT_TONIGHT = "the night measured on others"
_THE_NIGHT = "the night measured on it"


class Busy(UserError):
    """Another process measures it right now."""


Watch = Callable[[ComparisonPlan, RunSpool], Listener]
"""Makes what hears a comparison."""


@dataclass(frozen=True)
class Ground:
    """Where a suspect is measured again, and by what."""

    suite: Suite
    cluster: Cluster
    catalog: Catalog
    targets: Mapping[str, SshTarget]
    shipment: Shipment
    deadline: datetime | None = None
    """No launch that cannot end by then."""


@dataclass(frozen=True)
class Asked:
    """What was asked for, and what the warehouse says of its cluster."""

    confirmation_id: int
    comparison_id: str
    suspect: SuspectedRegression
    until: datetime | None
    by: str
    past: Mapping[str, CaseHistory] = field(default_factory=dict)
    states: Mapping[str, NodeState] = field(default_factory=dict)


def begin(connect: Connect, confirmation_id: int) -> Asked | None:
    """Say that a suspect is being measured; None where that is over, or was never asked for.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    connection = connect()
    try:
        repository = ConfirmationRepository(connection)
        if not repository.begin(confirmation_id):
            return None
        (row,) = repository.find(confirmation_id=confirmation_id)
        return Asked(
            confirmation_id,
            row["comparison_id"],
            SuspectedRegression.from_json(row["detail"]),
            row["until"],
            row["asked_by"],
            Reader(connection).case_past(row["cluster"]),
            NodeRepository(connection).states(row["cluster"]),
        )
    finally:
        connection.close()


def end(
    connect: Connect, asked: Asked, found: Confirmation, detail: Mapping[str, Any] | None = None
) -> None:
    """Store what came out.

    Raises:
        WarehouseUnavailable: the warehouse is away; what was measured stays in the spool.
    """
    connection = connect()
    try:
        ConfirmationRepository(connection).end(asked.confirmation_id, found, detail)
    finally:
        connection.close()


def overdue(connect: Connect) -> list[str]:
    """Give up what did not end in time; the runs of which something was given up.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    connection = connect()
    try:
        repository = ConfirmationRepository(connection)
        late = {
            row["run_id"]
            for row in repository.find(states=("wanted", "running"))
            if row["is_overdue"] and row["asked_by"] == NIGHTBENCH
        }
        why = "Not measured again: it did not end in the night's time for it"
        return [run_id for run_id in sorted(late) if repository.give_up(run_id, why)]
    finally:
        connection.close()


def give_up_rest(connect: Connect, spool: Spool, run_id: str) -> int:
    """Give up what of a run nobody measures any more, so that its message need not wait; how many.

    What a living process measures (another DAG run, or a person) goes on, and is waited for.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    connection = connect()
    try:
        repository = ConfirmationRepository(connection)
        going = [
            row["confirmation_id"]
            for row in repository.find(run_id=run_id, states=UNDECIDED)
            if _is_steered(spool, row["comparison_id"])
        ]
        why = "Not measured again: its task ended without an outcome; the task's log says why"
        return repository.give_up(run_id, why, every=True, apart_from=going)
    finally:
        connection.close()


def _is_steered(spool: Spool, comparison_id: str) -> bool:
    folders = (spool.comparison(comparison_id), spool.comparison(comparison_id + ELSEWHERE))
    return any(folder.is_steered() for folder in folders)


async def measure_again(
    asked: Asked, plan: RunPlan, spool: Spool, ground: Ground, watch: Watch
) -> tuple[Confirmation, dict[str, Any]]:
    """Measure what is missing of a suspect's launches, and say what they mean.

    Args:
        asked: what was asked for.
        plan: of the night, as it was stored.
        spool: where the launches go.
        ground: where and by what.
        watch: makes what hears each comparison.

    Returns:
        The outcome, and the answers of both places, to be stored.

    Raises:
        NodeError: a node does not answer before its first launch; another try may find it.
        Busy: another process measures it right now.
        UserError: the case, its nodes or the code have changed since it was begun.
        asyncio.CancelledError: after the gang has been ended on the nodes.
    """
    suspect, cluster = asked.suspect, ground.cluster
    folder = spool.comparison(asked.comparison_id)
    if _is_steered(spool, asked.comparison_id):
        raise Busy(f"{asked.comparison_id} is measured right now by another process")
    try:
        builds = builds_of(suspect)
    except BuildGone as error:
        return inconclusive(str(error)), {}
    lost = set(suspect.nodes) - {node.name for node in cluster.nodes}
    if lost:
        return inconclusive(f"{cluster.name} has no {', '.join(sorted(lost))} any more"), {}
    known = (folder.run() or {}).get("asked")
    ill: dict[str, str] = known["ill"] if known else await _ill(asked, ground)
    out = [f"{node}: {ill[node]}" for node in suspect.nodes if node in ill]
    if out:
        return inconclusive(f"its nodes take no part: {'; '.join(out)}"), {}
    job = _Job(asked, plan, spool, ground, watch, builds, ill)
    try:
        here = await job.measure("", {n: _NOT_TONIGHT for n in job.others})
    except EnvironmentUnavailable as error:
        return inconclusive(f"one of the builds cannot be had any more: {error}"), {}
    there: dict[str, Any] | str | None = None
    # Where time ran out on the night's own nodes, none is left for others.
    if here["complete"] and len(set(job.others) - ill.keys()) >= len(suspect.nodes):
        try:
            there = await job.measure(ELSEWHERE, ill | {n: _THE_NIGHT for n in suspect.nodes})
        except UserError as error:
            # What the night's own nodes say stands without it.
            there = str(error)
    said = confirmation(suspect, builds, here, there)
    return said, {"here": here, "there": there, "pairs": builds is not None}


async def _ill(asked: Asked, ground: Ground) -> dict[str, str]:
    """Which nodes are ill or in quarantine, and why."""
    line = ground.catalog.frameworks[asked.suspect.bad.line]
    found = await cluster_preflight.examine(
        ground.cluster, ground.targets, ground.shipment, [line], sweep=True
    )
    return node_placement.out_tonight(found, asked.states)


@dataclass(frozen=True)
class _Job:
    """What both places have in common."""

    asked: Asked
    plan: RunPlan
    spool: Spool
    ground: Ground
    watch: Watch
    builds: tuple[Build, Build] | None
    ill: Mapping[str, str]

    @property
    def others(self) -> list[str]:
        """Nodes that the night did not measure on."""
        nodes = [node.name for node in self.ground.cluster.nodes]
        return [name for name in nodes if name not in self.asked.suspect.nodes]

    async def measure(self, tail: str, left_out: Mapping[str, str]) -> dict[str, Any]:
        """Measure on what is left; the answer, which may hold fewer rounds where time ran out."""
        folder = self.spool.comparison(self.asked.comparison_id + tail)
        known = comparison_result.saved_answer(folder)
        if known is not None and known["complete"]:
            return known
        compared = self._plan(tail, left_out)
        kept = {"alert_id": self.asked.suspect.alert_id, "ill": dict(self.ill)}
        store_comparison(compared, self.spool, kept, self.asked.by)
        stopped = None
        listener = self.watch(compared, folder)
        with folder.steered():
            try:
                await measure_comparison(
                    compared, folder, self.ground.targets, self.ground.shipment, listener
                )
            except Stopped as error:
                stopped = str(error)
            document = comparison_result.answer(compared, folder, stopped)
            comparison_result.save_answer(folder, document)
        return document

    def _plan(self, tail: str, left_out: Mapping[str, str]) -> ComparisonPlan:
        suspect, ground, night = self.asked.suspect, self.ground, self.plan
        case = next(
            each.planned.case for each in night.cases if each.planned.case_id == suspect.case_id
        )
        # The builds say which environment: a prefix that the site has added since does not.
        paths = {k: v for k, v in ground.cluster.environments.paths.items() if k != case.framework}
        environments = dataclasses.replace(ground.cluster.environments, paths=paths)
        here, there = rounds_of(self.builds is not None)
        compared = plan_comparison(
            dataclasses.replace(ground.suite, cases=(case,), protocol=night.protocol),
            dataclasses.replace(ground.cluster, environments=environments),
            ground.catalog,
            self.builds or (suspect.bad, suspect.bad),
            comparison_id=self.asked.comparison_id + tail,
            rounds=there if tail else here,
            min_effect=smallest_effect(
                suspect, night.policy.min_change, has_two=self.builds is not None
            ),
            seed=_SEED,
            deadline=ground.deadline,
            left_out=left_out,
            past=self.asked.past,
        )
        job = compared.cases[0].jobs[Side.B]
        if job.definition_digest != suspect.definition_digest:
            raise UserError(
                f"{suspect.case_id} is defined otherwise now than it was in {suspect.run_id}"
            )
        if not tail and {node.name for node in job.nodes} != set(suspect.nodes):
            where = ", ".join(node.name for node in job.nodes)
            raise UserError(
                f"{suspect.case_id} would be placed on {where}, and the night measured on "
                f"{', '.join(suspect.nodes)}"
            )
        return compared
