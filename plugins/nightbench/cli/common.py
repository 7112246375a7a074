"""What the commands share: options, paths, suites and clusters, the warehouse, output."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from nightbench.cli.entry import quiet
from nightbench.config import locations, run_request
from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.local.home import Home, find_home

if TYPE_CHECKING:
    from nightbench.core.budget import CaseHistory
    from nightbench.core.model import Catalog, Cluster, Suite
    from nightbench.gang import Shipment, SshTarget
    from nightbench.local.deployment import Logins
    from nightbench.spool import Spool
    from nightbench.warehouse import Warehouse
    from nightbench.warehouse.connection import Connection

_WIDE = None if sys.stdout.isatty() else 160
"""Width of output into a file; rich finds that of a terminal."""
out = Console(highlight=False, width=_WIDE)
err = Console(stderr=True, highlight=False)

WAREHOUSE_VARIABLE = "NIGHTBENCH_WAREHOUSE"

FAILED = 1
"""Exit code where something that was requested failed."""
INTERRUPTED = 130

ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", "-c", help="Cluster to run on; the suite's own unless given."),
]
FrameworksOption = Annotated[
    str, typer.Option("--frameworks", help="Only these framework lines, with commas between.")
]
WorkloadsOption = Annotated[
    str, typer.Option("--workloads", help="Only these workloads, with commas between.")
]
StrategiesOption = Annotated[
    str, typer.Option("--strategies", help="Only these strategies, with commas between.")
]
CasesOption = Annotated[
    list[str] | None,
    typer.Option("--case", metavar="SLUG", help="Only this case. May be given several times."),
]
RepeatsOption = Annotated[
    int | None,
    typer.Option("--repeats", min=1, help="Repeats of each case; the suite's unless given."),
]
ScaleOption = Annotated[
    str | None, typer.Option("--scale", help="Scale of the workloads; the suite's unless given.")
]
BuildOption = Annotated[
    list[str] | None,
    typer.Option(
        "--build",
        metavar="LINE=BUILD",
        help="Another build of a line: a version, a wheel file, or a prefix on the nodes. "
        "May be given several times.",
    ),
]
NightOption = Annotated[
    bool,
    typer.Option(
        "--night", help="As a scheduled run: keep to the hours, the budget and the order of nights."
    ),
]
OutsideHoursOption = Annotated[
    bool,
    typer.Option("--outside-hours", help="Measure also when the cluster's hours do not hold."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SuiteArgument = Annotated[str, typer.Argument(help="Name of a suite, or its YAML file.")]


def catalog() -> Catalog:
    """Return the framework lines and workloads that are shipped to nodes.

    Raises:
        UserError: a description of one is wrong.
    """
    from nightbench.config import load_catalog

    return load_catalog(locations.benchmarks_folder())


def spool() -> Spool:
    """Return the spool of runs."""
    from nightbench.spool import open_spool

    return open_spool()


def words(text: str) -> tuple[str, ...]:
    """Return the words between commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def say(text: str) -> None:
    """Print a line without markup or wrapping."""
    out.print(text, markup=False, soft_wrap=True)


def login_text(access: Logins) -> str:
    """Return user and password for a terminal; for a file or a pipe, where the password lies."""
    if sys.stdout.isatty():
        return f"user {access.user}, password {access.password}"
    return f"user {access.user}, password in {home().passwords_file}"


def home() -> Home:
    """Return the state folder."""
    return find_home()


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A suite and its cluster, with the options of the command line applied."""

    suite: Suite
    cluster: Cluster
    catalog: Catalog
    overrides: Mapping[str, Any]
    """The options of the command line as parameters of the DAG `on_demand`."""
    night: bool = False
    """Keep to the hours, the budget and the order of the suite's nights."""
    outside_hours: bool = False
    """Measure also outside of the cluster's hours."""


def choose(
    suite: str,
    cluster: str | None = None,
    *,
    frameworks: str = "",
    workloads: str = "",
    strategies: str = "",
    repeats: int | None = None,
    scale: str | None = None,
    builds: list[str] | None = None,
    night: bool = False,
    outside_hours: bool = False,
    cases: list[str] | None = None,
) -> Chosen:
    """Read a suite, its cluster and the catalog, and apply the command line to them.

    Raises:
        UserError: something is wrong in a file or on the command line.
    """
    request = RunRequest(
        suite,
        cluster,
        words(frameworks),
        words(workloads),
        words(strategies),
        tuple(builds or ()),
        repeats,
        scale,
        night=night,
        outside_hours=outside_hours,
        cases=tuple(cases or ()),
    )
    chosen, where, known = resolve_request(request, files=True)
    asked = dataclasses.replace(request, suite=chosen.name, cluster=where.name)
    return Chosen(chosen, where, known, asked.to_params(), night, outside_hours)


def cluster_of(name: str, catalog: Catalog | None = None) -> Cluster:
    """Return a cluster that is given by name or as a path.

    Raises:
        UserError: there is none, or it is wrong.
    """
    return run_request.cluster_of(name, catalog, files=True)


def reach(cluster: Cluster) -> dict[str, SshTarget]:
    """Return how the nodes of a cluster are reached, from Airflow's Connections.

    Raises:
        UserError: a Connection is missing or says too little.
    """
    _configure_airflow()
    from nightbench.orchestration.ssh_targets import ssh_targets

    targets = dict(ssh_targets(cluster))
    quiet()
    return targets


def channel_url(conn_id: str) -> str:
    """Return the Apprise URL in an Airflow Connection.

    Raises:
        UserError: the Connection is missing or holds no URL.
    """
    _configure_airflow()
    from nightbench.orchestration import connections

    url = connections.channel_url(conn_id)
    quiet()
    return url


def _configure_airflow() -> None:
    """Set Airflow's variables, which it reads when imported; without them it creates ~/airflow."""
    from nightbench.local import deployment

    place = home()
    if place.connections_file.is_file() and place.secrets_file.is_file():
        os.environ.update(deployment.load(place).airflow_env())
    os.environ.setdefault("AIRFLOW_HOME", str(place.airflow))


def shipment(cluster: Cluster) -> Shipment:
    """Return what is shipped to a cluster's nodes: code, uv, and wheels where it has no index.

    Raises:
        UserError: the uv binary does not run.
    """
    from nightbench.gang import local_shipment

    return local_shipment(cluster.environments.wheelhouse)


def warehouse_dsn(role: str = "nightbench_loader") -> str | None:
    """Return the connection string of the warehouse, or None where there is none.

    `NIGHTBENCH_WAREHOUSE` names it; otherwise it is the one that `nightbench up` made.
    """
    from nightbench.local import deployment

    named = os.environ.get(WAREHOUSE_VARIABLE)
    if named:
        return named
    place = home()
    if not place.secrets_file.is_file() or not place.ports_file.is_file():
        return None
    return deployment.load(place).dsn(role)


def open_warehouse(role: str = "nightbench_loader") -> Connection:
    """Open a connection to the warehouse.

    Raises:
        UserError: it does not answer, or there is none.
    """
    from nightbench.orchestration import connections
    from nightbench.warehouse.connection import WarehouseUnavailable, connect

    dsn = warehouse_dsn(role)
    # Beside an Airflow that `nightbench up` did not start, such as in a container of it.
    if dsn is None and role in connections.BY_ROLE and connections.is_configured():
        return connections.connect(connections.BY_ROLE[role])
    if dsn is None:
        raise WarehouseUnavailable(
            f"There is no warehouse yet: nothing was started in {home().root}. Start it with "
            f"`nightbench up`, or name one by {WAREHOUSE_VARIABLE}=postgresql://…"
        )
    return connect(dsn)


def past(cluster: str) -> dict[str, CaseHistory]:
    """Return what earlier runs took for the cases on a cluster; empty without earlier runs.

    From the warehouse; where it does not answer, from the runs that are still in the spool.
    """
    from nightbench.night.case_history import case_histories

    return case_histories(cluster, open_warehouse, spool())


def history(cluster: str) -> dict[str, float]:
    """Return the seconds that each case usually takes on a cluster; empty without earlier runs."""
    known = past(cluster)
    return {case_id: each.seconds for case_id, each in known.items() if each.seconds is not None}


def open_reader() -> Warehouse:
    """Open the warehouse for reading.

    Raises:
        UserError: it does not answer, or there is none.
    """
    from nightbench.warehouse import Warehouse

    return Warehouse(open_warehouse("nightbench_reader"))


def print_json(document: Any) -> None:
    """Print a JSON document to standard output."""
    import json

    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
