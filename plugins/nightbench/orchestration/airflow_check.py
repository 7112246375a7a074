"""`nightbench check`: what Nightbench lacks in an Airflow, and how to add it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from typing import Any

from nightbench.config import find_clusters, load_cluster, locations
from nightbench.config.suite_heads import suite_heads
from nightbench.core.errors import UserError
from nightbench.orchestration.airflow_versions import OLDEST, installed, lacking
from nightbench.orchestration.connections import BY_ROLE, connect, get_connection

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
    from nightbench.orchestration.airflow_versions import conf

    yield _versions()
    yield _provider()
    yield _plugin()
    yield _executor(conf)
    yield from _processes(str(conf.get("api", "base_url", fallback="")))
    yield from _connections()
    yield _warehouse()
    yield _spool()
    yield _project()


def _versions() -> Examined:
    names = ("nightbench", "apache-airflow")
    found = {name: metadata.version(name) for name in names}
    said = ", ".join(f"{name} {version}" for name, version in found.items())
    said += f", Python {sys.version_info.major}.{sys.version_info.minor}"
    airflow = installed()
    if airflow < OLDEST:
        return Examined("versions", "missing", said, f"Airflow {OLDEST} or newer is needed")
    lacks = "; ".join(lacking(airflow))
    return Examined("versions", "note" if lacks else "ok", said, lacks)


def _provider() -> Examined:
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()  # type: ignore[no-untyped-call] # Airflow's has no types
    if "nightbench" in manager.providers:
        return Examined("provider", "ok", "Airflow lists nightbench among its providers")
    advice = "pip install 'nightbench[airflow]' into the environment of all of Airflow's processes"
    return Examined("provider", "missing", "Airflow does not list it", advice)


def _plugin() -> Examined:
    from airflow import plugins_manager

    loaded = plugins_manager.get_plugin_info(["name"])
    found = sum(plugin["name"] == "nightbench" for plugin in loaded)
    if found == 1:
        return Examined("pages", "ok", "the plugin is loaded")
    advice = (
        "its entry point is that of the package: install it in the API server's environment, and "
        "keep nightbench_plugin.py out of Airflow's plugins folder"
    )
    return Examined("pages", "missing", f"the plugin is loaded {found} times", advice)


def _executor(conf: Any) -> Examined:
    name = str(conf.get("core", "executor"))
    root = str(locations.spool_root())
    if name.rpartition(".")[2] == "LocalExecutor" or "://" in root:
        return Examined("executor", "ok", name)
    advice = (
        f"workers and triggerers must all reach {root}: a folder that they share, or a URL such "
        "as s3://bucket/spool in [nightbench] spool"
    )
    return Examined("executor", "note", name, advice)


def _processes(base_url: str) -> Iterator[Examined]:
    import httpx

    url = f"{base_url.rstrip('/')}/api/v2/monitor/health"
    try:
        answer = httpx.get(url, timeout=10, trust_env=False).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        advice = "start `airflow api-server`, or set [api] base_url to its address"
        yield Examined("api-server", "missing", f"{url}: {error}", advice)
        return
    for name in ("scheduler", "dag_processor", "triggerer"):
        status = (answer.get(name) or {}).get("status")
        program = name.replace("_", "-")
        good = status == "healthy"
        advice = "" if good else f"start `airflow {program}`"
        yield Examined(program, "ok" if good else "missing", status or "not running", advice)


def _connections() -> Iterator[Examined]:
    named = dict.fromkeys(BY_ROLE.values(), "")
    for path in find_clusters(locations.dags_folder()).values():
        try:
            cluster = load_cluster(path, home=locations.home_folder())
        except UserError as error:
            yield Examined(f"cluster {path.stem}", "missing", str(error), "nightbench validate")
            continue
        named |= {node.ssh_conn_id: f", of cluster {cluster.name}" for node in cluster.nodes}
    for conn_id, of in named.items():
        if not conn_id:
            continue
        yield _tried(f"connection {conn_id}", partial(_conn_type, conn_id, of))


def _conn_type(conn_id: str, named: str) -> str:
    return f"type {get_connection(conn_id, named).conn_type}"


def _warehouse() -> Examined:
    from nightbench.warehouse import migrate

    def ask() -> str:
        with closing(connect()) as connection, connection.cursor() as cursor:
            if not migrate.is_current(connection):
                raise UserError(
                    "it lacks tables or views of this version: nightbench db migrate, with --dsn "
                    "of the role nightbench_owner"
                )
            cursor.execute("select now()")
            (now,) = cursor.fetchone() or (None,)
        apart = abs((datetime.now(UTC) - now).total_seconds())
        if apart > CLOCKS_S:
            raise UserError(f"its clock and this machine's differ by {apart:.0f} s: set them")
        return "tables and views of this version; its clock agrees"

    return _tried("warehouse", ask)


def _spool() -> Examined:
    from nightbench.spool import open_spool

    def touch() -> str:
        root = open_spool().root
        root.mkdir(parents=True, exist_ok=True)
        probe = root / f".check-{datetime.now(UTC):%H%M%S%f}"
        probe.write_text("")
        probe.unlink()
        return f"{root} can be written from here"

    return _tried("spool", touch)


def _project() -> Examined:
    folder = locations.dags_folder()
    heads = suite_heads(folder)
    said = f"{folder}: {len(heads)} suites, DAG files in {locations.dag_files()}"
    if heads:
        return Examined("project", "ok", said)
    return Examined(
        "project",
        "missing",
        said,
        "nightbench init; or name its folder: [nightbench] dags in airflow.cfg, NIGHTBENCH_DAGS",
    )


def _tried(subject: str, ask: Callable[[], str]) -> Examined:
    """What an attempt answers; its error says what to do."""
    try:
        return Examined(subject, "ok", ask())
    except (UserError, OSError) as error:
        return Examined(subject, "missing", "no", str(error))
