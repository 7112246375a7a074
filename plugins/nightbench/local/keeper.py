"""Keepers: they start again what has died or hangs, each other included.

`up` leaves two of them behind. A keeper looks every few seconds whether every service has its
process, and every half a minute whether Airflow's say that they are healthy; where something is
amiss it does what a person would do: `up`. `down` ends the keepers first.

    python -m nightbench.local.keeper --home .nightbench
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from nightbench.core.errors import UserError
from nightbench.local import processes
from nightbench.local.paths import Home, venv_bin

NAMES = ("keeper-a", "keeper-b")
LOOK_S = 3.0
HEALTH_LOOKS = 10
"""Every so many looks Airflow is asked how it is."""

SICK = 3
"""So many answers in a row that something is unhealthy, and it is no passing slowness."""

LONGEST_PAUSE_S = 300.0
BUSY = 3
"""Exit status of an `up` that found another one at work."""


def start_missing(home: Home) -> Iterator[str]:
    """Start the keepers that do not run; yield a line where there were any."""
    missing = [name for name in NAMES if processes.read(home.run / f"{name}.pid") is None]
    for name in missing:
        processes.start(
            name,
            _argv(home),
            env=dict(os.environ),
            log=home.logs / f"{name}.log",
            pid_file=home.run / f"{name}.pid",
            home=home.root,
            cwd=home.root,
        )
    if missing:
        yield "keepers: what dies from now on is started again, until nightbench down"


def stop_all(home: Home) -> list[str]:
    """End the keepers, with an `up` that one of them may be at; returns those that ran."""
    return [name for name in NAMES if processes.stop(home.run / f"{name}.pid")]


def keep(home: Home, services: tuple[str, ...]) -> None:
    """Look after the services for ever."""
    sick = looks = 0
    pause_s = LOOK_S
    while True:
        time.sleep(pause_s)
        looks += 1
        missing = [name for name in services if processes.read(home.run / f"{name}.pid") is None]
        if looks % HEALTH_LOOKS == 0:
            sick = sick + 1 if _unhealthy(home) else 0
        if not missing and sick < SICK:
            pause_s = LOOK_S
            continue
        _say(f"{', '.join(missing)} ended" if missing else "Airflow is unhealthy")
        # In a process of its own: what it starts must not be this one's child, whose zombies
        # PostgreSQL would take for a living postmaster.
        status = subprocess.run([*_argv(home), "--once"], check=False).returncode
        sick = 0
        failed = status not in (0, BUSY)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if failed else LOOK_S


def _argv(home: Home) -> list[str]:
    python = str(venv_bin() / "python")
    return [python, "-m", "nightbench.local.keeper", "--home", str(home.root)]


def _unhealthy(home: Home) -> list[str]:
    from nightbench.local import health

    return [each.name for each in health.status(home) if each.state != "running"]


def _once(home: Home) -> int:
    """What a person would do."""
    from nightbench.local import supervisor

    try:
        for line in supervisor.up(home, wait_s=0.0):
            _say(line)
    except supervisor.AnotherWorks:
        return BUSY
    except UserError as error:
        _say(str(error))
        return 1
    return 0


def _say(line: str) -> None:
    print(f"{datetime.now(UTC).isoformat(timespec='seconds')} {line}", flush=True)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns its exit status."""
    from nightbench.local import deployment

    parser = argparse.ArgumentParser(prog="nightbench.local.keeper", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="state folder")
    parser.add_argument("--once", action="store_true", help="mend what is amiss now, and end")
    options = parser.parse_args(argv)
    home = Home(options.home)
    if options.once:
        return _once(home)
    keep(home, deployment.SERVICES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
