"""Where a worker, a triggerer or the DAG processor finds things: from the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.gang import Shipment
    from nightbench.spool import Spool

ROOT = Path(__file__).resolve().parents[3]
"""The folder that holds `dags/`, `plugins/` and `benchmarks/`."""

UV_TIMEOUT_S = 30.0


def dags_folder() -> Path:
    """The folder with `suites/` and `clusters/`; `NIGHTBENCH_DAGS` names another one."""
    return Path(os.environ.get("NIGHTBENCH_DAGS") or ROOT / "dags")


def benchmarks_folder() -> Path:
    """The tree that is shipped to the nodes; `NIGHTBENCH_BENCHMARKS` names another one."""
    return Path(os.environ.get("NIGHTBENCH_BENCHMARKS") or ROOT / "benchmarks")


def home_folder() -> Path:
    """The state folder: `NIGHTBENCH_HOME`, else `.nightbench` beside `dags/`."""
    return Path(os.environ.get("NIGHTBENCH_HOME") or ROOT / ".nightbench").expanduser().absolute()


def spool() -> Spool:
    """The spool: `NIGHTBENCH_SPOOL` (a folder or an fsspec URL), else `spool/` in the home.

    Worker and triggerer must both reach it.
    """
    # universal-pathlib brings fsspec: too much for every parse of a DAG file.
    from nightbench.spool import Spool

    return Spool(os.environ.get("NIGHTBENCH_SPOOL") or home_folder() / "spool")


def shipment(wheelhouse: str | None = None) -> Shipment:
    """What the nodes need from this machine.

    Args:
        wheelhouse: folder of wheels for nodes without an index (a cluster's own).
    """
    from nightbench.gang import Shipment

    uv = _uv()
    return Shipment(
        benchmarks=benchmarks_folder(),
        uv=uv,
        uv_version=_uv_version(uv) if uv else "",
        wheelhouse=Path(wheelhouse) if wheelhouse else None,
    )


def _uv() -> Path | None:
    """The uv binary that nodes get: `NIGHTBENCH_UV`, the one of `make setup`, or PATH's."""
    named = os.environ.get("NIGHTBENCH_UV")
    if named:
        if not Path(named).is_file():
            raise UserError(f"NIGHTBENCH_UV: found {named!r}, which is not there; expected a file")
        return Path(named)
    made = home_folder() / "tools" / "uv"
    found = str(made) if made.is_file() else shutil.which("uv")
    return Path(found) if found else None


@lru_cache(maxsize=4)
def _uv_version(uv: Path) -> str:
    done = subprocess.run(
        [str(uv), "--version"], capture_output=True, text=True, timeout=UV_TIMEOUT_S, check=False
    )
    words = done.stdout.split()
    if done.returncode != 0 or len(words) < 2:
        raise UserError(f"{uv} --version: found {done.stdout or done.stderr!r}; expected a version")
    return words[1]
