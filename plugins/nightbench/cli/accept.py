"""accept: every mode of every framework line is tried on a cluster."""

from __future__ import annotations

import asyncio
import getpass
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import FAILED, INTERRUPTED, out, say, warn
from nightbench.core.budget import duration
from nightbench.core.errors import UserError
from nightbench.core.model import RunKind

if TYPE_CHECKING:
    from nightbench.core.acceptance import ModeCell
    from nightbench.core.model import Catalog, Cluster
    from nightbench.night.acceptance import ModeState

app = typer.Typer()


@app.command()
def accept(
    cluster: common.ClusterArgument,
    line: Annotated[
        list[str] | None,
        typer.Option("--line", help="Only this framework line. May be given several times."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Try also what holds from an earlier acceptance.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the modes and how each stands.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write how each mode stands to this page, too.")
    ] = None,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> None:
    """Try every mode of every line on a cluster; exit code 1 where one does not pass.

    The nodes are examined and measured as by `doctor --controls`; then a smoke cell of each mode is
    measured at one device and at two, through the same gang as every case, and passes when every
    check does. What passed is no longer untried there. Interrupted or run again it tries only what
    is due: what never ended, or has another build or driver since. It needs the warehouse.
    """
    catalog = common.catalog()
    where = common.cluster_of(cluster, catalog)
    cells = cells_of(line or (), where, catalog)
    interrupted = False
    if not dry_run:
        close_interrupted(where.name)
        interrupted = try_modes(cells, where, catalog, again=again, outside_hours=outside_hours)
    states = states_of(cells, where, catalog, again=again and dry_run)
    if html is not None:
        from nightbench.report.acceptance_page import acceptance_page

        page = acceptance_page(where.name, [document(each) for each in states], datetime.now(UTC))
        html.write_text(page)
        say(f"written: {html}")
    if json:
        common.print_json([document(state) for state in states])
    else:
        show(states, where)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(state.outcome == "failed" for state in states):
        raise typer.Exit(FAILED)


def close_interrupted(cluster: str) -> None:
    """Load what an interrupted acceptance of a cluster measured before its process died.

    Raises:
        UserError: another process measures one, or the warehouse is away.
    """
    from nightbench.night.ingest import ingest_run
    from nightbench.spool.plans import mark_ended

    spool = common.spool()
    for run in spool.runs():
        document = run.run() or {}
        ours = document.get("run_kind") == RunKind.ACCEPTANCE and document["cluster"] == cluster
        if not ours or run.loaded() is not None:
            continue
        if run.is_steered():
            raise UserError(
                f"cluster {cluster}: {run.run_id} is measured by another process right now. Wait "
                f"for it, or end it: nightbench cancel {run.run_id}"
            )
        mark_ended(run)
        ingest_run(spool, run.run_id, common.open_warehouse)


def cells_of(lines: Sequence[str], cluster: Cluster, catalog: Catalog) -> list[ModeCell]:
    """The modes of some lines, or of all that are not for tests, on a cluster.

    Raises:
        UserError: there is no such line.
    """
    from nightbench.core.acceptance import mode_cells

    have = {name: each for name, each in catalog.frameworks.items() if not each.commands}
    for name in lines:
        if name not in have:
            raise UserError(f"line: found {name}; expected one of {', '.join(sorted(have))}")
    chosen = lines or [name for name, each in sorted(have.items()) if not each.for_tests]
    return [cell for name in chosen for cell in mode_cells(name, cluster, catalog)]


def states_of(
    cells: Sequence[ModeCell], cluster: Cluster, catalog: Catalog, *, again: bool = False
) -> list[ModeState]:
    """How each mode stands by the warehouse.

    Raises:
        UserError: the warehouse is away.
    """
    from nightbench.night.acceptance import mode_states

    with common.reader() as warehouse:
        known = warehouse.acceptance.modes(cluster.name)
    return mode_states(cells, known, cluster, catalog, again=again)


def try_modes(
    cells: Sequence[ModeCell],
    cluster: Cluster,
    catalog: Catalog,
    *,
    again: bool,
    outside_hours: bool,
) -> bool:
    """Examine the nodes and try the modes that are due; return whether the user interrupted it.

    Raises:
        UserError: a Connection is missing, or the warehouse is away.
    """
    from nightbench.cli import direct_run, nodes_view
    from nightbench.cli.selection import Chosen
    from nightbench.core.acceptance import SUITE, acceptance_suite
    from nightbench.core.run_plan import new_run_id
    from nightbench.night import cluster_preflight
    from nightbench.night.ingest import ingest_run

    now = datetime.now(UTC)
    run_id = new_run_id(SUITE, now)
    wanted = [catalog.frameworks[name] for name in sorted({cell.line for cell in cells})]
    examined = cluster_preflight.examine(
        cluster,
        common.reach(cluster),
        common.shipment(cluster),
        wanted,
        controls=True,
        sweep=True,
    )
    say(f"cluster {cluster.name}: {len(cluster.nodes)} nodes are examined and measured")
    health = asyncio.run(examined)
    with closing(common.open_warehouse()) as connection:
        nodes = cluster_preflight.record_preflight(connection, run_id, health, cluster.health)
    common.err.print(nodes_view.overview(health, nodes))
    if (found := nodes_view.findings_table(health)) is not None:
        common.err.print(found)
    common.err.print(nodes_view.controls_table(health, {}))
    states = states_of(cells, cluster, catalog, again=again)
    due = tuple(state.cell for state in states if state.to_try)
    if not due:
        say("no mode is due")
        return False
    suite = acceptance_suite(due, cluster, getpass.getuser())
    chosen = Chosen(suite, cluster, catalog, {}, outside_hours=outside_hours)
    plan = direct_run.plan_now(chosen, now, RunKind.ACCEPTANCE, run_id)
    interrupted = direct_run.measure_plan(chosen, plan, health)
    say(ingest_run(common.spool(), run_id, common.open_warehouse).sentence())
    return interrupted


# --- what came of it ------------------------------------------------------------------------


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
        "devices": case and f"{case.nodes}x{case.devices_per_node}",
        "build_id": state.build.build_id if state.build else None,
        "last": known
        and {
            "outcome": known.outcome,
            "reason": known.reason,
            "variant": known.variant,
            "build_id": known.build_id,
            "framework_version": known.framework_version,
            "driver": known.driver,
            "code_digest": known.code_digest,
            "run_id": known.run_id,
            "started_at": known.started_at,
        },
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
    from rich.text import Text

    rows = (
        (
            state.cell.line,
            state.cell.mode,
            state.build.build_id if state.build else "-",
            Text(state.outcome, style=_COLOURS.get(state.outcome, "")),
            (state.reason or "").split("\n")[0],
        )
        for state in states
    )
    out.print(common.table(("line", "mode", "build", "outcome", "reason"), rows))
    counted = Counter(state.outcome for state in states)
    words = ", ".join(f"{counted[word]} {word}" for word in _COLOURS if counted[word])
    say(f"cluster {cluster.name}: {words}")
    due = [state.cell.case for state in states if state.to_try and state.cell.case]
    if due:
        usual = common.history(cluster.name)
        known = [usual[case.case_id] for case in due if case.case_id in usual]
        about = f"about {duration(sum(known))}" if known else "no history yet to estimate it from"
        warn(f"{len(due)} modes are due: {about}, {len(due) - len(known)} without a history")
