"""accept: every mode of every framework line is tried on a cluster."""

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
from nightbench.core.budget import duration

if TYPE_CHECKING:
    from nightbench.core.model import Catalog, Cluster
    from nightbench.night.acceptance import ModeState
    from nightbench.night.acceptance_run import AcceptanceContext
    from nightbench.night.cluster_preflight import ClusterHealth
    from nightbench.nodes import NodeState

app = typer.Typer()


@app.command()
def accept(
    cluster: common.ClusterArgument,
    line: Annotated[
        list[str] | None,
        typer.Option("--line", help="Only this framework line. May be given several times."),
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            "--mode", help="Only this mode, `single bf16` say. May be given several times."
        ),
    ] = None,
    untried: Annotated[
        bool, typer.Option(help="Try also modes that nobody has run on such devices.")
    ] = True,
    again: Annotated[
        bool, typer.Option("--again", help="Try also what holds from an earlier acceptance.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the modes and how each stands.")
    ] = False,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> None:
    """Try every mode of every line on a cluster; exit code 1 where one does not pass.

    The nodes are examined and measured as by `doctor --controls`; then a smoke cell of each mode is
    measured at one device and at two, and where it holds at all of a node and of two nodes, through
    the same gang as every case. It passes when every check does, and is no longer untried there.
    Interrupted or run again it tries only what is due: what never ended, or has another build,
    driver or checks since. It needs the warehouse.
    """
    catalog = common.catalog()
    where = common.cluster_of(cluster, catalog)
    from nightbench.night import acceptance_run

    cells = acceptance_run.chosen_cells(line or (), mode or (), where, catalog, untried=untried)
    context = accept_context(where, catalog, outside_hours=outside_hours, reached=not dry_run)
    older = datetime.now(UTC) if again else None
    ended = acceptance_run.AcceptanceEnd()
    if not dry_run:
        acceptance_run.close_interrupted(where.name, context.spool, context.connect)
        observer = acceptance_run.AcceptanceObserver(say, show_nodes, common.live_view)
        ended = acceptance_run.try_modes(cells, context, observer, again=older)
    states = context.states(cells, again=older if dry_run else None)
    if json:
        common.print_json([document(state) for state in states])
    else:
        show(states, where)
    if ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    if ended.short or any(state.outcome == "failed" for state in states):
        raise typer.Exit(FAILED)


def accept_context(
    cluster: Cluster, catalog: Catalog, *, outside_hours: bool = False, reached: bool = True
) -> AcceptanceContext:
    """Where and by what; without `reached` nothing can be measured, and no Connection is needed.

    Raises:
        UserError: a Connection is missing.
    """
    from nightbench.night.acceptance_run import AcceptanceContext

    return AcceptanceContext(
        cluster,
        catalog,
        common.reach(cluster) if reached else {},
        common.open_warehouse if reached else partial(common.open_warehouse, "nightbench_reader"),
        common.spool(),
        getpass.getuser(),
        outside_hours=outside_hours,
    )


def show_nodes(health: ClusterHealth, states: Mapping[str, NodeState]) -> None:
    """Print the nodes, what was found, and their controls."""
    from nightbench.cli import nodes

    common.err.print(nodes.overview(health, states))
    if (found := nodes.findings_table(health)) is not None:
        common.err.print(found)
    common.err.print(nodes.controls_table(health, {}))


# --- what came of it ------------------------------------------------------------------------


_LAST = (
    *("outcome", "reason", "variant", "build_id", "framework_version", "driver", "efficiency"),
    *("code_digest", "run_id", "started_at"),
)
"""What is said of a mode's newest result."""


def document(state: ModeState) -> dict[str, Any]:
    """A mode as an object of the JSON: its newest result, or why there is none that holds."""
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
    "not told": "yellow",
    "due": "yellow",
    "skipped": "dim",
}


def show(states: Sequence[ModeState], cluster: Cluster) -> None:
    """Print a table of the modes, how many stand how, and how long those that are due take."""
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
        about = f"about {duration(sum(known))}" if known else "no history yet to estimate it from"
        warn(f"{len(due)} modes are due: {about}, {len(due) - len(known)} without a history")
