"""Shared parts of the commands: options, paths, suites and clusters, warehouse, output."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from nightbench.cli.entry import quiet
from nightbench.config import clusters, load_catalog, locations
from nightbench.config.control_plane import ControlPlane, control_plane
from nightbench.config.request_fields import described
from nightbench.config.run_request import RunRequest
from nightbench.config.suite_heads import suite_heads
from nightbench.core.errors import UserError, WarehouseUnavailable
from nightbench.core.hours import in_utc
from nightbench.core.printable import shown
from nightbench.local.home import Home, find_home

if TYPE_CHECKING:
    from nightbench.core.budget import CaseHistory
    from nightbench.core.model import Catalog, Cluster
    from nightbench.gang import Shipment, Target
    from nightbench.report.live_view import LiveView
    from nightbench.spool import RunSpool, Spool
    from nightbench.warehouse import Warehouse
    from nightbench.warehouse.connection import Connection

_WIDE = None if sys.stdout.isatty() else 160
"""Width of output into a file; rich finds the width of a terminal."""
out = Console(highlight=False, width=_WIDE)
err = Console(stderr=True, highlight=False)

WAREHOUSE_VARIABLE = "NIGHTBENCH_WAREHOUSE"

FAILED = 1
"""Exit code if a part of the request failed."""
INTERRUPTED = 130

REPEATABLE = "This option may be given several times."

ClusterOption = Annotated[
    str | None, typer.Option("--cluster", "-c", help=described(RunRequest, "cluster"))
]
OnlySuiteOption = Annotated[str | None, typer.Option("--suite", "-s", help="Suite to include.")]
OnlyClusterOption = Annotated[
    str | None, typer.Option("--cluster", "-c", help="Cluster to include.")
]
NightOption = Annotated[bool, typer.Option("--night", help=described(RunRequest, "night"))]
OutsideHoursOption = Annotated[
    bool, typer.Option("--outside-hours", help=described(RunRequest, "outside_hours"))
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ClusterArgument = Annotated[str, typer.Argument(help="Name of a cluster, or its YAML file.")]
SuiteArgument = Annotated[str, typer.Argument(help="Name of a suite, or its YAML file.")]


def catalog() -> Catalog:
    """Return the shipped framework lines and workloads.

    Raises:
        UserError: the description of a line or workload is wrong.
    """
    return load_catalog()


def accepting_catalog() -> Catalog:
    """Return the catalog together with the results of the clusters' acceptance."""
    if not has_warehouse():
        return catalog()
    from nightbench.accept import states

    return states.accepting_catalog(open_warehouse)


def spool() -> Spool:
    """Return the spool of runs."""
    from nightbench.spool import open_spool

    return open_spool()


def words(text: str) -> tuple[str, ...]:
    """Return the items of a comma-separated text."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def say(text: str) -> None:
    """Print a line without markup or wrapping."""
    out.print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a line to standard error without markup or wrapping."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


def warn_unscheduled() -> None:
    """Print each suite whose file cannot be scheduled, with its reason."""
    for head in suite_heads(locations.dags_folder()):
        if head.problem is not None:
            warn(f"Suite {head.name} is not scheduled: {head.problem}")


def table(
    columns: Iterable[str],
    rows: Iterable[Iterable[str | Text]],
    *,
    right: Collection[str] = (),
    title: str | None = None,
) -> Table:
    """Return a table; its cells have no markup, and fold if the terminal is narrow.

    `right` names the columns of numbers.
    """
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for name in columns:
        made.add_column(name, overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made


def progress_bar(*columns: ProgressColumn) -> Progress:
    """Return a progress bar below the printed results; without a terminal, it is not shown."""
    # Rich 13 ends a bar that is not shown with an empty line.
    console = next((each for each in (out, err) if each.is_terminal), Console(quiet=True))
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def instant(option: str, text: str, place: tzinfo = UTC) -> datetime:
    """Return the instant that an option names; without an offset it is local time at `place`.

    Raises:
        UserError: it names none.
    """
    try:
        return in_utc(datetime.fromisoformat(text), place)
    except ValueError:
        raise UserError(
            f"{option}: found {shown(text)}; expected a date or a time in ISO 8601, such as "
            "2026-11-01 or 2026-11-01T22:00Z"
        ) from None


def show_access() -> None:
    """Print the addresses and the login of the services; the password on a terminal only."""
    from nightbench.local import deployment

    access = deployment.logins(home())
    password = access.password if sys.stdout.isatty() else f"in {home().passwords_file}"
    say(f"Airflow UI:  {access.ui}   (user {access.user}, password {password})")
    say(f"warehouse:   {access.psql}")


def home() -> Home:
    """Return the state folder."""
    return find_home()


def cluster_of(name: str, catalog: Catalog | None = None) -> Cluster:
    """Return a cluster by its name or path.

    Raises: UserError: there is no such cluster, or its file is wrong.
    """
    return clusters.cluster_of(name, catalog, files=True)


def targets(cluster: Cluster) -> dict[str, Target]:
    """Return how the nodes of a cluster are reached, from Airflow's Connections.

    Raises:
        UserError: a Connection is missing or lacks a field.
    """
    configure_airflow()
    from nightbench.orchestration.ssh_targets import ssh_targets

    targets = dict(ssh_targets(cluster))
    quiet()
    return targets


def channel_url(conn_id: str) -> str:
    """Return the Apprise URL in an Airflow Connection.

    Raises:
        UserError: the Connection is missing or has no URL.
    """
    configure_airflow()
    from nightbench.orchestration import connections

    url = connections.channel_url(conn_id)
    quiet()
    return url


def configure_airflow() -> None:
    """Set Airflow's variables, which it reads when imported; without them it creates ~/airflow."""
    from nightbench.local import deployment

    which, place = control_plane(), home()
    # As Airflow's own commands, this reads Connections from Airflow's database, too.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    if which is ControlPlane.LOCAL:
        os.environ.update(deployment.load(place).airflow_env())
    elif which is ControlPlane.NONE:
        os.environ.setdefault("AIRFLOW_HOME", str(place.airflow))
        if place.connections_file.is_file():
            stored = json.loads(place.connections_file.read_text(encoding="utf-8"))
            for conn_id, entry in stored.items():
                os.environ.setdefault(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(entry))


def shipment(cluster: Cluster) -> Shipment:
    """Return the shipment for a cluster's nodes: code, uv, and wheels if there is no index.

    Raises:
        UserError: the uv binary does not run.
    """
    from nightbench.night.code_snapshot import shipment_of_now

    return shipment_of_now(None, cluster.environments.wheelhouse)


def warehouse_dsn(role: str = "nightbench_loader") -> str | None:
    """Return the connection string of the warehouse; None if no file or variable has it.

    The string is in `NIGHTBENCH_WAREHOUSE`, or `nightbench up` has stored it.
    """
    from nightbench.local import deployment

    named = os.environ.get(WAREHOUSE_VARIABLE)
    if named:
        return named
    if control_plane() is not ControlPlane.LOCAL:
        return None
    return deployment.load(home()).dsn(role)


def has_warehouse() -> bool:
    """Return whether a warehouse is configured, reachable or not."""
    return bool(os.environ.get(WAREHOUSE_VARIABLE)) or control_plane() is not ControlPlane.NONE


def open_warehouse(role: str = "nightbench_loader") -> Connection:
    """Open a connection to the warehouse.

    Raises:
        UserError: the warehouse does not answer, or there is none.
    """
    if not has_warehouse():
        raise WarehouseUnavailable(no_warehouse())
    from nightbench.orchestration import connections
    from nightbench.warehouse.connection import connect

    dsn = warehouse_dsn(role)
    if dsn is not None:
        return connect(dsn)
    if role not in connections.BY_ROLE:
        raise WarehouseUnavailable(
            f"A team's Airflow has no Connection of the role {role}: add --dsn, or name the "
            f"warehouse by {WAREHOUSE_VARIABLE}=postgresql://…"
        )
    configure_airflow()
    return connections.connect(connections.BY_ROLE[role])


def no_warehouse() -> str:
    """Return the error for a command that needs a warehouse if there is none."""
    return (
        f"There is no warehouse yet: nothing was started in {home().root}. Start one with "
        f"`nightbench up`, or name a warehouse by {WAREHOUSE_VARIABLE}=postgresql://… (in a "
        "team's Airflow by its Connections: docs/own-airflow.md)"
    )


def known_case_histories(cluster: str) -> dict[str, CaseHistory]:
    """Return the times that earlier runs took for the cases on a cluster, by the warehouse."""
    if not has_warehouse():
        return {}
    from nightbench.night.planning import case_histories

    return case_histories(cluster, open_warehouse)


def history(cluster: str) -> dict[str, float]:
    """Return the seconds that each case usually takes on a cluster; empty without earlier runs."""
    known = known_case_histories(cluster)
    return {case_id: each.seconds for case_id, each in known.items() if each.seconds is not None}


def live_view(run: RunSpool) -> LiveView:
    """Return the display of a run's progress for this terminal."""
    from nightbench.report.live_view import LiveView

    return LiveView(run, out, history(str((run.run() or {})["cluster"])))


@contextmanager
def reader() -> Iterator[Warehouse]:
    """Open the warehouse for reading, and close it.

    Raises:
        UserError: the warehouse does not answer, or there is none.
    """
    from nightbench.warehouse import Warehouse

    with closing(open_warehouse("nightbench_reader")) as connection:
        yield Warehouse(connection)


def all_said(rows: Sequence[Any], none: str, *, json: bool) -> bool:
    """Print rows as JSON, or a sentence if there are none; return whether nothing else remains."""
    if json:
        print_json(rows)
    elif not rows:
        say(none)
    return json or not rows


def print_json(document: Any) -> None:
    """Print a JSON document to standard output."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, default=_plain)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    """Convert a value that JSON has no type for: a time to text, a dataclass to an object."""
    if isinstance(value, date):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no form in JSON")
