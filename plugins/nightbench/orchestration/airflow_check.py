"""`nightbench check`: what Nightbench lacks in an Airflow, and how to add it.

Each part is tried as it is used later. A load begins and is rolled back, a mart is read, a function
of triage refuses an alert that does not exist, the project is validated.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import metadata

from airflow.sdk.configuration import conf

from nightbench.config import find_clusters, load_cluster, locations
from nightbench.config.control_plane import ControlPlane, control_plane, log_of
from nightbench.config.project import validated
from nightbench.config.suite_heads import suite_heads
from nightbench.core.errors import UserError
from nightbench.core.package_files import package_folder
from nightbench.orchestration.airflow_versions import lacking
from nightbench.orchestration.connections import (
    BY_ROLE,
    WAREHOUSE,
    WAREHOUSE_READER,
    WAREHOUSE_TRIAGE,
    connect,
    get_connection,
)
from nightbench.spool import open_spool
from nightbench.warehouse import MoveRefused, Triage, migrate, opened

CLOCKS_S = 60.0
"""By how much clocks may differ: leases of a shared spool are read by them."""


@dataclass(frozen=True)
class Examined:
    """One thing that was examined."""

    subject: str
    state: str
    """ok, note or missing."""
    observed: str
    advice: str = ""


def findings() -> Iterator[Examined]:
    """Examine the Airflow whose configuration this process has, one thing after another."""
    yield _versions()
    yield _provider()
    yield _plugin()
    yield _executor()
    yield _links()
    yield from _processes(address())
    yield from _connections()
    yield _warehouse()
    yield _examined(f"loads, by {WAREHOUSE}", _load)
    yield _examined(f"pages, by {WAREHOUSE_READER}", _read)
    yield _examined(f"alerts, by {WAREHOUSE_TRIAGE}", _triage)
    yield _spool()
    yield from _project()
    yield _dags()


def address() -> str:
    """Return the address of Airflow's API server, without a slash at its end.

    Without `[api] base_url`, which is unset by default, it is the port of this machine.
    """
    named = str(conf.get("api", "base_url", fallback="")).rstrip("/")
    return named or f"http://localhost:{conf.get('api', 'port', fallback='8080')}"


def _versions() -> Examined:
    names = ("nightbench", "apache-airflow")
    found = {name: metadata.version(name) for name in names}
    said = ", ".join(f"{name} {version}" for name, version in found.items())
    said += f", Python {sys.version_info.major}.{sys.version_info.minor}"
    lacks = lacking()
    return Examined("versions", "note" if lacks else "ok", said, lacks)


def _provider() -> Examined:
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()  # type: ignore[no-untyped-call] # Airflow's has no types
    if "nightbench" in manager.providers:
        return Examined("provider", "ok", "Airflow lists nightbench as a provider")
    advice = "pip install 'nightbench[airflow]' into the environment of all of Airflow's processes"
    return Examined("provider", "missing", "Airflow does not list it", advice)


def _plugin() -> Examined:
    from airflow import plugins_manager

    loaded = plugins_manager.get_plugin_info(["name"])
    found = sum(plugin["name"] == "nightbench" for plugin in loaded)
    if found == 1:
        return Examined("pages", "ok", "the plugin is loaded")
    advice = (
        "the package has the entry point: install it in the API server's environment, and remove "
        "nightbench_plugin.py from Airflow's plugins folder"
    )
    return Examined("pages", "missing", f"the plugin is loaded {found} times", advice)


def _executor() -> Examined:
    name = str(conf.get("core", "executor"))
    root = str(locations.spool_root())
    if name.rpartition(".")[2] == "LocalExecutor" or "://" in root:
        return Examined("executor", "ok", name)
    advice = (
        f"workers and triggerers must all reach {root}: a folder that they share, or a URL such "
        "as s3://bucket/spool in [nightbench] spool"
    )
    return Examined("executor", "note", name, advice)


def _links() -> Examined:
    if named := str(conf.get("api", "base_url", fallback="")):
        return Examined("links", "ok", named)
    advice = (
        "messages and reports have no links to pages: set [api] base_url to Airflow's address in "
        "browsers"
    )
    return Examined("links", "note", "[api] base_url is not set", advice)


def _processes(site: str) -> Iterator[Examined]:
    import httpx

    url = f"{site}/api/v2/monitor/health"
    try:
        answer = httpx.get(url, timeout=10, trust_env=False).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        advice = (
            f"start `airflow api-server`; if its address is not {site}, set [api] base_url to its "
            "address"
        )
        found = f"no answer at {url} ({str(error) or type(error).__name__})"
        yield Examined("api-server", "missing", found, advice)
        return
    yield Examined("api-server", "ok", site)
    for name in ("scheduler", "dag_processor", "triggerer"):
        status = (answer.get(name) or {}).get("status")
        program = name.replace("_", "-")
        good = status == "healthy"
        advice = "" if good else f"start `airflow {program}`"
        yield Examined(program, "ok" if good else "missing", status or "not running", advice)


def _connections() -> Iterator[Examined]:
    named = dict.fromkeys(BY_ROLE.values(), "")
    clusters = {} if _is_the_packages_own() else find_clusters(locations.dags_folder())
    for path in clusters.values():
        try:
            cluster = load_cluster(path)
        except UserError as error:
            yield Examined(f"cluster {path.stem}", "missing", str(error), "nightbench validate")
            continue
        named |= {node.ssh_conn_id: f", of cluster {cluster.name}" for node in cluster.nodes}
    for conn_id, of in named.items():
        if not conn_id:
            continue
        yield _examined(f"connection {conn_id}", partial(_conn_type, conn_id, of))


def _conn_type(conn_id: str, named: str) -> str:
    return f"type {get_connection(conn_id, named).conn_type}"


def _warehouse() -> Examined:
    def ask() -> str:
        with closing(connect()) as connection, connection.cursor() as cursor:
            if not migrate.is_current(connection):
                raise UserError(
                    "tables or views of this version are missing: nightbench db migrate, with "
                    "--dsn of the role nightbench_owner"
                )
            cursor.execute("select now()")
            (now,) = cursor.fetchone() or (None,)
        apart = abs((datetime.now(UTC) - now).total_seconds())
        if apart > CLOCKS_S:
            raise UserError(f"its clock and this host's differ by {apart:.0f} s: set them")
        return "tables and views of this version; its clock agrees with this host's"

    return _examined("warehouse", ask)


def _load() -> str:
    with opened(partial(connect, WAREHOUSE)) as warehouse:
        warehouse.runs.rehearse()
    return "a load can begin; the test load was rolled back"


def _read() -> str:
    with opened(partial(connect, WAREHOUSE_READER)) as warehouse:
        warehouse.alerts.find(limit=1)
    return "a mart can be read"


def _triage() -> str:
    with closing(connect(WAREHOUSE_TRIAGE)) as connection:
        try:
            Triage(connection, "nightbench check").assign(0, "")
        except MoveRefused:
            return "alerts can be changed"
    raise UserError("alert 0 was changed: the warehouse has functions of another version")


def _spool() -> Examined:
    def touch() -> str:
        root = open_spool().root
        root.mkdir(parents=True, exist_ok=True)
        probe = root / f".check-{datetime.now(UTC):%H%M%S%f}"
        probe.write_text("")
        probe.unlink()
        return f"{root} can be written from here"

    return _examined("spool", touch)


def _project() -> Iterator[Examined]:
    folder = locations.dags_folder()
    heads = suite_heads(folder)
    said = f"{folder}: {len(heads)} suites, DAG files in {locations.dag_files()}"
    elsewhere = (
        "call `nightbench check` in the project's folder; or name the folder: [nightbench] dags in "
        "airflow.cfg, NIGHTBENCH_DAGS. nightbench init makes a project"
    )
    if _is_the_packages_own():
        found = f"{said}: these are the suites of the package, not of your project"
        yield Examined("project", "missing", found, elsewhere)
        return
    yield (
        Examined("project", "ok", said)
        if heads
        else Examined("project", "missing", said, elsewhere)
    )
    _, wrong = validated()
    for line in wrong:
        yield Examined("project", "missing", line, "correct the file, then: nightbench validate")


def _is_the_packages_own() -> bool:
    """Return whether a team's terminal is outside of a project: there is nothing to examine."""
    is_team = control_plane() is ControlPlane.TEAM
    return is_team and locations.dags_folder() == package_folder("dags")


def _dags() -> Examined:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        known, broken = _parsed()
    except SQLAlchemyError as error:
        found = f"Airflow's database cannot be read: {str(error).splitlines()[0]}"
        return Examined("DAGs", "missing", found, "run this check where `airflow dags list` works")
    heads = suite_heads(locations.dags_folder())
    wanted = {"on_demand", *(head.dag_id for head in heads if head.schedule)}
    absent = sorted(wanted - known)
    if not absent and not broken:
        return Examined("DAGs", "ok", f"Airflow has {', '.join(sorted(wanted))}")
    found = "; ".join([*([f"Airflow has no DAG {', '.join(absent)}"] if absent else []), *broken])
    advice = (
        f"name {locations.dags_folder()} as a bundle ([dag_processor] dag_bundle_config_list), or "
        "copy its DAG file to the DAGs folder; Airflow reads a new file within 5 minutes. See "
        f"{log_of('dag-processor')}"
    )
    return Examined("DAGs", "missing", found, advice)


def _parsed() -> tuple[set[str], list[str]]:
    """Return the ids of the DAGs that Airflow has, and the import errors of projects' DAG files.

    From its database, as `airflow dags list`: the API would need the login of a person.
    """
    from airflow.models.dag import DagModel
    from airflow.models.errors import ParseImportError
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        known = set(session.scalars(select(DagModel.dag_id).where(~DagModel.is_stale)))
        errors = session.execute(select(ParseImportError.filename, ParseImportError.stacktrace))
        broken = [
            f"{name}: {str(trace).strip().splitlines()[-1]}"
            for name, trace in errors
            if name and name.endswith(locations.DAG_FILE.name)
        ]
    return known, broken


def _examined(subject: str, ask: Callable[[], str]) -> Examined:
    """Return the result of an attempt; its error says what to do."""
    try:
        return Examined(subject, "ok", ask())
    except (UserError, OSError) as error:
        return Examined(subject, "missing", "no", str(error))
