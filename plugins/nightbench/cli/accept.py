"""accept: tries every configuration of every framework line on a cluster."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from nightbench.cli import common
from nightbench.cli.common import FAILED, INTERRUPTED, out, say, warn
from nightbench.config.experiment_requests import AcceptRequest
from nightbench.config.request_fields import described
from nightbench.core.budget import duration

if TYPE_CHECKING:
    from nightbench.accept.states import ModeState
    from nightbench.core.model import Cluster
    from nightbench.night.cluster_preflight import ClusterHealth
    from nightbench.nodes import NodeState

app = typer.Typer()


@app.command()
def accept(
    cluster: common.ClusterArgument,
    line: Annotated[
        list[str] | None, typer.Option(help=described(AcceptRequest, "lines", common.REPEATABLE))
    ] = None,
    mode: Annotated[
        list[str] | None, typer.Option(help=described(AcceptRequest, "modes", common.REPEATABLE))
    ] = None,
    untried: Annotated[bool, typer.Option(help=described(AcceptRequest, "untried"))] = True,
    again: Annotated[bool, typer.Option("--again", help=described(AcceptRequest, "again"))] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the configurations; measure nothing.")
    ] = False,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> None:
    """Try every configuration of every framework line on a cluster.

    The command checks and measures the nodes like `doctor --controls`. Then it measures a smoke
    case of each configuration on one device and on two. If both pass, all devices of a node and of
    two nodes follow. A configuration that passes every check is no longer untried on the cluster.
    The next call tries only configurations that must be retested. The command needs the warehouse.

    Exit code 1: a configuration failed, or a control measurement is too low.
    """
    catalog = common.catalog()
    where = common.cluster_of(cluster, catalog)
    from nightbench.accept import measuring

    cells = measuring.chosen_cells(line or (), mode or (), where, catalog, untried=untried)
    read_only = partial(common.open_warehouse, "nightbench_reader")
    context = measuring.AcceptanceContext(
        where,
        catalog,
        {} if dry_run else common.targets(where),
        read_only if dry_run else common.open_warehouse,
        common.spool(),
        getpass.getuser(),
        outside_hours=outside_hours,
    )
    older = datetime.now(UTC) if again else None
    if dry_run:
        ended = measuring.AcceptanceEnd(context.states(cells, again=older))
    else:
        observer = measuring.AcceptanceObserver(say, show_nodes, common.live_view)
        ended = measuring.try_modes(cells, context, observer, again=older)
    if json:
        common.print_json([document(state) for state in ended.states])
    else:
        show(ended.states, where)
    if ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not ended.good:
        raise typer.Exit(FAILED)


def show_nodes(health: ClusterHealth, states: Mapping[str, NodeState]) -> None:
    """Print the nodes, the findings, and the control measurements."""
    from nightbench.cli import nodes

    common.err.print(nodes.overview(health, states))
    if (found := nodes.findings_table(health)) is not None:
        common.err.print(found)
    common.err.print(nodes.controls_table(health, {}))


_LAST = (
    *("outcome", "reason", "variant", "build_id", "framework_version", "driver", "efficiency"),
    *("code_digest", "run_id", "started_at"),
)
"""Fields of the newest result in the JSON."""


def document(state: ModeState) -> dict[str, Any]:
    """Return a configuration as an object of the JSON, with its newest result."""
    known, case = state.known, state.cell.case
    return {
        "line": state.cell.line,
        "mode": state.cell.mode,
        "outcome": state.outcome,
        "reason": state.reason,
        "case_id": case and case.case_id,
        "strategy": case and str(case.strategy),
        "devices": state.cell.devices,
        "build_id": state.build.build_id if state.build else None,
        "last": known and {name: getattr(known, name) for name in _LAST},
    }


_COLOURS = {
    "passed": "green",
    "failed": "red",
    "not reported": "yellow",
    "due": "yellow",
    "skipped": "dim",
}


def show(states: Sequence[ModeState], cluster: Cluster) -> None:
    """Print a table of the configurations, their number by outcome, and the time to retest."""
    rows = (
        (
            state.cell.line,
            state.cell.mode,
            state.cell.devices or "-",
            state.build.build_id if state.build else "-",
            Text(state.outcome, style=_COLOURS.get(state.outcome, "")),
            (state.reason or "").split("\n")[0],
        )
        for state in states
    )
    out.print(common.table(("line", "mode", "devices", "build", "outcome", "reason"), rows))
    counted = Counter(state.outcome for state in states)
    words = ", ".join(f"{counted[word]} {word}" for word in _COLOURS if counted[word])
    say(f"cluster {cluster.name}: {words}")
    due = [state.cell.case for state in states if state.to_try and state.cell.case]
    if due:
        usual = common.history(cluster.name)
        known = [usual[case.case_id] for case in due if case.case_id in usual]
        about = f"about {duration(sum(known))}" if known else "no estimate of time: no history yet"
        warn(f"{len(due)} must be retested: {about}, {len(due) - len(known)} without a history")
