"""The control plane of one home: its services, their state, and how a person logs in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx

from nightbench.core.errors import UserError
from nightbench.local import airflow, postgres, processes
from nightbench.local.airflow_api import AirflowApi
from nightbench.local.home import Home, Secrets, load_or_create_secrets
from nightbench.local.ports import Ports, is_listening, load_ports

CLUSTER = "local-cluster"
WATCHDOGS = ("watchdog-a", "watchdog-b")
SERVICES = ("postgres", CLUSTER, *airflow.SERVICES, *WATCHDOGS)
NODES = 2
"""Number of nodes of the local cluster."""


@dataclass(frozen=True)
class Stack:
    """A home with its ports and secrets."""

    home: Home
    ports: Ports
    secrets: Secrets

    def pid_file(self, service: str) -> Path:
        """Return where a service's pid is kept."""
        return self.home.run / f"{service}.pid"

    def running(self, service: str) -> processes.Service | None:
        """Return a service if it runs."""
        return processes.read(self.pid_file(service))

    def dsn(self, role: str = "nightbench_loader") -> str:
        """Return the connection string of a warehouse role (it holds the password)."""
        return postgres.dsn(self.ports, self.secrets, role)

    def api(self) -> AirflowApi:
        """Return a client that is logged in as admin."""
        return AirflowApi(airflow.base_url(self.ports), airflow.ADMIN, self.secrets.ui_admin)

    def airflow_env(self) -> dict[str, str]:
        """Return the whole environment for a process of this Airflow."""
        return airflow.environment(self.home, self.ports, self.secrets)


def load(home: Home) -> Stack:
    """Return the deployment of a home as `up` left it.

    Raises:
        UserError: `up` has never run here.
    """
    ports = load_ports(home)
    if ports is None or not home.secrets_file.exists():
        raise UserError(f"Nothing was started in {home.root} yet. Start Nightbench: nightbench up")
    return Stack(home, ports, load_or_create_secrets(home))


@dataclass(frozen=True)
class Logins:
    """Addresses and logins, shown only to the owner of the home."""

    ui: str
    user: str
    password: str
    viewer: str
    viewer_password: str
    psql: str


def logins(home: Home) -> Logins:
    """Return addresses and logins for the person who owns this home."""
    stack = load(home)
    return Logins(
        ui=airflow.base_url(stack.ports),
        user=airflow.ADMIN,
        password=stack.secrets.ui_admin,
        viewer=airflow.VIEWER,
        viewer_password=stack.secrets.ui_viewer,
        psql=postgres.psql_line(home, stack.ports),
    )


# --- the state of the services --------------------------------------------------------------


@dataclass(frozen=True)
class ServiceStatus:
    """One service as it is now; `state` is running, starting, unhealthy or stopped."""

    name: str
    state: str
    pid: int | None
    address: str
    started_at: str | None
    log: Path


def status(home: Home) -> list[ServiceStatus]:
    """Return the state of every service, in the order in which they start.

    Raises:
        UserError: `up` has never run here.
    """
    stack = load(home)
    health = airflow_health(stack)
    ports = stack.ports
    addresses = {
        "postgres": f"127.0.0.1:{ports.postgres}",
        CLUSTER: f"127.0.0.2-{NODES + 1}:{ports.cluster}",
        "api-server": airflow.base_url(ports),
    }
    found = []
    for name in SERVICES:
        service = stack.running(name)
        found.append(
            ServiceStatus(
                name=name,
                state=_state(name, service, health),
                pid=service.pid if service else None,
                address=addresses.get(name, ""),
                started_at=service.started_at if service else None,
                log=home.logs / f"{name}.log",
            )
        )
    return found


def unhealthy(stack: Stack) -> list[str]:
    """Return which of Airflow's services do not report a fresh heartbeat."""
    health = airflow_health(stack)
    return [
        name for name in airflow.SERVICES if _state(name, stack.running(name), health) != "running"
    ]


def airflow_health(stack: Stack) -> dict[str, Mapping[str, str | None]]:
    """Return what the API server reports of each component; nothing while it does not answer."""
    service = stack.running("api-server")
    if service is None:
        return {}
    # Another home's server may have taken the port first: its answers and logins are not ours.
    if not is_listening(stack.ports.api, [service.pid, *processes.descendants(service.pid)]):
        return {}
    # Without AirflowApi: while the server boots, "no answer" is the expected answer.
    url = f"{airflow.base_url(stack.ports)}/api/v2/monitor/health"
    try:
        body = httpx.get(url, timeout=5, trust_env=False).raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return {}
    return {name: entry or {} for name, entry in body.items()}


def _state(
    name: str, service: processes.Service | None, health: Mapping[str, Mapping[str, str | None]]
) -> str:
    if service is None:
        return "stopped"
    if name not in airflow.SERVICES:
        return "running"
    if name == "api-server":
        return "running" if health else "starting"
    key = name.replace("-", "_")
    entry = health.get(key, {})
    # The database still holds the heartbeat of the process that ran here before.
    beat = entry.get(f"latest_{key}_heartbeat")
    if beat is None or datetime.fromisoformat(beat) < datetime.fromisoformat(service.started_at):
        return "starting"
    return "running" if entry.get("status") == "healthy" else "unhealthy"
