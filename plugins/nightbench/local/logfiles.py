"""The services' logs: show them, and remove old ones."""

import os
import shlex
import subprocess
import time
from pathlib import Path

from nightbench.core.atomic_files import remove_older
from nightbench.core.errors import UserError
from nightbench.local.home import Home

KEPT_DAYS = 30.0


def expire(folder: Path, days: float = KEPT_DAYS) -> int:
    """Remove log files not written to for `days`, and empty folders; return how many files."""
    return remove_older(folder.rglob("*"), time.time() - days * 86400)


def tail(log: Path, lines: int = 20) -> list[str]:
    """Return the last lines of a log; none if there is no log yet."""
    if not log.exists():
        return []
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - 400 * lines))
        return stream.read().decode(errors="replace").splitlines()[-lines:]


def log_and_tail(log: Path) -> str:
    """Return `Log PATH:` and the log's last lines, for the end of a message."""
    shown = "\n  ".join(tail(log))
    return f"Log {shlex.quote(str(log))}:\n  {shown}"


def names(home: Home) -> list[str]:
    """Return the services that have a log; "none yet" if none has."""
    return sorted(path.stem for path in home.logs.glob("*.log")) or ["none yet"]


def show(home: Home, service: str, lines: int, follow: bool) -> None:
    """Print the last lines of a service's log, and with `follow` every line that is added.

    Raises:
        UserError: there is no such log; the message lists those that there are.
    """
    path = home.logs / f"{service}.log"
    if not path.is_file():
        known = ", ".join(names(home))
        raise UserError(
            f"No log of {service!r} in {home.logs}. Known services: {known}. Logs of ranks: "
            "nightbench logs --run RUN"
        )
    words = ["tail", "-n", str(lines), *(["-F"] if follow else []), str(path)]
    subprocess.run(words, check=False)
