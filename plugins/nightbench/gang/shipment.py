"""What the controller brings to the nodes: our code, uv, and wheels for nodes without an index."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nightbench.config import locations
from nightbench.core.code_digest import code_digest
from nightbench.core.errors import UserError

UV_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Shipment:
    """What the controller has to bring to the nodes of a cluster."""

    benchmarks: Path
    """The `benchmarks/` folder."""
    uv: Path | None = None
    """The uv binary for the nodes; None where they have their own."""
    uv_version: str = ""
    wheelhouse: Path | None = None
    """Folder of wheels for nodes without an index."""

    def code_digest(self) -> str:
        """Digest of the tree, which names it on the nodes."""
        return code_digest(self.benchmarks)


def local_shipment(wheelhouse: str | None = None) -> Shipment:
    """What the nodes need from this machine.

    Args:
        wheelhouse: folder of wheels for nodes without an index (a cluster's own).

    Raises:
        UserError: the uv binary is not there, or does not run.
    """
    uv = _uv()
    return Shipment(
        benchmarks=locations.benchmarks_folder(),
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
    made = locations.home_folder() / "tools" / "uv"
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
