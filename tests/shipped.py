"""A copy of what Nightbench ships to the nodes."""

from __future__ import annotations

import shutil
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def shipped(folder: Path, tree: Path = BENCHMARKS) -> Path:
    """Copy a tree as it is now into a folder: somebody may edit it while the tests run."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    return Path(shutil.copytree(tree, folder / "benchmarks", ignore=ignored))
