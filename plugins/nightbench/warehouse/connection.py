"""Connections to the warehouse, and database errors put into words that a user can act on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg2
import psycopg2.errors
import psycopg2.extensions

from nightbench.config.control_plane import how_to_start
from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable

Connection = psycopg2.extensions.connection
Connect = Callable[[], Connection]
"""Opens a connection; the caller closes it."""

CONNECT_TIMEOUT_S = 10
STATEMENT_TIMEOUT_S = 120.0
LOCK_TIMEOUT_S = 30.0

_OTHER_SCHEMA = (
    psycopg2.errors.UndefinedTable,
    psycopg2.errors.UndefinedColumn,
    psycopg2.errors.UndefinedFunction,
    psycopg2.errors.InvalidSchemaName,
)
"""Errors of a database that is older than the code."""


def connect(
    target: str | Mapping[str, Any],
    *,
    application_name: str = "nightbench",
    statement_timeout_s: float = STATEMENT_TIMEOUT_S,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
    role: str | None = None,
) -> Connection:
    """Open a connection with autocommit: reads leave no transaction open.

    The target is a libpq connection string or URI, or its parts by keyword. `role` is taken on
    after logging in.

    Raises:
        WarehouseUnavailable: no answer, or no permission to log in.
        UserError: `target` is not a connection string.
    """
    try:
        given = psycopg2.extensions.parse_dsn(target) if isinstance(target, str) else dict(target)
    except psycopg2.ProgrammingError as error:
        raise UserError(
            "The warehouse's connection string cannot be read "
            f"({_first_line(error, ())}). Expected: host=... port=... dbname=... user=..., or "
            "postgresql://user@host:port/warehouse"
        ) from None
    parameters = {"connect_timeout": CONNECT_TIMEOUT_S, **given}
    parameters["application_name"] = application_name
    options = [
        str(given.get("options", "")),
        f"-c statement_timeout={round(statement_timeout_s * 1000)}",
        f"-c lock_timeout={round(lock_timeout_s * 1000)}",
        "-c timezone=UTC",
        *([f"-c role={role}"] if role else []),
    ]
    parameters["options"] = " ".join(filter(None, options))
    try:
        connection: Connection = psycopg2.connect(**parameters)
    except psycopg2.OperationalError as error:
        raise WarehouseUnavailable(_unreachable(error, parameters)) from None
    connection.autocommit = True
    return connection


@contextmanager
def reported(doing: str) -> Iterator[None]:
    """Turn database errors into user errors that say what was being done.

    `doing` says what the statements are for, as in "load run demo-1".

    Raises:
        WarehouseUnavailable: the server went away, or cancelled the statement.
        WarehouseRefused: a constraint, a missing table or a missing right.
    """
    try:
        yield
    except (psycopg2.errors.QueryCanceled, psycopg2.errors.LockNotAvailable) as error:
        raise WarehouseUnavailable(
            f"Cannot {doing}: PostgreSQL gave up after its time limit ({_first_line(error)}). "
            "Look in pg_stat_activity for the blocking session, then try again."
        ) from error
    except psycopg2.errors.InsufficientPrivilege as error:
        raise WarehouseRefused(
            f"Cannot {doing}: {_first_line(error)}. Expected a role with the rights of "
            "nightbench_loader (writing) or nightbench_reader (reading)."
        ) from error
    except _OTHER_SCHEMA as error:
        raise WarehouseRefused(
            f"Cannot {doing}: {_first_line(error)}. The migrations of this code have not been "
            "applied to this database; `nightbench db migrate` applies them, and so does "
            "`nightbench up`."
        ) from error
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        raise WarehouseUnavailable(
            f"Cannot {doing}: the connection to PostgreSQL was lost ({_first_line(error)}). "
            "Nothing was stored; try again when the server answers."
        ) from error
    except (psycopg2.IntegrityError, psycopg2.DataError) as error:
        found = error.diag
        detail = f" {found.message_detail}" if found.message_detail else ""
        raise WarehouseRefused(
            f"Cannot {doing}: the warehouse refused a row of {found.table_name or 'a table'}: "
            f"{_first_line(error)}.{detail} Nothing was stored."
        ) from error


def place(parameters: Mapping[str, Any]) -> str:
    """Where a connection goes, without its password."""
    host = parameters.get("host", "localhost")
    name = parameters.get("dbname", parameters.get("database", ""))
    return f"PostgreSQL at {host}:{parameters.get('port', 5432)}, database {name}"


def _unreachable(error: psycopg2.OperationalError, parameters: Mapping[str, Any]) -> str:
    reason = _first_line(error, (str(parameters.get("password") or ""),))
    if "password authentication failed" in reason or "no password supplied" in reason:
        hint = f"Check the password of {parameters.get('user', 'the user')}."
    elif "does not exist" in reason:
        hint = "Database and roles are made by `nightbench up`; elsewhere by an administrator."
    elif "permission denied to set role" in reason:
        hint = "Migrations are applied as nightbench_owner, or by one of its members."
    else:
        hint = f"{how_to_start()}, or correct host and port; results wait in the spool."
    return f"{place(parameters)}: {reason}. {hint}"


def _first_line(error: BaseException, secrets: tuple[str, ...] = ()) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # libpq puts a hint of its own on the lines after the first.
    reason = lines[0].rstrip(".") if lines else type(error).__name__
    for secret in filter(None, secrets):
        reason = reason.replace(secret, "***")
    return reason
