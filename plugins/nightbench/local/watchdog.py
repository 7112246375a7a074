"""Watchdogs: they restart services that died or hang, and each other.

`up` leaves two watchdogs running. A watchdog checks every few seconds that every service has its
process, and every half a minute that Airflow reports its components as healthy. If not, it runs
`up`, as a person would. `down` ends the watchdogs first. Why not supervisord: ADR 14.

    python -m nightbench.local.watchdog --home .nightbench
"""

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
    """Check the services forever, and run `up` if one is missing or stays unhealthy."""
    unhealthy: list[set[str]] = []  # the services that were, at each of the last checks
    checks, pause_s = 0, CHECK_S
    while True:
        time.sleep(pause_s)
        checks += 1
        missing = [name for name in services if processes.read(home.run / f"{name}.pid") is None]
        if checks % CHECKS_PER_HEALTH_CHECK == 0:
            found = _unhealthy(home)
            unhealthy = [*unhealthy, found] if found else []
        if not missing and len(unhealthy) < UNHEALTHY_IN_A_ROW:
            pause_s = CHECK_S
            continue
        _log(f"{', '.join(missing)} ended" if missing else "Airflow is unhealthy")
        # These services had enough time to answer: `up` need not wait for them again.
        hung = sorted(set.intersection(*unhealthy)) if not missing else []
        # In another process: services started here would stay children of this process, and
        # PostgreSQL takes a zombie child for a living postmaster.
        words = [*lifecycle.watchdog_command(home), "--once", *hung]
        status = subprocess.run(words, check=False).returncode
        unhealthy = []
        failed = status not in (0, BUSY)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if failed else CHECK_S


def _unhealthy(home: Home) -> set[str]:
    """Return unhealthy services; only the API server knows the state of Airflow's others."""
    found = {each.name for each in deployment.status(home) if each.state != "running"}
    return {"api-server"} if "api-server" in found else found


def _up(home: Home, hung: list[str]) -> int:
    try:
        for line in lifecycle.up(home, wait_s=0.0, hung=hung):
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
    parser = argparse.ArgumentParser(prog="nightbench.local.watchdog", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="state folder")
    words = "run `up` once and end; restart the named services, which hang"
    parser.add_argument("--once", nargs="*", metavar="SERVICE", help=words)
    options = parser.parse_args(argv)
    home = Home(options.home)
    if options.once is not None:
        return _up(home, options.once)
    keep(home, deployment.SERVICES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
