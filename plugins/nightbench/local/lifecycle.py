"""Start and stop the control plane of one machine: `nightbench up` and `nightbench down`.

`up` starts the services that do not run and leaves the others alone. Services whose start takes
seconds start at the same time: PostgreSQL and the local nodes, then Airflow's four processes.
"""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec

from nightbench.config.control_plane import ONLY_LOCAL, ControlPlane, control_plane, how_to_install
from nightbench.config.locations import dags_folder
from nightbench.core.atomic_files import replaced_file
from nightbench.core.errors import UserError
from nightbench.local import airflow, logfiles, postgres, processes
from nightbench.local.deployment import CLUSTER, NODES, SERVICES, WATCHDOGS, Stack, load, unhealthy
from nightbench.local.home import Home, load_or_create_secrets, uv_env, venv_bin
from nightbench.local.ports import choose_ports, is_free
from nightbench.local.resources import FULL_DISK_BYTES, free_bytes, require_disk

READY_TIMEOUT_S = 240.0
STUCK_S = 45.0
"""A service that ran before `up` and has reported no heartbeat for so long is restarted."""

LOCK_WAIT_S = 120.0


class HomeLocked(UserError):
    """Another `up` or `down` works on this home."""


def up(
    home: Home,
    wait_s: float = LOCK_WAIT_S,
    backup: bool = True,
    hung: Collection[str] = (),
    on_nodes: Callable[[], None] | None = None,
) -> Iterator[str]:
    """Start the services that do not run, wait until all answer; yield lines of progress.

    `wait_s` is how long another `up` or `down`, such as a watchdog's, is waited for. Services that
    are `hung` are not waited for, but restarted if they are unhealthy. `on_nodes` is called once
    the local nodes answer, long before Airflow does.

    Raises:
        HomeLocked: it has not ended by then.
        UserError: a service failed; the message holds the end of its log.
    """
    _require_extra()
    home.make()
    with ExitStack() as reserved:
        reserved.enter_context(_full_disk_named(home))
        reserved.enter_context(_locked(home, wait_s))
        if not home.postgres.is_dir():
            require_disk(home)
            reserved.enter_context(_nothing_left_of_a_first_start(home))
        stack = _prepare(home, reserved)
        if all(stack.running(name) for name in SERVICES) and not unhealthy(stack):
            yield from migrate_warehouse(stack, backup)  # the code may be newer than what runs
            if on_nodes:
                on_nodes()
            yield f"everything runs: {airflow.base_url(stack.ports)}"
            return
        removed = logfiles.expire(home.logs)
        if removed:
            yield f"removed {removed} old log files"
        yield from _start_base(stack, backup, on_nodes)
        lacking = {name for name in airflow.SERVICES if not stack.running(name)}
        yield from _start_airflow(stack, lacking)
        yield from _await_airflow(stack, lacking, hung)
        yield from start_watchdogs(home)


def _require_extra() -> None:
    """Refuse to start, before anything is written, without the packages of the extra `local`."""
    missing = [name for name in ONLY_LOCAL if find_spec(name) is None]
    if missing:
        raise UserError(
            f"nightbench up: found no {' and no '.join(missing)}; expected the extra `local` in "
            f"{sys.prefix}: {how_to_install('local')}. In a team's own Airflow nothing is "
            "started by `up`: docs/own-airflow.md"
        )


@contextmanager
def _nothing_left_of_a_first_start(home: Home) -> Iterator[None]:
    """If a first `up` fails, end and remove what it made, so that no command uses it.

    Logs and the nodes' downloads stay.
    """
    try:
        yield
    except (OSError, UserError):
        for service in reversed(SERVICES):
            processes.stop(home.run / f"{service}.pid")
        processes.end_leftovers(home.root, home.postgres)
        shutil.rmtree(home.postgres, ignore_errors=True)
        made = (home.secrets_file, home.ports_file, home.connections_file, home.pgpass_file)
        for path in made:
            path.unlink(missing_ok=True)
        raise


def _prepare(home: Home, reserved: ExitStack) -> Stack:
    # All of Airflow's processes know the API server's port: it stays while one of them runs.
    users = {"postgres": ("postgres",), "cluster": (CLUSTER,), "api": airflow.SERVICES}
    held = frozenset(
        port
        for port, services in users.items()
        if any(processes.read(home.run / f"{service}.pid") for service in services)
    )
    ports = choose_ports(home, reserved, held)
    if not processes.read(home.run / "api-server.pid") and not is_free(ports.api, ("127.0.0.1",)):
        raise UserError(
            f"Port {ports.api} of Airflow's API server is used by another program, and Airflow's "
            "other processes know this port. Run: nightbench down; nightbench up"
        )
    return Stack(home, ports, load_or_create_secrets(home))


def _start_base(stack: Stack, backup: bool, on_nodes: Callable[[], None] | None) -> Iterator[str]:
    home, ports, secrets = stack.home, stack.ports, stack.secrets
    if not stack.running(CLUSTER):
        (home.cluster / "server.json").unlink(missing_ok=True)
        _start_cluster(stack)
    if not stack.running("postgres"):
        if postgres.initialise(home, secrets):
            yield f"PostgreSQL: new data directory {home.postgres}"
        postgres.start(home, ports.postgres)
    _await_cluster(stack)
    yield f"local cluster: {NODES} nodes answer SSH on port {ports.cluster}"
    if on_nodes:
        on_nodes()
    postgres.wait_ready(home, ports, secrets)
    made = postgres.provide(home, ports, secrets)
    new = f" (made: {', '.join(made)})" if made else ""
    yield f"PostgreSQL answers on 127.0.0.1:{ports.postgres}{new}"
    yield from migrate_warehouse(stack, backup)
    if airflow.migrate(home, stack.airflow_env(), fresh="database airflow" in made):
        yield "Airflow: metadata database migrated"


def migrate_warehouse(
    stack: Stack, backup: bool, database: str = postgres.WAREHOUSE
) -> Iterator[str]:
    """Apply the warehouse's migrations; yield what was applied, and where the archive is.

    With `backup` it is archived first, if it holds tables that a migration may change.

    Raises:
        UserError: it cannot be archived, or a migration failed; the warehouse is as it was.
    """
    # Imported here: `down` and `status` need neither the module nor its libraries.
    from nightbench.local.backup import OWNER, back_up
    from nightbench.warehouse import migrate

    # A migration may grant to a role that an earlier version did not make.
    postgres.provide(stack.home, stack.ports, stack.secrets)
    owner = postgres.dsn(stack.ports, stack.secrets, OWNER, database)
    pending = migrate.pending(owner) if backup else []
    if pending:
        # Named after the migration: a watchdog that tries again replaces the file.
        file = stack.home.backups / f"warehouse-before-{pending[0]}.backup"
        yield f"warehouse: archiving it as {file} before it changes"
        try:
            with replaced_file(file) as new:
                back_up(stack, new, database)
        except UserError as error:
            raise UserError(
                f"{error}\nThe warehouse was not changed: {', '.join(pending)} would change it, "
                "which requires an archive first. To continue without an archive, use "
                "--no-backup of `nightbench up` and `migrate`"
            ) from error
    applied = migrate.apply(owner)
    if pending:
        # After a restore, the next upgrade must not replace this archive.
        kept = file.with_stem(f"{file.stem}-{datetime.now(UTC):%Y%m%dT%H%M%S}")
        file.rename(kept)
        yield f"warehouse: the archive is {kept}"
    if applied:
        yield "warehouse: applied " + ", ".join(applied)


def _start_cluster(stack: Stack) -> None:
    words = ("--home", str(stack.home.root), "--nodes", str(NODES))
    env = {**os.environ, **uv_env()}
    env.pop("PYTHONPATH", None)
    command = [
        *(str(venv_bin() / "python"), "-m", "nightbench.local.local_cluster"),
        *(*words, "--port", str(stack.ports.cluster)),
    ]
    processes.start(stack.home, CLUSTER, command, env=env, cwd=stack.home.cluster)


def _start_airflow(stack: Stack, names: set[str]) -> Iterator[str]:
    airflow.write_files(stack.home, stack.ports, stack.secrets)
    env = stack.airflow_env()
    started = [name for name in airflow.SERVICES if name in names]
    for name in started:
        airflow.start(stack.home, env, name)
    if started:
        yield f"Airflow: starting {', '.join(started)}"


def _await_airflow(stack: Stack, started: set[str], hung: Collection[str]) -> Iterator[str]:
    """Wait until all of Airflow is healthy; `started` holds what this `up` has started."""
    began = shown = time.monotonic()
    env = stack.airflow_env()
    while waiting := unhealthy(stack):
        for name in airflow.SERVICES:
            if stack.running(name):
                continue
            if name in started:
                raise UserError(f"Airflow's {name} ended. {_log_of(stack, name)}")
            # The service ran when `up` began. It ended because the database did not answer.
            airflow.start(stack.home, env, name)
            started.add(name)
            yield f"Airflow: {name} had ended, starting it again"
        now = time.monotonic()
        # A scheduler that lost its database can wait for its own worker without end. The
        # state of the others is known only once the API server answers.
        for name in ["api-server"] if "api-server" in waiting else waiting:
            if name not in started and (name in hung or now - began > STUCK_S):
                processes.stop(stack.pid_file(name))
                airflow.start(stack.home, env, name)
                started.add(name)
                yield f"Airflow: {name} reports no heartbeat, restarting it"
        if now - began > READY_TIMEOUT_S:
            raise UserError(
                f"Airflow was not ready after {now - began:.0f} s. {_log_of(stack, waiting[0])}"
            )
        if now - shown > 10:
            shown = now
            yield f"Airflow: waiting for {', '.join(waiting)} ({now - began:.0f} s)"
        time.sleep(0.5)
    yield f"Airflow is ready at {airflow.base_url(stack.ports)} ({time.monotonic() - began:.0f} s)"


def down(home: Home) -> Iterator[str]:
    """End every service and every process that it started; yield lines of progress.

    Raises:
        UserError: a process could not be ended.
    """
    if not home.root.is_dir():
        yield "nothing was started here yet"
        return
    home.make()
    watchdogs = stop_watchdogs(home)  # first: they would restart what is ended here
    with _locked(home, LOCK_WAIT_S):
        watchdogs += stop_watchdogs(home)  # started by an `up` that has just ended
        # The API server last: the others report to it how their tasks ended.
        first = [name for name in airflow.SERVICES if name != "api-server"]
        with ThreadPoolExecutor(len(first)) as pool:
            outcomes = list(pool.map(lambda n: processes.stop(home.run / f"{n}.pid"), first))
        stopped = [name for name, ran in zip(first, outcomes, strict=True) if ran]
        if processes.stop(home.run / "api-server.pid"):
            stopped.append("api-server")
        if processes.stop(home.run / f"{CLUSTER}.pid"):
            stopped.append(CLUSTER)
        if processes.stop(home.run / "postgres.pid", first=postgres.STOP_SIGNAL, patience_s=30.0):
            stopped.append("postgres")
        ended = processes.end_leftovers(home.root, home.postgres)
        stopped += watchdogs
        yield f"stopped {', '.join(stopped)}" if stopped else "nothing was running"
        if ended:
            yield f"ended {ended} remaining processes"
        if left := processes.leftovers(home.root, home.postgres):
            raise UserError(f"These processes could not be ended: {sorted(left)}")


def start_watchdogs(home: Home) -> Iterator[str]:
    """Start the watchdogs that do not run; yield a line if there were any."""
    missing = [name for name in WATCHDOGS if processes.read(home.run / f"{name}.pid") is None]
    # Watchdogs run in another folder: their project is the folder in which `up` was called.
    env = {**os.environ, "NIGHTBENCH_DAGS": str(dags_folder().absolute())}
    for name in missing:
        processes.start(home, name, watchdog_command(home), env=env, cwd=home.root)
    if missing:
        yield "watchdogs: they restart services that die or hang, until nightbench down"


def stop_watchdogs(home: Home) -> list[str]:
    """End the watchdogs and an `up` that one of them runs; return the names of those that ran."""
    return [name for name in WATCHDOGS if processes.stop(home.run / f"{name}.pid")]


def watchdog_command(home: Home) -> list[str]:
    """Return the words that run a watchdog."""
    python = str(venv_bin() / "python")
    return [python, "-m", "nightbench.local.watchdog", "--home", str(home.root)]


def run_airflow(home: Home, words: Sequence[str]) -> None:
    """Replace this process by `airflow WORDS` on this home's Airflow."""
    is_team = control_plane() is ControlPlane.TEAM
    own = dict(os.environ) if is_team else load(home).airflow_env()
    # The warnings concern Airflow's own code: the user cannot do anything about them.
    env = {"PYTHONWARNINGS": "ignore", **own}
    argv = airflow.command(*words)
    sys.stdout.flush()
    os.execve(argv[0], argv, env)


def _await_cluster(stack: Stack, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not (stack.home.cluster / "server.json").is_file():
        dead = not stack.running(CLUSTER)
        if dead or time.monotonic() > deadline:
            state = "ended" if dead else f"was not ready after {timeout_s:.0f} s"
            raise UserError(f"The local cluster {state}. {_log_of(stack, CLUSTER)}")
        time.sleep(0.1)


def _log_of(stack: Stack, service: str) -> str:
    return logfiles.log_and_tail(stack.home.logs / f"{service}.log")


@contextmanager
def _full_disk_named(home: Home) -> Iterator[None]:
    """Report a full disk if it caused an error, because few programs report it."""
    try:
        yield
    except HomeLocked:
        raise
    except (OSError, UserError) as error:
        free = free_bytes(home)
        if free > FULL_DISK_BYTES:
            raise
        raise UserError(
            f"The disk at {home.root} is full: {free / 1e6:.0f} MB free. Make room, or use "
            f"another folder: NIGHTBENCH_HOME=/some/folder. Error: {error}"
        ) from error


@contextmanager
def _locked(home: Home, wait_s: float) -> Iterator[None]:
    deadline = time.monotonic() + wait_s
    with home.lock_file.open("w", encoding="ascii") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise HomeLocked(
                        f"Another nightbench up or down is using {home.root}. Wait for its end, "
                        "then try again."
                    ) from error
            time.sleep(0.5)
        yield
