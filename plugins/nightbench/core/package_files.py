"""Folders that belong to Nightbench itself: `dags`, `benchmarks`, `sql`, `docs`.

A checkout has them next to `plugins/`; a wheel has copies inside the package (pyproject.toml).
"""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
_INSTALLED = PACKAGE / "_files"

CHECKOUT = None if _INSTALLED.is_dir() else PACKAGE.parents[1]
"""The root of the checkout that the package runs from; None if it was installed from a wheel."""


def package_folder(name: str) -> Path:
    """Return the absolute path of one of the folders; it may be missing."""
    return (CHECKOUT or _INSTALLED) / name
