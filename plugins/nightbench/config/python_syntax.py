"""Syntax errors of the files that nodes run, found without running them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

from nightbench.config.source import ConfigError, Problem

OLDEST = "3.7"
"""What every file has to be readable for unless its line has a newer interpreter."""


def syntax_errors(paths: Iterable[Path], python: str | None) -> list[str]:
    """Return a message with file and line for each file that is no Python of a series.

    Args:
        paths: the files.
        python: series of the interpreter, "3.7"; the oldest that nodes may have when None.
            A newer one than this process's own is checked as this process's own.
    """
    series = python or OLDEST
    version = _version(series)
    found = []
    for path in paths:
        try:
            ast.parse(path.read_bytes(), str(path), feature_version=version)
        except SyntaxError as error:
            problem = Problem(error.lineno or 1, "", f"not valid Python {series}: {error.msg}")
        except ValueError as error:
            problem = Problem(1, "", f"not valid Python {series}: {error}")
        else:
            continue
        found.append(str(ConfigError(path, [problem])))
    return found


def oldest_of(series: Iterable[str | None]) -> str | None:
    """Return the oldest series; None where one is not known, or there is none."""
    known = list(series)
    if not known or None in known:
        return None
    return min((each for each in known if each is not None), key=_version)


def _version(series: str) -> tuple[int, int]:
    major, _, minor = series.partition(".")
    return min((int(major), int(minor)), sys.version_info[:2])
