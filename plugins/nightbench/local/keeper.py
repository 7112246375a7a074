"""Keepers: they restart services that have died or hang, and each other.

`up` leaves two keepers running. A keeper checks every few seconds that every service has its
process, and every half a minute that Airflow reports its components as healthy; if not, it runs
`up`, as a person would. `down` ends the keepers first. Why not supervisord: ADR 14.

    python -m nightbench.local.keeper --home .nightbench
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from nightbench.core.errors import UserError
from nightbench.local import deployment, lifecycle, processes
from nightbench.local.home import Home

CHECK_S = 3.0
CHECKS_PER_HEALTH_CHECK = 10
UNHEALTHY_IN_A_ROW = 3
"""After so many unhealthy answers in a row it is more than a moment's slowness."""

LONGEST_PAUSE_S = 300.0
BUSY = 3
"""Exit status of an `up` that found another `up` or `down` at work."""


def keep(home: Home, services: tuple[str, ...]) -> None:
    """Check the services for ever, and run `up` where one is missing or stays unhealthy."""
    unhealthy = checks = 0
    pause_s = CHECK_S
    while True:
        time.sleep(pause_s)
        checks += 1
        missing = [name for name in services if processes.read(home.run / f"{name}.pid") is None]
        if checks % CHECKS_PER_HEALTH_CHECK == 0:
            unhealthy = unhealthy + 1 if _not_running(home) else 0
        if not missing and unhealthy < UNHEALTHY_IN_A_ROW:
            pause_s = CHECK_S
            continue
        _log(f"{', '.join(missing)} ended" if missing else "Airflow is unhealthy")
        # A process of its own: services started here would stay this one's children, whose
        # zombies PostgreSQL takes for a living postmaster.
        status = subprocess.run([*lifecycle.keeper_command(home), "--once"], check=False).returncode
        unhealthy = 0
        failed = status not in (0, BUSY)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if failed else CHECK_S


def _not_running(home: Home) -> list[str]:
    return [each.name for each in deployment.status(home) if each.state != "running"]


def _up(home: Home) -> int:
    """Run `up` and log its lines; return the exit status."""
    try:
        for line in lifecycle.up(home, wait_s=0.0):
            _log(line)
    except lifecycle.HomeLocked:
        return BUSY
    except UserError as error:
        _log(str(error))
        return 1
    return 0


def _log(line: str) -> None:
    print(f"{datetime.now(UTC).isoformat(timespec='seconds')} {line}", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="nightbench.local.keeper", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="state folder")
    parser.add_argument("--once", action="store_true", help="run `up` once, and end")
    options = parser.parse_args(argv)
    home = Home(options.home)
    if options.once:
        return _up(home)
    keep(home, deployment.SERVICES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
