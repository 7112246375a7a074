"""How the services of a home are: from their pid files, and from what Airflow says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx

from nightbench.local import airflow, processes
from nightbench.local import ports as port_book
from nightbench.local.deployment import CLUSTER, NODES, SERVICES, Stack, load
from nightbench.local.paths import Home


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
    health = health_of(stack)
    ports = stack.ports
    addresses: Mapping[str, str] = {
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
                state=_state(stack, name, health),
                pid=service.pid if service else None,
                address=addresses.get(name, ""),
                started_at=service.started_at if service else None,
                log=home.logs / f"{name}.log",
            )
        )
    return found


def unhealthy(stack: Stack) -> list[str]:
    """Return which of Airflow's services do not report a fresh heartbeat."""
    health = health_of(stack)
    return [name for name in airflow.SERVICES if _state(stack, name, health) != "running"]


def health_of(stack: Stack) -> dict[str, Mapping[str, str | None]]:
    """Return what the API server says of the components; nothing while it does not answer."""
    service = stack.running("api-server")
    if service is None:
        return {}
    # Another home's server may have taken the port first; its answers, and its login, are not ours.
    if not port_book.listening(stack.ports.api, [service.pid, *processes.descendants(service.pid)]):
        return {}
    # Asked without AirflowApi: while it boots, "no answer" is the expected answer.
    url = f"{airflow.base_url(stack.ports)}/api/v2/monitor/health"
    try:
        body = httpx.get(url, timeout=5, trust_env=False).raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return {}
    return {name: entry or {} for name, entry in body.items()}


def _state(stack: Stack, name: str, health: Mapping[str, Mapping[str, str | None]]) -> str:
    service = stack.running(name)
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
