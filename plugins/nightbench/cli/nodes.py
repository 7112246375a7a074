"""doctor, nodes, sweep: preflight, quarantine and orphaned processes of a cluster's nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import FAILED, out, say, warn
from nightbench.core.errors import UserError
from nightbench.core.sentences import sentences
from nightbench.nodes.quarantine import QUARANTINED, RELEASED

if TYPE_CHECKING:
    from nightbench.core.model import Catalog, Cluster
    from nightbench.night.cluster_preflight import ClusterHealth
    from nightbench.nodes import NodeState

app = typer.Typer()


@app.command()
def doctor(
    cluster: common.ClusterArgument,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls",
            help="Measure too: matrix product, memory copy, all-reduce between the nodes; each "
            "beside the median of its own history.",
        ),
    ] = False,
    json: common.JsonOption = False,
) -> None:
    """Examine every node and give advice for every finding. Exit code 1 where a node is ill.

    Nothing is changed on the nodes, except for the benchmarks' code below `environments.root`.
    """
    from nightbench.cli import nodes_view

    catalog = common.catalog()
    where = common.cluster_of(cluster, catalog)
    preflight = examine(where, catalog, controls)
    baselines, states = _known(where.name)
    if json:
        common.print_json(nodes_view.as_json(preflight, baselines, states))
    else:
        out.print(nodes_view.overview(preflight, states))
        found = nodes_view.findings_table(preflight)
        out.print(found if found is not None else "[green]Nothing was found.[/green]")
        if where.slurm:
            login = where.slurm.login
            say(f"Slurm has these nodes: what is shown of each is the login node, {login}.")
        if controls:
            out.print(nodes_view.controls_table(preflight, baselines))
    if preflight.failed:
        raise typer.Exit(FAILED)


def examine(cluster: Cluster, catalog: Catalog, controls: bool) -> ClusterHealth:
    """Examine all nodes of a cluster.

    Raises:
        UserError: a Connection is missing.
    """
    from nightbench.night import cluster_preflight

    lines = [line for line in catalog.frameworks.values() if not line.for_tests]
    return asyncio.run(
        cluster_preflight.examine(
            cluster, common.reach(cluster), common.shipment(cluster), lines, controls=controls
        )
    )


def _known(cluster: str) -> tuple[Mapping[tuple[str, str, str, str], float], Mapping[str, Any]]:
    """Return the controls' medians and the nodes' states; empty without a warehouse."""
    from nightbench.warehouse import WarehouseRefused, WarehouseUnavailable

    try:
        with common.reader() as warehouse:
            repository = warehouse.nodes
            return repository.control_baselines(cluster), repository.states(cluster)
    except (WarehouseUnavailable, WarehouseRefused) as error:
        warn(f"Without history: {error}")
        return {}, {}


@app.command()
def nodes(
    cluster: common.ClusterArgument,
    quarantine: Annotated[
        str | None,
        typer.Option("--quarantine", metavar="NODE", help="Leave this node out from now on."),
    ] = None,
    release: Annotated[
        str | None, typer.Option("--release", metavar="NODE", help="Let this node take part again.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="The reason, shown with the node.")] = "",
    history: Annotated[
        bool, typer.Option("--history", help="Every change: when, why, by whom.")
    ] = False,
    json: common.JsonOption = False,
) -> None:
    """Show the states of a cluster's nodes; put a node into quarantine, or release it.

    After `health.quarantine_after` faults in a row a node is put into quarantine automatically, and
    released after a clean preflight. A node that a person put there is released by a person only.
    """
    from nightbench.cli import nodes_view
    from nightbench.night.cluster_preflight import set_node_state
    from nightbench.warehouse import Warehouse

    if quarantine and release:
        raise UserError("--quarantine and --release: found both; expected one of them")
    if quarantine and not reason.strip():
        raise UserError("--reason: found none; expected why the node is left out")
    where = common.cluster_of(cluster)
    with closing(common.open_warehouse()) as connection:
        if quarantine:
            _say(set_node_state(connection, where, quarantine, QUARANTINED, reason.strip()))
        elif release:
            _say(set_node_state(connection, where, release, RELEASED, reason.strip() or "released"))
        repository = Warehouse(connection).nodes
        rows = nodes_view.rows(where, repository.read("nodes", cluster=where.name))
        changes = repository.changes(where.name) if history else []
    if json:
        common.print_json({"nodes": rows, "history": changes})
        return
    out.print(nodes_view.nodes_table(where.name, rows))
    for change in changes:
        say(nodes_view.change_line(change))


def _say(state: NodeState) -> None:
    say(f"{state.node}: {state.state}, {state.by_whom}: {sentences(state.reasons)}")


@app.command()
def sweep(
    cluster: common.ClusterArgument,
    kill: Annotated[bool, typer.Option("--kill", help="End them.")] = False,
    json: common.JsonOption = False,
) -> None:
    """List orphaned processes of Nightbench, which no agent watches; end them with --kill.

    Only processes with Nightbench's mark are found and ended. Exit code 1 where something is left,
    or a node does not answer.
    """
    from nightbench import gang

    where = common.cluster_of(cluster)
    answers = asyncio.run(gang.sweep(where, common.reach(where), common.shipment(where), kill=kill))
    left = False
    for node, answer in answers.items():
        if answer.get("problem"):
            left = True
            if not json:
                warn(str(answer["problem"]))
        ended = set(answer["killed"])
        for process in answer["found"]:
            left = left or process["pid"] not in ended
            what = "ended" if process["pid"] in ended else "orphan" if not kill else "NOT ENDED"
            if not json:
                say(f"{node}: {what} {process['pid']} of {process['job']}: {process['cmd']}")
    if json:
        common.print_json(answers)
    elif not any(answer["found"] for answer in answers.values()):
        say("no orphans")
    if left:
        raise typer.Exit(FAILED)
