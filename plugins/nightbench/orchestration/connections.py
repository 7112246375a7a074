"""Airflow Connections as what our packages take: SSH targets, connection strings, URLs.

`ssh_targets` works in a task and from a terminal, `ssh_targets_async` in a trigger. Outside of
Airflow's processes Connections come from `AIRFLOW_CONN_*`, from the configured secrets backend,
from `<home>/connections.json`, and from Airflow's database where that can be reached.

Nothing here is ever logged: a Connection holds keys and passwords.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nightbench.errors import UserError
from nightbench.model import Cluster, Node
from nightbench.orchestration.places import home_folder

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from nightbench.gang import SshTarget

WAREHOUSE = "nightbench_warehouse"
"""Connection that loads; its role is a member of nightbench_loader."""
WAREHOUSE_READER = "nightbench_warehouse_reader"
"""Connection that the results page reads through."""

MADE_BY_UP = (WAREHOUSE, WAREHOUSE_READER, "nightbench_local")
"""Connections of the control plane that runs on one machine."""

SSH_PORT = 22
KEY_TYPES = ("ssh-", "ecdsa-", "sk-")

log = logging.getLogger(__name__)


# --- SSH ----------------------------------------------------------------------------------


def ssh_targets(cluster: Cluster) -> dict[str, SshTarget]:
    """How each node of a cluster is reached, by the node's name.

    Raises:
        UserError: a Connection is missing, is not of type ssh, or no host key is known.
    """
    named = _named_by(cluster)
    known = {conn_id: get_connection(conn_id, named) for conn_id in _conn_ids(cluster.nodes)}
    extras = {conn_id: connection.extra_dejson for conn_id, connection in known.items()}
    return {n.name: _target(cluster, n, known[n.ssh_conn_id], extras) for n in cluster.nodes}


async def ssh_targets_async(cluster: Cluster) -> dict[str, SshTarget]:
    """`ssh_targets` for an event loop, as a triggerer's is: nothing in it may block.

    Raises:
        UserError: as `ssh_targets` does.
    """
    from airflow.providers.common.compat.connection import get_async_connection

    known, extras, named = {}, {}, _named_by(cluster)
    for conn_id in _conn_ids(cluster.nodes):
        try:
            known[conn_id] = await get_async_connection(conn_id)
        except _not_found() as error:
            raise _missing(conn_id, named) from error
        # The plain property masks secrets by a blocking call, which a trigger must not make.
        extras[conn_id] = json.loads(known[conn_id].extra or "{}")
    return {n.name: _target(cluster, n, known[n.ssh_conn_id], extras) for n in cluster.nodes}


def _named_by(cluster: Cluster) -> str:
    return f", ssh_conn_id in the cluster {cluster.name}"


def _conn_ids(nodes: Iterable[Node]) -> list[str]:
    return sorted({node.ssh_conn_id for node in nodes})


def _target(
    cluster: Cluster,
    node: Node,
    connection: Connection,
    extras: Mapping[str, Mapping[str, Any]],
) -> SshTarget:
    from nightbench.gang import SshTarget

    conn_id, extra = node.ssh_conn_id, extras[node.ssh_conn_id]
    if connection.conn_type and connection.conn_type.lower() not in ("ssh", "sftp"):
        raise UserError(
            f"connection {conn_id}: found type {connection.conn_type!r}; expected ssh, for node "
            f"{node.name} of cluster {cluster.name}"
        )
    port = node.port or connection.port or SSH_PORT
    keys = [str(extra["private_key"])] if extra.get("private_key") else []
    if extra.get("key_file"):
        keys.append(str(Path(str(extra["key_file"])).expanduser()))
    return SshTarget(
        node=node.name,
        host=node.host,
        port=port,
        user=connection.login or None,
        known_hosts=_known_hosts(cluster, node, extra, port),
        client_keys=tuple(keys),
        passphrase=extra.get("private_key_passphrase") or extra.get("passphrase") or None,
        password=connection.password or None,
    )


def _known_hosts(cluster: Cluster, node: Node, extra: Mapping[str, Any], port: int) -> str | bytes:
    """The host keys of a node: the cluster's file, then the Connection's, then the user's own.

    `no_host_key_check` of the Connection is not honoured: measured numbers and a user's keys go
    to a host that has proved who it is, or nowhere.
    """
    if cluster.known_hosts:
        return _file(cluster.known_hosts, f"cluster {cluster.name}: known_hosts")
    conn_id = node.ssh_conn_id
    written = str(extra.get("known_hosts") or "").strip()
    if written and written.lower() != "none":
        if any(kind in written for kind in (" ssh-", " ecdsa-", " sk-")):
            return written.encode()
        return _file(written, f"connection {conn_id}: known_hosts")
    host_key = str(extra.get("host_key") or "").strip()
    if host_key:
        words = host_key.split()
        if len(words) < 2 or not words[0].startswith(KEY_TYPES):
            raise UserError(
                f"connection {conn_id}: host_key: found one that begins {words[0][:12]!r}; "
                "expected type and key, as in `ssh-ed25519 AAAA…`"
            )
        names = ",".join(dict.fromkeys([node.host, f"[{node.host}]:{port}"]))
        return f"{names} {words[0]} {words[1]}\n".encode()
    own = Path("~/.ssh/known_hosts").expanduser()
    if own.is_file():
        return str(own)
    raise UserError(
        f"node {node.name} ({node.host}:{port}) of cluster {cluster.name}: no host key is known. "
        f"Print it with `ssh-keyscan -p {port} {node.host}`, compare it with the host's console, "
        f"then put it into a file that known_hosts of the cluster's YAML names, or as host_key "
        f"(`ssh-ed25519 AAAA…`) into the extra of connection {conn_id}"
    )


def _file(written: str, what: str) -> str:
    path = Path(written).expanduser()
    if not path.is_file():
        raise UserError(
            f"{what}: found {written!r}, which is not there; expected a file as ssh-keyscan "
            "writes it"
        )
    return str(path)


# --- the warehouse ------------------------------------------------------------------------


def warehouse_dsn(conn_id: str = WAREHOUSE) -> dict[str, Any]:
    """Parameters for `nightbench.warehouse.connect`: host, port, dbname, user, password, ...

    Raises:
        UserError: the Connection is missing or is none of PostgreSQL's.
    """
    return _dsn(conn_id, get_connection(conn_id))


def _dsn(conn_id: str, connection: Connection) -> dict[str, Any]:
    if (connection.conn_type or "postgres").lower() not in ("postgres", "postgresql"):
        raise UserError(
            f"connection {conn_id}: found type {connection.conn_type!r}; expected postgres"
        )
    parts = {
        "host": connection.host,
        "port": connection.port,
        "dbname": connection.schema,
        "user": connection.login,
        "password": connection.password,
    }
    passed = ("sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "options")
    extra = connection.extra_dejson
    parts |= {name: extra.get(name) for name in passed}
    return {name: value for name, value in parts.items() if value not in (None, "")}


# --- alert channels -----------------------------------------------------------------------


def channel_url(conn_id: str) -> str:
    """The Apprise URL in a Connection; several of them are joined as Apprise reads them.

    The Connection is one of Airflow's type `apprise`: its extra holds `config`, an object (or a
    list of them) with `path`; a host that is a URL does as well.

    Raises:
        UserError: the Connection is missing or holds no URL.
    """
    connection = get_connection(conn_id)
    config = connection.extra_dejson.get("config")
    if isinstance(config, str):
        config = json.loads(config)
    entries = config if isinstance(config, list) else [config]
    paths = [str(entry["path"]) for entry in entries if entry and entry.get("path")]
    if not paths and connection.host and "://" in connection.host:
        paths = [connection.host]
    if not paths:
        raise UserError(
            f"connection {conn_id}: no channel in it; expected type apprise with an extra such as "
            '{"config": {"path": "slack://…"}}'
        )
    return ", ".join(paths)


# --- where Connections come from ----------------------------------------------------------


def get_connection(conn_id: str, named: str = "") -> Connection:
    """A Connection by its id.

    Args:
        conn_id: the id.
        named: who names it, for the message where nobody knows it.

    Raises:
        UserError: nobody knows it.
    """
    from airflow.sdk import BaseHook

    try:
        return BaseHook.get_connection(conn_id)
    except _not_found():
        found = None if _in_task() else _from_home(conn_id) or _from_database(conn_id)
        if found is None:
            raise _missing(conn_id, named) from None
        return found


def _not_found() -> tuple[type[BaseException], ...]:
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    return (AirflowNotFoundException, AirflowRuntimeError)


def _missing(conn_id: str, named: str = "") -> UserError:
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    made = "`nightbench up` makes it. " if conn_id in MADE_BY_UP else ""
    return UserError(
        f"connection {conn_id}{named}: no such Airflow Connection. {made}Add it in the UI (Admin, "
        f"Connections), with `nightbench airflow connections add {quote(conn_id)} …`, or as "
        f"{variable} in the environment of every Airflow process"
    )


def _in_task() -> bool:
    """Whether this process is a task's or a trigger's: those ask Airflow's API and nobody else."""
    from airflow.sdk.execution_time import task_runner

    return getattr(task_runner, "SUPERVISOR_COMMS", None) is not None


def _from_home(conn_id: str) -> Connection | None:
    """From the file that `nightbench up` writes, for terminals without Airflow's settings."""
    path = home_folder() / "connections.json"
    if not path.is_file():
        return None
    from airflow.sdk import Connection

    entry = json.loads(path.read_text(encoding="utf-8")).get(conn_id)
    if entry is None:
        return None
    extra = entry.get("extra")
    fields = {**entry, "extra": json.dumps(extra) if isinstance(extra, dict) else extra}
    return Connection(conn_id=conn_id, **fields)


def _from_database(conn_id: str) -> Connection | None:
    """From Airflow's database, where this terminal is told how to reach it."""
    if not os.environ.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        return None
    from airflow.secrets.metastore import MetastoreBackend
    from sqlalchemy.exc import SQLAlchemyError

    try:
        stored = MetastoreBackend().get_connection(conn_id)
    except SQLAlchemyError as error:
        log.warning("Airflow's database cannot be asked for %s: %s", conn_id, type(error).__name__)
        return None
    if stored is None:
        return None
    from airflow.sdk import Connection

    return Connection(
        conn_id=conn_id,
        conn_type=stored.conn_type,
        host=stored.host,
        port=stored.port,
        login=stored.login,
        password=stored.password,
        schema=stored.schema,
        extra=stored.extra,
    )
