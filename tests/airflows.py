"""Environments with other versions of Airflow, for tests of the wheel in a team's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
UV = Path(sys.prefix) / "bin" / "uv"

AIRFLOWS = {
    # Airflow's constraints are what was newest when it was released: so is this.
    "3.2": ("apache-airflow==3.2.2", "--exclude-newer", "2026-06-10"),
    "3.3": ("apache-airflow",),
}
"""Each supported minor version -> its requirement, and what bounds the packages around it."""
TOO_OLD = ("apache-airflow==3.1.8", "--exclude-newer", "2026-03-20")


def of_this_commit() -> str:
    """Return the minor version that the tests of a commit take: each landing takes the next.

    `NIGHTBENCH_AIRFLOW_VERSION` names another one. A tree without history takes the newest.
    """
    count = ["git", "rev-list", "--count", "HEAD"]
    done = subprocess.run(count, cwd=REPO, capture_output=True, text=True, check=False)
    by_turns = list(AIRFLOWS)[int(done.stdout.strip() or -1) % len(AIRFLOWS)]
    return os.environ.get("NIGHTBENCH_AIRFLOW_VERSION") or by_turns


def build_wheel(folder: Path) -> Path:
    """Return a wheel of this tree."""
    subprocess.run([UV, "build", "-q", "--wheel", "-o", folder, REPO], check=True)
    (made,) = folder.glob("*.whl")
    return made


def install(venv: Path, requirement: str, *airflow: str) -> subprocess.CompletedProcess[str]:
    """Make an environment with a requirement and an Airflow; return what the installer said."""
    subprocess.run([UV, "venv", "-q", "-p", sys.executable, venv], check=True)
    words = [UV, "pip", "install", "-q", "-p", venv, requirement, *airflow]
    return subprocess.run(words, capture_output=True, text=True, check=False)
