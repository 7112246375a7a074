"""Airflow Connections as Apprise URLs: the ones that Airflow's own notifiers use.

Nothing here is ever logged: a Connection holds tokens and passwords.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from nightbench.core.errors import UserError
from nightbench.orchestration.lookup import get_connection

if TYPE_CHECKING:
    from airflow.sdk import Connection

SLACK = "https://hooks.slack.com/services"
_EXPECTED = (
    'expected type apprise with an extra such as {"config": {"path": "slack://…"}}, type '
    "slackwebhook with its token as password, or type smtp with from_email and to_email in its "
    "extra"
)


def channel_url(conn_id: str) -> str:
    """The Apprise URL in a Connection; several of them are joined as Apprise reads them.

    Args:
        conn_id: of type `apprise` (extra: `config`, an object or a list of them with `path`; a host
            that is a URL does as well), `slackwebhook` or `smtp` (extra: `from_email`, `to_email`).

    Raises:
        UserError: the Connection is missing or holds no channel.
    """
    connection = get_connection(conn_id)
    kind = (connection.conn_type or "").lower()
    if kind == "slackwebhook":
        return _slack(conn_id, connection)
    if kind == "smtp":
        return _mail(conn_id, connection)
    config = connection.extra_dejson.get("config")
    if isinstance(config, str):
        config = json.loads(config)
    entries = config if isinstance(config, list) else [config]
    paths = [str(entry["path"]) for entry in entries if entry and entry.get("path")]
    if not paths and connection.host and "://" in connection.host:
        paths = [connection.host]
    if not paths:
        raise UserError(f"connection {conn_id}: no channel in it; {_EXPECTED}")
    return ", ".join(paths)


def _slack(conn_id: str, connection: Connection) -> str:
    """As Airflow's SlackWebhookHook reads it: the token is the password, or a whole URL is."""
    token = (connection.password or "").strip().strip("/")
    if not token:
        raise UserError(f"connection {conn_id}: no token in its password; {_EXPECTED}")
    return token if token.startswith("https://") else f"{SLACK}/{token}"


def _mail(conn_id: str, connection: Connection) -> str:
    """As Airflow's SmtpHook reads it, with the recipients in `to_email`, which it leaves out."""
    extra = connection.extra_dejson
    sender, to = extra.get("from_email"), extra.get("to_email")
    if isinstance(to, list):
        to = ",".join(map(str, to))
    if not (connection.host and sender and to):
        raise UserError(f"connection {conn_id}: found no host, from_email or to_email; {_EXPECTED}")
    plain = _is_on(extra.get("disable_ssl"))
    mode = "ssl" if not plain else "insecure" if _is_on(extra.get("disable_tls")) else "starttls"
    login = ""
    if connection.login:
        words = [connection.login, *([connection.password] if connection.password else [])]
        login = ":".join(quote(word, safe="") for word in words) + "@"
    port = f":{connection.port}" if connection.port else ""
    asked = urlencode({"from": sender, "to": to, "mode": mode})
    scheme = "mailto" if mode == "insecure" else "mailtos"
    return f"{scheme}://{login}{connection.host}{port}?{asked}"


def _is_on(value: object) -> bool:
    return str(value).lower() in ("true", "1")
