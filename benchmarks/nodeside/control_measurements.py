"""Control measurements: a node's own speed, to distinguish a slow node from slow code."""

from __future__ import annotations

import glob
import json
import os
import platform
import subprocess
import time
from typing import Any, Mapping, Sequence

from nodeside.files import AgentError, read_json
from nodeside.root_folder import environments

VALUES = 7
_BUDGET_S = 1.2
"""Seconds for each control measurement of the CPU."""
_SIDE = 48
_COPY_BYTES = 32 * 2**20


def of_cpu(cpus: Sequence[int]) -> list[dict[str, Any]]:
    """Measure a matrix product and a memory copy in this interpreter, on one of the job's cores.

    These are rates of the interpreter, not of the node: compare them only with each other.
    """
    allowed = os.sched_getaffinity(0)
    if cpus:
        os.sched_setaffinity(0, set(cpus) & allowed or allowed)
    try:
        backend = "python-{}.{}".format(*platform.python_version_tuple()[:2])
        named = {"backend": backend, "device": "cpu"}
        product, copied = _rates(_matrix_product()), _rates(_memory_copy())
        return [
            dict(named, metric="matrix_product", unit="GFLOP/s", values=product),
            dict(named, metric="memory_copy", unit="GB/s", values=copied),
        ]
    finally:
        os.sched_setaffinity(0, allowed)


def _rates(work: Any) -> list[float]:
    """Return at least five rates in 1e9/s; fewer than `VALUES` on a slow machine."""
    work()
    found: list[float] = []
    begun_s = time.perf_counter()
    while len(found) < 5 or (len(found) < VALUES and time.perf_counter() - begun_s < _BUDGET_S):
        before_s = time.perf_counter()
        amount = work()
        found.append(amount / (time.perf_counter() - before_s) / 1e9)
    return found


def _matrix_product() -> Any:
    rows = [[float((i * j) % 7) for j in range(_SIDE)] for i in range(_SIDE)]
    columns = [list(column) for column in zip(*rows)]
    often = 4

    def work() -> float:
        for _ in range(often):
            for row in rows:
                for column in columns:
                    sum(map(float.__mul__, row, column))
        return often * 2.0 * _SIDE**3

    return work


def _memory_copy() -> Any:
    source, target = bytearray(os.urandom(4096) * (_COPY_BYTES // 4096)), bytearray(_COPY_BYTES)
    to, often = memoryview(target), 3

    def work() -> float:
        for _ in range(often):
            to[:] = source
        return float(often * _COPY_BYTES)

    return work


def of_devices(
    kind: str, code: str, root: str, prefixes: Mapping[str, str]
) -> tuple[list[dict[str, Any]], str | None]:
    """Return rates of every GPU by the first framework line that measures them, and any problem.

    Args:
        kind: kind of the devices, as named in `controls` of framework.json.
        code: folder of the shipped code.
        root: folder of Nightbench on the node; the line's newest environment there is used.
        prefixes: framework line -> prefix used instead of an environment.
    """
    found = _script_of(kind, code, root, prefixes)
    return run_script(*found) if found else ([], None)


def become_rank(
    kind: str, code: str, root: str, prefixes: Mapping[str, str], words: Sequence[str]
) -> None:
    """Become one node's part in an all-reduce between devices of several nodes, by the same script.

    The script gets `words` on its command line; for the other arguments see `of_devices`.

    Raises:
        AgentError: no line here has such a script.
    """
    found = _script_of(kind, code, root, prefixes)
    if found is None:
        raise AgentError(
            "no framework line on this node has a script of control measurements for " + kind
        )
    os.execv(found[0], [*found, *words])


def _script_of(
    kind: str, code: str, root: str, prefixes: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return the interpreter and the script of the first framework line that has both."""
    newest = {env["line"]: env for env in sorted(environments(root), key=lambda e: e["used_at_s"])}
    for path in sorted(glob.glob(os.path.join(glob.escape(code), "frameworks/*/framework.json"))):
        folder = os.path.dirname(path)
        line = os.path.basename(folder)
        script = (read_json(path) or {}).get("controls", {}).get(kind)
        prefix = prefixes.get(line)
        if prefix is None and line in newest:
            prefix = os.path.join(root, "envs", newest[line]["name"])
        if script is not None and prefix is not None:
            python = os.path.join(os.path.expanduser(prefix), "bin", "python")
            return python, os.path.join(folder, script)
    return None


def run_script(
    python: str, script: str, timeout_s: float = 120.0
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the results of a line's control script, and why results are missing.

    Args:
        python: interpreter of the line's environment.
        script: prints JSON lists of measurements; the last counts (docs/add-a-framework.md).
        timeout_s: importing a framework takes most of it.
    """
    try:
        done = subprocess.run(
            [python, script, str(VALUES)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as late:
        why = "the control measurements of {} took longer than {:g} s".format(script, timeout_s)
        return _last_list(late.stdout or b""), why
    except OSError as error:
        return [], "cannot run {}: {}".format(python, error.strerror)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        why = "the control measurements of {} failed: {}".format(script, " ".join(said)[:300])
        return _last_list(done.stdout), why
    return _last_list(done.stdout, whole=True), None


def _last_list(printed: bytes, whole: bool = False) -> list[dict[str, Any]]:
    """Return a script's last complete JSON list; with `whole`, incomplete output is an error."""
    found, rest = None, printed.decode("utf-8", "replace").strip()
    while rest or (whole and found is None):
        try:
            found, end = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            if whole:
                raise
            break
        rest = rest[end:].lstrip()
    return list(found or [])
