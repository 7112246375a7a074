"""The control plane of a home: its services, ports and secrets, and how a person gets in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nightbench.core.errors import UserError
from nightbench.local import airflow, keeper, postgres, processes
from nightbench.local import ports as port_book
from nightbench.local.airflow_api import AirflowApi
from nightbench.local.paths import Home
from nightbench.local.ports import Ports
from nightbench.local.secrets import Secrets, load_or_create

CLUSTER = "local-cluster"
SERVICES = ("postgres", CLUSTER, *airflow.SERVICES, *keeper.NAMES)
NODES = 2
"""Of the local cluster."""


@dataclass(frozen=True)
class Stack:
    """A home with its ports and secrets: what every function here works on."""

    home: Home
    ports: Ports
    secrets: Secrets

    def pid_file(self, service: str) -> Path:
        """Return where a service's pid is kept."""
        return self.home.run / f"{service}.pid"

    def running(self, service: str) -> processes.Service | None:
        """Return a service while it lives."""
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
    """Return the stack of a home as `up` left it.

    Raises:
        UserError: `up` has never run here.
    """
    ports = port_book.load(home)
    if ports is None or not home.secrets_file.exists():
        raise UserError(f"Nothing was ever started in {home.root}. Start it: nightbench up")
    return Stack(home, ports, load_or_create(home))


def airflow_env(home: Home) -> dict[str, str]:
    """Return the environment in which `airflow …` works on this home's Airflow."""
    return load(home).airflow_env()


@dataclass(frozen=True)
class Access:
    """Where a person goes, and with what login. The password is shown to its owner only."""

    ui: str
    user: str
    password: str
    viewer: str
    viewer_password: str
    psql: str


def access(home: Home) -> Access:
    """Return addresses and logins for the person who owns this home."""
    stack = load(home)
    return Access(
        ui=airflow.base_url(stack.ports),
        user=airflow.ADMIN,
        password=stack.secrets.ui_admin,
        viewer=airflow.VIEWER,
        viewer_password=stack.secrets.ui_viewer,
        psql=postgres.psql_line(home, stack.ports),
    )
