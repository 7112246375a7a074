"""Checks the files of a line or workload without running them."""

import ast
import re
import symtable
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from nightbench.config.source import ConfigError, Document, Problem, display, read_text
from nightbench.core.complaints import Key, describe
from nightbench.core.errors import UserError
from nightbench.core.model import Cost, WorkloadInfo, series_key
from nightbench.core.model_flops import evaluate

OLDEST = "3.7"
"""Python that must be able to read every file, unless its line has a newer one."""

LINE_NAMES = {"launch": ("processes",), "runtime": ("Runtime",), "trainer": ("Trainer",)}
"""File of a line, without its ending -> what it has to define."""
MODEL_NAMES = ("model", "loss")
DATA_NAMES = ("batch", "weights")

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;+\\]+)", re.MULTILINE)


def code_errors(
    paths: Iterable[Path], python: str | None, expected: Mapping[str, Iterable[str]]
) -> list[str]:
    """Return a message with the file for each that is no Python, or lacks what it must define.

    `python` is a series, "3.7", the oldest that nodes may have when None; a newer one than this
    process's own is checked as this process's own. `expected` are names that a file has to define,
    by its own name without the ending.
    """
    series = python or OLDEST
    found = []
    for path in paths:
        try:
            source = path.read_bytes()
        except OSError as error:
            found.append(f"{display(path)}: cannot be read: {error.strerror}")
            continue
        defined, line, wrong = _read(source, _version(series))
        said = f"not valid Python {series}: {wrong}" if wrong else ""
        if not wrong:
            lacking = [x for x in expected.get(path.stem, ()) if x not in defined]
            if lacking and "*" not in defined:
                said = f"defines no {' and no '.join(f'`{name}`' for name in lacking)}"
                said += _instead(defined)
        if said:
            found.append(str(ConfigError(path, [Problem(line, "", said)])))
    return found


@lru_cache(maxsize=1024)
def _read(source: bytes, version: tuple[int, int]) -> tuple[frozenset[str], int, str]:
    """Return the names that a module has, and the line and the words of what is no Python."""
    try:
        return _defined(source, ast.parse(source, feature_version=version).body), 1, ""
    except SyntaxError as error:
        return frozenset(), error.lineno or 1, error.msg
    except ValueError as error:
        return frozenset(), 1, str(error)


def _instead(defined: Iterable[str]) -> str:
    own = sorted(name for name in defined if not name.startswith("_"))
    return f"; found {', '.join(own)}" if own else "; found nothing"


def _defined(source: bytes, body: Iterable[ast.stmt]) -> frozenset[str]:
    """Return the names that a module has; `*` if it imports names that are not said."""
    symbols = symtable.symtable(source.decode("utf-8-sig", "replace"), "", "exec").get_symbols()
    found = {each.get_name() for each in symbols if each.is_assigned() or each.is_imported()}
    stars = (x for each in body if isinstance(each, ast.ImportFrom) for x in each.names)
    found |= {"*" for each in stars if each.name == "*"}
    return frozenset(found)


def oldest_of(series: Iterable[str | None]) -> str | None:
    """Return the oldest series; None if one is not known, or there is none."""
    known = list(series)
    stated = [each for each in known if each is not None]
    return min(stated, key=series_key) if stated and stated == known else None


def _version(series: str) -> tuple[int, int]:
    major, minor = series_key(series)
    return min((major, minor), sys.version_info[:2])


def versions_in(lock: Path, package: str) -> tuple[str, ...]:
    """Return the versions of a package that a lock pins, the newest last.

    Older ones are for Pythons that the newest has dropped. A post-release counts as its release: it
    is the same code, built for another CUDA, say.

    Raises:
        UserError: the lock cannot be read, or pins nothing.
    """
    pins = _PINNED.findall(read_text(lock))
    if not pins:
        raise UserError(f"{display(lock)}: found no pinned package; expected `name==version`")
    pinned = {
        found.partition(".post")[0]
        for name, found in pins
        if canonicalize_name(name) == canonicalize_name(package)
    }
    return tuple(sorted(pinned, key=Version))


def complain_of_parameters(document: Document, scale: str, parameters: Mapping[str, Any]) -> None:
    """Complain of the parameters of a scale that the control plane reads itself."""
    units = parameters.get("units_per_example", 1)
    lengths = parameters.get("by_sequence_length", {})
    rules = {
        "converges": (isinstance(parameters.get("converges", False), bool), "true or false"),
        "units_per_example": (type(units) is int and units >= 1, "a whole number of at least 1"),
        "by_sequence_length": (
            isinstance(lengths, dict)
            and all(x.isdecimal() and isinstance(changes, dict) for x, changes in lengths.items()),
            'lengths with their parameters, as {"128": {"predictions": 20}}',
        ),
    }
    for name, (is_right, expected) in rules.items():
        if not is_right:
            said = f"found {describe(parameters[name])}; expected {expected}"
            document.complain(("scales", scale, name), said)


def complain_of_formulas(document: Document, file: WorkloadInfo, cost: Cost) -> None:
    """Complain of formulas that have no value at a scale."""
    formulas: dict[Key, str] = {("cost", "forward", k): x for k, x in cost.forward.items()}
    for term in cost.computed.keys() - cost.forward.keys():
        document.complain(("cost", "computed", term), "found no such name in `cost.forward`")
    if cost.tokens is not None:
        formulas["cost", "tokens"] = cost.tokens
    if cost.kept is not None:
        formulas |= {("cost", "kept", name): each for name, each in cost.kept.formulas().items()}
        formulas["cost", "kept"] = "layers * sequence_length"
    if file.expert is not None:
        formulas["expert", "parameters"] = file.expert.parameters
    if file.pipeline is not None:
        formulas["pipeline", "parameters"] = file.pipeline.parameters
    for key, formula in formulas.items():
        for scale, parameters in file.scales.items():
            try:
                evaluate(formula, {"parameters": file.parameters, **parameters})
            except ValueError as error:
                document.complain(key, f"at the scale {scale}: {error}")
                break
