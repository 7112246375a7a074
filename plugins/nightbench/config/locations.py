"""Folders of this deployment, from environment variables.

Every process of it must agree on them: command, DAG processor, worker, triggerer, API server.
"""

from __future__ import annotations

import os
from pathlib import Path

from nightbench.core.own_files import CHECKOUT, own_folder


def dags_folder() -> Path:
    """The folder with `suites/` and `clusters/`; `NIGHTBENCH_DAGS` names another one."""
    return Path(os.environ.get("NIGHTBENCH_DAGS") or own_folder("dags"))


def benchmarks_folder() -> Path:
    """The tree that is shipped to the nodes; `NIGHTBENCH_BENCHMARKS` names another one."""
    return Path(os.environ.get("NIGHTBENCH_BENCHMARKS") or own_folder("benchmarks"))


def home_folder() -> Path:
    """The state folder: `NIGHTBENCH_HOME`; else `.nightbench` of the checkout.

    Where there is no checkout, it lies in Airflow's home: all of its processes agree on that.
    """
    usual = (
        CHECKOUT / ".nightbench"
        if CHECKOUT
        else Path(os.environ.get("AIRFLOW_HOME") or "~/airflow") / "nightbench"
    )
    return written_path(os.environ.get("NIGHTBENCH_HOME") or usual)


def wheels_folder() -> Path:
    """The folder whose wheels a run may name: `NIGHTBENCH_WHEELS`, else `wheels/` in the home."""
    return Path(os.environ.get("NIGHTBENCH_WHEELS") or home_folder() / "wheels")


def spool_root() -> str | Path:
    """The folder or fsspec URL of the spool: `NIGHTBENCH_SPOOL`, else `spool/` in the home."""
    return os.environ.get("NIGHTBENCH_SPOOL") or home_folder() / "spool"


def written_path(written: str | Path) -> Path:
    """Return the absolute path that a person wrote, `~` replaced where there is such a user.

    Whether it is there is asked by `os.path.exists` and `isfile`: unlike those of `Path` they
    raise nothing for a path that is too long.
    """
    return Path(os.path.expanduser(written)).absolute()
