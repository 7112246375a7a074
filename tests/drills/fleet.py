"""Airflow as on a fleet: CeleryExecutor, two workers, two triggerers, spool and logs on S3.

Each service has a host name and a home of its own (a UTS namespace), and gets the settings that
docs/celery.md names for its kind of machine, and no others: workers have neither Airflow's
database nor its secrets. PostgreSQL and the nodes are those of `nightbench up`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import psycopg2
import redis
from botocore.exceptions import EndpointConnectionError
from tests.contained import folder_of_server
from tests.drills.airflow_chaos import kill
from tests.integration.live_airflow import REPO, Live, environment, wait_for_dag, write_suite
from tests.integration.openssh import free_port
from tests.shipped import shipped

from nightbench.local import airflow, deployment, lifecycle, postgres, processes
from nightbench.local.home import Home, venv_bin
from nightbench.spool import Spool

WORKERS = ("worker-1", "worker-2")
TRIGGERERS = ("triggerer", "triggerer-2")
CONTROL = ("api-server", "scheduler", "dag-processor", *TRIGGERERS)
READY_S = 180.0
SPOOL = "s3://nightbench/spool"
LOGS = "s3://nightbench/logs"

CLUSTER = """\
cluster: local
description: Two nodes on this machine, reached by a Connection that holds keys as text
shared: true
nodes:
  - {hosts: 127.0.0.2, name: n1, ssh_conn_id: fleet_nodes, interface: lo, port_range: 20000-24999}
  - {hosts: 127.0.0.3, name: n2, ssh_conn_id: fleet_nodes, interface: lo, port_range: 25000-29999}
environments: {kind: venv, root: ~/.nightbench-node}
"""


def missing() -> str:
    """What this machine lacks for a fleet, as a sentence; empty if it lacks nothing."""
    if shutil.which("redis-server"):
        return ""
    return "no redis-server (Debian: apt-get install redis-server, its service is not needed)"


@dataclass(frozen=True)
class Fleet(Live):
    """The running fleet."""

    environments: Mapping[str, Mapping[str, str]]
    """Of each service, by its name."""
    port: int
    """Of the broker."""

    @property
    def spool(self) -> Spool:
        return Spool(SPOOL)

    def start(self, name: str) -> None:
        """Start a service, as systemd or Kubernetes would after its death."""
        home = self.stack.home
        if name == "broker":
            data = home.root / "broker"
            data.mkdir(exist_ok=True)
            words = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
            words += ["--dir", str(data), "--appendonly", "yes", "--appendfsync", "always"]
        elif name == "store":
            words = [str(venv_bin() / "moto_server"), "-H", "127.0.0.1", "-p", str(self.port + 1)]
        else:
            words = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name]
            words += airflow.command(*_command(name))
        env = self.environments.get(name, _bare())
        processes.start(home, name, words, env=env, cwd=home.root)

    def kill(self, name: str) -> float:
        """SIGKILL for a service and all that it has started; the time of that."""
        service = self.stack.running(name)
        assert service is not None, f"{name} does not run"
        kill([service.pid, *processes.descendants(service.pid)])
        print(f"  {time.strftime('%H:%M:%S')} killed {name}", flush=True)
        return time.monotonic()

    def log_of(self, dag_run: str, task_id: str, map_index: int, try_number: int = 1) -> str:
        """The log of a task as a person reads it in the UI."""
        words = (task_id, try_number, map_index)
        return "\n".join(self.api.log_tail("on_demand", dag_run, *words, 10_000))


def _command(name: str) -> list[str]:
    if name in WORKERS:
        # Its log server would be asked by its name, which no DNS here has; so would a triggerer's.
        named = ["--celery-hostname", f"{name}@%h", "--concurrency", "2"]
        return ["celery", "worker", *named, "--skip-serve-logs"]
    if name in TRIGGERERS:
        return ["triggerer", "--skip-serve-logs"]
    return [name]


def _bare() -> dict[str, str]:
    """This process's environment without anything of Airflow, Nightbench or another store."""
    foreign = ("AIRFLOW", "NIGHTBENCH", "AWS_", "PYTHONPATH", "PG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "PATH": f"{venv_bin()}{os.pathsep}{kept['PATH']}", "NO_PROXY": "127.0.0.1"}


def _environments(
    stack: deployment.Stack, shared: Mapping[str, str], port: int
) -> dict[str, dict[str, str]]:
    """The settings of each service; docs/celery.md says the same in words."""
    secrets, place = stack.secrets, stack.home.root.parent
    database = f"127.0.0.1:{stack.ports.postgres}"
    everywhere = {
        **_bare(),
        **shared,
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPO / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{airflow.base_url(stack.ports)}/execution/",
        "AIRFLOW__API__BASE_URL": airflow.base_url(stack.ports),
        "AIRFLOW__CELERY__BROKER_URL": f"redis://127.0.0.1:{port}/0",
        "AIRFLOW__CELERY__RESULT_BACKEND": f"db+postgresql://celery:celery@{database}/celery",
        "AIRFLOW__LOGGING__REMOTE_LOGGING": "True",
        "AIRFLOW__LOGGING__REMOTE_BASE_LOG_FOLDER": LOGS,
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        "AIRFLOW__TRIGGERER__ON_KILL_TIMEOUT": "120",
        "SPT_NOENV": "1",  # the drill finds processes by their environment
    }
    control = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": (
            f"postgresql+psycopg2://airflow:{secrets.airflow}@{database}/airflow"
        ),
        "AIRFLOW__CORE__FERNET_KEY": secrets.fernet_key,
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.jwt_secret,
        "AIRFLOW__API__SECRET_KEY": secrets.api_secret_key,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(stack.ports.api),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{airflow.ADMIN}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(stack.home.passwords_file),
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        # A worker that was killed is missed after this; docs/celery.md has 90.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    }
    found = {}
    for name in (*CONTROL, *WORKERS):
        own = place / name
        own.mkdir()
        homes = {"AIRFLOW_HOME": str(own / "airflow"), "NIGHTBENCH_HOME": str(own / "home")}
        found[name] = {**everywhere, **homes, **(control if name in CONTROL else {})}
    return found


@contextmanager
def fleet(suites: Mapping[str, Mapping[str, Any]]) -> Iterator[Fleet]:
    """Start a fleet, with suites made as `live_airflow` makes them; nothing is left at the end."""
    root = folder_of_server("nbfleet-")
    dags = root / "dags"
    for folder in ("suites", "clusters"):
        (dags / folder).mkdir(parents=True)
    (dags / "clusters" / "local.yaml").write_text(CLUSTER, encoding="utf-8")
    for name, changes in suites.items():
        write_suite(dags, name, changes)
    shipped(root)
    port = _two_free_ports()
    shared = {
        "NIGHTBENCH_DAGS": str(dags),
        "NIGHTBENCH_BENCHMARKS": str(root / "benchmarks"),
        "NIGHTBENCH_UV": str(venv_bin() / "uv"),
        "NIGHTBENCH_SPOOL": SPOOL,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port + 1}",
        "AWS_ACCESS_KEY_ID": "drill",
        "AWS_SECRET_ACCESS_KEY": "drill",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    home = Home(root / "control")
    try:
        home.make()
        with environment({"NIGHTBENCH_HOME": str(home.root)}), ExitStack() as reserved:
            stack = lifecycle._prepare(home, reserved)
            for line in lifecycle._start_base(stack, backup=False, on_nodes=None):
                print(f"  {line}", flush=True)
            airflow.write_files(home, stack.ports, stack.secrets)
        _provide_result_backend(stack)
        environments = _environments(stack, shared, port)
        with stack.api() as api, environment(shared):
            made = Fleet(stack, api, shared, environments, port)
            for name in ("broker", "store"):
                made.start(name)
            _await_store(shared["AWS_ENDPOINT_URL"])
            redis.Redis(port=port).ping()
            for name in (*CONTROL, *WORKERS):
                made.start(name)
            _await_airflow(made)
            _add_connections(made)
            for dag_id in ("on_demand", "nightbench_verdicts"):
                wait_for_dag(api, dag_id)
            yield made
    finally:
        # Redis overwrites its environment: `down` would not know it.
        for name in (*WORKERS, *CONTROL, "broker", "store"):
            processes.stop(home.run / f"{name}.pid", patience_s=5.0)
        for _ in lifecycle.down(home):
            pass
    shutil.rmtree(root)


def _two_free_ports() -> int:
    while True:
        port = free_port(["127.0.0.1"])
        with contextlib.suppress(OSError):
            _bind(port + 1)
            return port


def _bind(port: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))


def _provide_result_backend(stack: deployment.Stack) -> None:
    """A role and a database of Celery's own: workers need no login to Airflow's."""
    owner = postgres.dsn(stack.ports, stack.secrets, postgres.SUPERUSER, "postgres")
    connection = psycopg2.connect(owner)
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute("create role celery login password 'celery'")
        cursor.execute("create database celery owner celery")


def _await_store(url: str) -> None:
    client = boto3.client("s3", endpoint_url=url)
    until = time.monotonic() + READY_S
    while True:
        try:
            client.create_bucket(Bucket="nightbench")
        except EndpointConnectionError:
            assert time.monotonic() < until, "no S3 server"
            time.sleep(0.3)
        else:
            return


def _await_airflow(made: Fleet) -> None:
    until = time.monotonic() + READY_S
    while True:
        health = deployment.airflow_health(made.stack)
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        if all((health.get(part) or {}).get("status") == "healthy" for part in parts):
            return
        assert time.monotonic() < until, f"Airflow is not ready: {health}"
        time.sleep(1)


def _add_connections(made: Fleet) -> None:
    """Put what workers and triggerers need into Airflow's database; keys are texts, no paths."""
    stack = made.stack
    known = airflow.connections(stack.home, stack.ports, stack.secrets)
    nodes = known.pop("nightbench_local")
    nodes["extra"] = {
        "private_key": (stack.home.cluster / "id_ed25519").read_text(encoding="utf-8"),
        "known_hosts": (stack.home.cluster / "known_hosts").read_text(encoding="utf-8"),
    }
    for conn_id, fields in {**known, "fleet_nodes": nodes}.items():
        body = {"connection_id": conn_id, **fields}
        if "extra" in body:
            body["extra"] = json.dumps(body["extra"])
        made.api._send("POST", "/api/v2/connections", json=body)
