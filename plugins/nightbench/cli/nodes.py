"""doctor, nodes: preflight and quarantine of a cluster's nodes.

Tables are made for terminals of 80 columns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from nightbench.cli import common
from nightbench.cli.common import FAILED, out, say, warn
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.core.model import Cluster, reasons_from_json
from nightbench.core.sentences import sentences
from nightbench.nodes import Control, Finding, FindingLevel, JudgedNode, NodeState
from nightbench.nodes.quarantine import QUARANTINED, RELEASED

if TYPE_CHECKING:
    from datetime import datetime

    from nightbench.core.model import Catalog
    from nightbench.night.cluster_preflight import ClusterHealth

app = typer.Typer()
Key = tuple[str, str, str, str]

_COLOURS = {FindingLevel.FAIL: "red", FindingLevel.WARN: "yellow", FindingLevel.INFO: "cyan"}
_NAMED = 4
_SLOW = 0.9
"""Share of its history's median below which a control measurement is highlighted."""


@app.command()
def doctor(
    cluster: common.ClusterArgument,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls",
            help="Also measure matrix product, memory copy and all-reduce between nodes, and "
            "compare each measurement with the median of its history.",
        ),
    ] = False,
    json: common.JsonOption = False,
) -> None:
    """Check every node and print a fix for each finding.

    The check changes nothing on the nodes, except that it copies the benchmarks' code below
    `environments.root`.

    Exit codes:

    - 0: all nodes are healthy.
    - 1: a node is unhealthy.
    """
    catalog = common.catalog()
    where = common.cluster_of(cluster, catalog)
    preflight = examine(where, catalog, controls)
    baselines, states = _known(where.name)
    if json:
        common.print_json(as_json(preflight, baselines, states))
    else:
        out.print(overview(preflight, states))
        found = findings_table(preflight)
        out.print(found if found is not None else "[green]Nothing was found.[/green]")
        if where.slurm:
            login = where.slurm.login
            say(f"Slurm manages these nodes, so only the login node {login} was checked.")
        if controls:
            out.print(controls_table(preflight, baselines))
    if preflight.failed:
        raise typer.Exit(FAILED)


def examine(cluster: Cluster, catalog: Catalog, controls: bool) -> ClusterHealth:
    """Check all nodes of a cluster.

    Raises:
        UserError: a Connection is missing.
    """
    from nightbench.night import cluster_preflight

    lines = [line for line in catalog.frameworks.values() if not line.for_tests]
    return asyncio.run(
        cluster_preflight.examine(
            cluster, common.targets(cluster), common.shipment(cluster), lines, controls=controls
        )
    )


def _known(cluster: str) -> tuple[Mapping[tuple[str, str, str, str], float], Mapping[str, Any]]:
    """Return the controls' medians and the nodes' states; empty without a warehouse."""
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
        str | None, typer.Option(metavar="NODE", help="Node to exclude from now on.")
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="NODE", help="Quarantined node to use again.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Reason; --quarantine requires it.")] = "",
    history: Annotated[bool, typer.Option("--history", help="List all changes of state.")] = False,
    json: common.JsonOption = False,
) -> None:
    """Show the states of a cluster's nodes; quarantine or release a node.

    A node is quarantined automatically after `health.quarantine_after` faults in a row, and
    released after a preflight without fault. Only a user releases a node that a user quarantined.
    """
    from nightbench.night.cluster_preflight import set_node_state
    from nightbench.warehouse import opened

    if quarantine and release:
        raise UserError("--quarantine and --release: found both; expected one of them")
    if quarantine and not reason.strip():
        raise UserError("--reason: found none; expected the reason of the quarantine")
    where = common.cluster_of(cluster)
    with opened(common.open_warehouse) as warehouse:
        if quarantine:
            _say(set_node_state(warehouse, where, quarantine, QUARANTINED, reason.strip()))
        elif release:
            _say(set_node_state(warehouse, where, release, RELEASED, reason.strip() or "released"))
        repository = warehouse.nodes
        rows = node_rows(where, repository.read("nodes", cluster=where.name))
        changes = repository.changes(where.name) if history else []
    if json:
        common.print_json({"nodes": rows, "history": changes})
        return
    out.print(nodes_table(where.name, rows))
    for change in changes:
        said = sentences(reasons_from_json(change["reasons"]))
        state = f"{change['node']}  {change['state']}  {change['by_whom']}"
        say(f"{_moment(change['since'])}  {state}: {said}")


def _say(state: NodeState) -> None:
    say(f"{state.node}: {state.state}, {state.by_whom}: {sentences(state.reasons)}")


# --- what doctor prints -------------------------------------------------------------------


def overview(health: ClusterHealth, states: Mapping[str, NodeState]) -> Table:
    """Return a table of nodes: state and equipment."""
    columns = ("node", "state", "Python", "cores", "memory", "disk free", "GPUs", "held")
    return common.table(
        columns,
        (
            (node.seen.node, _state(node, _is_quarantined(node, states)), *_has(node.seen.document))
            for node in health.nodes
        ),
    )


def _is_quarantined(node: JudgedNode, states: Mapping[str, NodeState]) -> bool:
    return node.seen.node in states and states[node.seen.node].quarantined


def _state(node: JudgedNode, quarantined: bool) -> Text:
    if not node.seen.reachable:
        return Text("unreachable", style="red")
    if node.fault is not None:
        return Text("ill", style="red")
    if quarantined:
        return Text("quarantined", style="yellow")
    if node.level is FindingLevel.WARN:
        return Text("warnings", style="yellow")
    return Text("well", style="green")


def _has(document: Mapping[str, Any] | None) -> tuple[str, ...]:
    if document is None:
        return ("-",) * 6
    gpus = document["gpus"]
    kinds = sorted({str(gpu["name"]) for gpu in gpus})
    holders = document["lock_holders"]
    return (
        str(document["python"]),
        str(document["cpu"]["cores"]),
        f"{document['memory']['total_bytes'] / 1e9:.0f} GB",
        f"{document['disk']['free_bytes'] / 1e9:.0f} GB",
        f"{len(gpus)} {', '.join(kinds)}" if gpus else "none",
        "yes" if holders else "no",
    )


def findings_table(health: ClusterHealth) -> Table | None:
    """Return a table of all findings with advice; None without findings."""
    having: dict[Finding, list[str]] = {}
    for node in health.nodes:
        for finding in node.findings:
            having.setdefault(finding, []).append(node.seen.node)
    having |= {finding: ["all"] for finding in health.between}
    if not having:
        return None
    # A finding of several nodes is one row; the most severe comes first.
    rows = (
        (
            _names(having[finding]),
            Text(str(finding.level), style=_COLOURS[finding.level]),
            finding.title,
            _sentence(finding),
        )
        for finding in sorted(having, key=lambda f: list(_COLOURS).index(f.level))
    )
    return common.table(("node", "", "what", "finding and fix"), rows)


def _names(nodes: Sequence[str]) -> str:
    if len(nodes) <= _NAMED:
        return "\n".join(nodes)
    return "\n".join([*nodes[: _NAMED - 1], f"and {len(nodes) - _NAMED + 1} more"])


def _sentence(finding: Finding) -> Text:
    said = Text(f"{finding.found}; expected {finding.expected}\n")
    return said.append(f"→ {finding.advice}", style="bold")


def controls_table(health: ClusterHealth, baselines: Mapping[Key, float]) -> Table:
    """Return a table of the control measurements with the medians of their histories."""
    rows: list[tuple[str | Text, ...]] = []
    for control in health.controls:
        ratio = _of_history(control, baselines)
        said = "none yet" if ratio is None else f"{ratio * 100:.1f} %"
        said += "" if control in health.valid_controls else " (busy)"
        slow = ratio is not None and ratio < _SLOW
        rows.append(
            (
                control.node,
                control.metric,
                control.device,
                control.backend,
                f"{control.median:.4g} {control.unit}",
                Text(said, style="red" if slow else ""),
            )
        )
    return common.table(("node", "control", "on", "backend", "median", "of history"), rows)


def _of_history(control: Control, baselines: Mapping[Key, float]) -> float | None:
    before = baselines.get(control.key)
    return control.median / before if before else None


def as_json(
    health: ClusterHealth, baselines: Mapping[Key, float], states: Mapping[str, NodeState]
) -> dict[str, Any]:
    """Return the result of `doctor` as JSON."""
    return {
        "cluster": health.cluster,
        "at": health.at.isoformat(),
        "failed": health.failed,
        "nodes": [
            {
                "node": node.seen.node,
                "address": node.seen.address,
                "reachable": node.seen.reachable,
                "level": str(node.level or "ok"),
                "quarantined": _is_quarantined(node, states),
                "findings": [to_document(finding) for finding in node.findings],
                "wall_error_s": node.seen.wall_error_s,
                "document": node.seen.document,
            }
            for node in health.nodes
        ],
        "between": [to_document(finding) for finding in health.between],
        "controls": [
            {
                **to_document(control),
                "median": control.median,
                "history_median": baselines.get(control.key),
                "ratio": _of_history(control, baselines),
            }
            for control in health.controls
        ],
    }


# --- what nodes prints --------------------------------------------------------------------


def node_rows(cluster: Cluster, known: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return all nodes of the YAML with their states, then nodes that were removed from it."""
    by_name = {row["node"]: dict(row) for row in known}
    blank: dict[str, Any] = {
        "cluster": cluster.name,
        "state": "ok",
        "state_since": None,
        "state_reasons": [],
        "state_by": None,
        "faults_in_a_row": 0,
        "last_preflight_at": None,
        "last_level": None,
        "last_complaints": None,
    }
    named = [node.name for node in cluster.nodes]
    order = [*named, *sorted(by_name.keys() - set(named))]
    return [
        {**blank, "node": name, **by_name.get(name, {}), "in_yaml": name in named} for name in order
    ]


def nodes_table(cluster: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of the states of a cluster's nodes."""
    lines: list[tuple[str | Text, ...]] = []
    for row in rows:
        out = row["state"] == "quarantined"
        state = "no longer in the cluster's YAML" if not row["in_yaml"] else row["state"]
        complaints = ", ".join(row["last_complaints"] or ())
        level = f"{row['last_level']} " if row["last_level"] else ""
        said = sentences(reasons_from_json(row["state_reasons"]))
        why = f"{row['state_by']}: {said}" if said else complaints
        lines.append(
            (
                row["node"],
                Text(state, style="red" if out else "green"),
                _moment(row["state_since"]),
                str(row["faults_in_a_row"]),
                f"{level}{_moment(row['last_preflight_at'])}",
                why,
            )
        )
    columns = ("node", "state", "since", "faults", "last preflight", "why")
    return common.table(columns, lines, title=cluster)


def _moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at is not None else "-"
