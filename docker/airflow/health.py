"""A container's health check, which also ends what hangs: Compose restarts only what has ended.

    python health.py scheduler|triggerer|dag_processor|metadatabase|celery

Asks the API server, to which every service's heartbeat is known; a Celery worker is asked itself,
through the broker. After `LIMIT` unhealthy answers in a row all processes of the container are
killed, and `restart` starts it again. None is counted in a container's first `START_S` (a slow
start is no hang) and none while the database or the broker is away, which no restart of a service
fixes. Where the API server does not answer, only its own container (metadatabase) counts that as a
failure: the others cannot know. With several instances of a service the newest heartbeat counts:
use `airflow jobs check`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

LIMIT = 4
START_S = 120.0
"""As `start_period` in compose.yaml, which holds back what Docker says, not what is done here."""
TIMEOUT_S = 8
COUNT = Path("/tmp/unhealthy")
NO_DATABASE = "the database is away"
NO_BROKER = "the broker is away"
BROKER = Path("/run/secrets/celery_broker")


def main(component: str) -> int:
    """Return the exit status: 0 for healthy."""
    found = _worker() if component == "celery" else _status(component)
    if found in ("healthy", "unknown"):
        COUNT.unlink(missing_ok=True)
        return 0
    if found in (NO_DATABASE, NO_BROKER) or _age_s() < START_S:
        print(f"{component}: {found}")
        return 1
    count = int(COUNT.read_text()) + 1 if COUNT.exists() else 1
    COUNT.write_text(str(count))
    print(f"{component}: {found}, {count} times in a row")
    if count >= LIMIT:
        COUNT.unlink()
        # -1: all that this user may signal but process 1, which ends with its child.
        os.kill(-1, signal.SIGKILL)
    return 1


def _status(component: str) -> str:
    is_own = component == "metadatabase"
    host = "127.0.0.1" if is_own else "api-server"
    try:
        address = f"http://{host}:8080/api/v2/monitor/health"
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
            document = json.load(answer)
    except (OSError, urllib.error.URLError, ValueError) as error:
        return f"no answer ({error})" if is_own else "unknown"
    if (document.get("metadatabase") or {}).get("status") != "healthy":
        return NO_DATABASE
    return str((document.get(component) or {}).get("status"))


def _worker() -> str:
    """Ask this container's own worker, without Airflow's code, which takes seconds to load."""
    from celery import Celery
    from kombu.exceptions import OperationalError

    name = f"celery@{socket.gethostname()}"
    asked = Celery(broker=BROKER.read_text().strip()).control
    try:
        return "healthy" if asked.ping([name], timeout=TIMEOUT_S) else "no answer"
    except OperationalError:
        return NO_BROKER


def _age_s() -> float:
    """Seconds since the container's first process started."""
    began = int(Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19])
    up = float(Path("/proc/uptime").read_text().split()[0])
    return up - began / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
