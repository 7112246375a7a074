"""Airflow Connections by their ids: the warehouse, and the channels of alerts.

Airflow resolves them: in tasks and triggers by its API server, elsewhere by `AIRFLOW_CONN_*`, the
configured secrets backend and its database.

Nothing here is ever logged: a Connection holds keys, tokens and passwords.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from nightbench.config.control_plane import ControlPlane, airflow_command, control_plane
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.warehouse.connection import Connection as WarehouseConnection

WAREHOUSE = "nightbench_warehouse"
"""Connection that loads; its role is a member of nightbench_loader."""
WAREHOUSE_READER = "nightbench_warehouse_reader"
"""Connection that the results page reads through."""
WAREHOUSE_TRIAGE = "nightbench_warehouse_triage"
"""Connection through which people change alerts on the page; a member of nightbench_triage."""
BY_ROLE = {
    "nightbench_loader": WAREHOUSE,
    "nightbench_reader": WAREHOUSE_READER,
    "nightbench_triage": WAREHOUSE_TRIAGE,
}
MADE_BY_UP = (WAREHOUSE, WAREHOUSE_READER, WAREHOUSE_TRIAGE, "nightbench_local")
"""Connections of the control plane that runs on one machine."""

_FIELDS = ("conn_type", "host", "port", "schema", "login", "password")
"""Fields of a Connection, in addition to its extra."""
SLACK = "https://hooks.slack.com/services"
_CHANNELS = (
    'expected type apprise with an extra such as {"config": {"path": "slack://…"}}, type '
    "slackwebhook with its token as password, or type smtp with from_email and to_email in its "
    "extra"
)


@dataclass(frozen=True)
class PlainConnection:
    """A Connection, with the fields of Airflow's class that are read here."""

    conn_type: str | None
    host: str | None
    port: int | None
    schema: str | None
    login: str | None
    password: str | None = field(repr=False)
    extra: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, known: Any, extra: Any) -> PlainConnection:
        """A Connection of one of Airflow's classes, with its extra if that is an object."""
        read = {name: getattr(known, name) for name in _FIELDS}
        return cls(**read, extra=extra if isinstance(extra, dict) else {})


def get_connection(conn_id: str, named: str = "") -> PlainConnection:
    """A Connection by its id; `named` says what names it, for the message if it is missing.

    Raises:
        UserError: there is none.
    """
    from airflow.sdk import BaseHook

    try:
        known = BaseHook.get_connection(conn_id)
        # Airflow's own property masks secrets in logs.
        return PlainConnection.of(known, known.extra_dejson)
    except not_found():
        raise missing(conn_id, named) from None


def not_found() -> tuple[type[BaseException], ...]:
    """Airflow's exception for a missing Connection."""
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    return (AirflowNotFoundException, AirflowRuntimeError)


def missing(conn_id: str, named: str) -> UserError:
    """The error for a Connection that is missing; `named` says what names it."""
    is_team = control_plane() is ControlPlane.TEAM
    made = "`nightbench up` makes it. " if conn_id in MADE_BY_UP and not is_team else ""
    return UserError(
        f"connection {conn_id}{named}: no such Airflow Connection, or Airflow cannot read it. "
        f"{made}Add it in the UI (Admin, "
        f"Connections), with `{airflow_command()} connections add {quote(conn_id)} …`, or as "
        f"AIRFLOW_CONN_{conn_id.upper()} in the environment of every Airflow process"
    )


# --- the warehouse ------------------------------------------------------------------------


def connect(conn_id: str = WAREHOUSE) -> WarehouseConnection:
    """A connection to the warehouse.

    Raises:
        WarehouseUnavailable: it is away.
        UserError: the Connection is missing or is none of PostgreSQL's.
    """
    from nightbench.warehouse import connect as open_connection

    return open_connection(warehouse_dsn(conn_id))


def warehouse_dsn(conn_id: str = WAREHOUSE) -> dict[str, Any]:
    """Parameters for `nightbench.warehouse.connect`: host, port, dbname, user, password, ...

    Raises:
        UserError: the Connection is missing or is none of PostgreSQL's.
    """
    connection = get_connection(conn_id)
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
    parts |= {name: connection.extra.get(name) for name in passed}
    return {name: value for name, value in parts.items() if value not in (None, "")}


# --- channels of alerts -------------------------------------------------------------------


def channel_url(conn_id: str) -> str:
    """The Apprise URL in a Connection; several of them are joined as Apprise reads them.

    The Connections are those that Airflow's own notifiers use. The Connection's type is `apprise`
    (extra: `config`, an object or a list of them with `path`; a host that is a URL does as well),
    `slackwebhook` or `smtp` (extra: `from_email`, `to_email`).

    Raises:
        UserError: the Connection is missing or holds no channel.
    """
    connection = get_connection(conn_id)
    kind = (connection.conn_type or "").lower()
    if kind == "slackwebhook":
        return _slack(conn_id, connection)
    if kind == "smtp":
        return _mail(conn_id, connection)
    config = connection.extra.get("config")
    if isinstance(config, str):
        config = json.loads(config)
    entries = config if isinstance(config, list) else [config]
    paths = [str(entry["path"]) for entry in entries if entry and entry.get("path")]
    if not paths and connection.host and "://" in connection.host:
        paths = [connection.host]
    if not paths:
        raise UserError(f"connection {conn_id}: found no channel in it; {_CHANNELS}")
    return ", ".join(paths)


def _slack(conn_id: str, connection: PlainConnection) -> str:
    """As Airflow's SlackWebhookHook reads it: the password is the token or the whole URL."""
    token = (connection.password or "").strip().strip("/")
    if not token:
        raise UserError(f"connection {conn_id}: found no token in its password; {_CHANNELS}")
    return token if token.startswith("https://") else f"{SLACK}/{token}"


def _mail(conn_id: str, connection: PlainConnection) -> str:
    """As Airflow's SmtpHook reads it, plus the recipients in `to_email`."""
    extra = connection.extra
    sender, to = extra.get("from_email"), extra.get("to_email")
    if isinstance(to, list):
        to = ",".join(map(str, to))
    if not (connection.host and sender and to):
        raise UserError(f"connection {conn_id}: found no host, from_email or to_email; {_CHANNELS}")
    plain = is_on(extra.get("disable_ssl"))
    mode = "ssl" if not plain else "insecure" if is_on(extra.get("disable_tls")) else "starttls"
    login = ""
    if connection.login:
        words = [connection.login, *([connection.password] if connection.password else [])]
        login = ":".join(quote(word, safe="") for word in words) + "@"
    port = f":{connection.port}" if connection.port else ""
    query = urlencode({"from": sender, "to": to, "mode": mode})
    scheme = "mailto" if mode == "insecure" else "mailtos"
    return f"{scheme}://{login}{connection.host}{port}?{query}"


def is_on(value: object) -> bool:
    """Whether a switch in the extra of a Connection is on."""
    return str(value).lower() in ("true", "1")
