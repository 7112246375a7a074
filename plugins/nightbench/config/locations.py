"""Folders of this deployment, from environment variables.

Every process of it must agree on them: command, DAG processor, worker, triggerer, API server.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""The folder that holds `dags/`, `plugins/` and `benchmarks/`."""


def dags_folder() -> Path:
    """The folder with `suites/` and `clusters/`; `NIGHTBENCH_DAGS` names another one."""
    return Path(os.environ.get("NIGHTBENCH_DAGS") or ROOT / "dags")


def benchmarks_folder() -> Path:
    """The tree that is shipped to the nodes; `NIGHTBENCH_BENCHMARKS` names another one."""
    return Path(os.environ.get("NIGHTBENCH_BENCHMARKS") or ROOT / "benchmarks")


def home_folder() -> Path:
    """The state folder: `NIGHTBENCH_HOME`, else `.nightbench` beside `dags/`."""
    return Path(os.environ.get("NIGHTBENCH_HOME") or ROOT / ".nightbench").expanduser().absolute()


def wheels_folder() -> Path:
    """The folder whose wheels a run may name: `NIGHTBENCH_WHEELS`, else `wheels/` in the home."""
    return Path(os.environ.get("NIGHTBENCH_WHEELS") or home_folder() / "wheels")


def spool_root() -> str | Path:
    """The folder or fsspec URL of the spool: `NIGHTBENCH_SPOOL`, else `spool/` in the home."""
    return os.environ.get("NIGHTBENCH_SPOOL") or home_folder() / "spool"
