"""Framework environments: named by their content, built once under another name and renamed."""

from __future__ import annotations

import argparse
import glob
import os
import re
import shutil
import socket
import sys
import time
from typing import Any, Mapping, Sequence

from nodeside import hangup, interpreters, libraries, smi, uvtool
from nodeside.buildlock import both_locks
from nodeside.files import (
    AgentError,
    explain,
    free_bytes,
    probe_writable,
    read_json,
    utc_now,
    write_json,
)
from nodeside.recipe import Recipe, RecipeError

SPARE = 1.1
"""Free space needed, as a multiple of the environment's size."""


class Unavailable(AgentError):
    """The interpreter or the packages are not available on this node."""


def provision(options: argparse.Namespace, code: str) -> dict[str, Any]:
    """Build or find an environment; return the verb's document.

    Returns:
        {"python", "env", "built", "seconds"}, or {"unavailable", "hint", "log"} if the
        interpreter or the packages are not available here, or the line has no such lock. With
        `--ask` nothing is built: {"pythons"}, the series of the lock that run here, newest first.

    Raises:
        AgentError: bad arguments, no space, or no permission.
    """
    began = time.monotonic()
    try:
        recipe = Recipe(code, options.line, options.variant, options.version, options.wheel)
    except RecipeError as why:
        return {"unavailable": str(why), "hint": why.hint}
    uv = options.uv or interpreters.any_uv(options.root)
    here = interpreters.those_here(recipe.pythons, uv, options.root)
    if options.ask:
        return {"pythons": list(here)}
    if not recipe.pythons:
        return {"python": sys.executable, "env": None, "built": False, "seconds": 0.0}
    hangup.end_with_reader()
    try:
        if not options.anywhere:
            _refuse_unfit_gpus(recipe)
        series, env, built = _with_newest(recipe, here, options)
        _note_use(env)
    except Unavailable as why:
        document = {"unavailable": str(why), "hint": why.hint, "log": why.log}
        return {key: value for key, value in document.items() if value is not None}
    except hangup.Cancelled as why:
        said = "{} {}: the build was stopped ({}); its files are removed"
        _quietly(said.format(recipe.line, recipe.variant, why))
        raise SystemExit(143) from why
    except OSError as error:
        raise explain(error, options.root) from error
    seconds = round(time.monotonic() - began, 3)
    python = os.path.join(env, "bin", "python")
    return {
        **{"python": python, "env": env, "built": built, "seconds": seconds},
        **{"series": series, "pythons": list(here)},
    }


def _with_newest(
    recipe: Recipe, here: Mapping[str, str], options: argparse.Namespace
) -> tuple[str, str, bool]:
    """Return Python and path of an environment, and whether it was built now.

    It gets the newest Python of the lock that this node has and that the packages support; if
    there is none, the newest that uv downloads.

    Raises:
        Unavailable: there is no such Python, or none for which the packages can be installed.
    """
    newest_first = sorted(recipe.pythons, key=interpreters.version, reverse=True)
    wanted = [options.series] if options.series else newest_first
    order = sorted(wanted, key=lambda series: series not in here)
    problems: dict[str, Unavailable] = {}
    for series in order:
        if not set(problems) <= set(here):
            break  # uv could not download one; the next attempt would take as long
        env = os.path.join(options.root, "envs", recipe.name(series))
        try:
            _refuse_foreign(series, env)
            if _is_complete(env):
                return series, env, False
            interpreter = here.get(series) or _downloaded(series, recipe, options)
            if len(recipe.pythons) > 1:
                _say("{}: {}".format(recipe.line, _choice(series, order, here, options)))
            return series, env, _build_locked(recipe, env, interpreter, options)
        except Unavailable as why:
            problems[series] = why
            if len(order) > 1:
                _say("{}: no environment with Python {}: {}".format(recipe.line, series, why))
    first = problems[order[0]]
    raise first if order[0] in here else _no_python(order, first.log)


def _choice(
    series: str, order: Sequence[str], here: Mapping[str, str], options: argparse.Namespace
) -> str:
    """Return a sentence that says which Python an environment gets, and why."""
    if series not in here:
        return "Python {}, downloaded by uv".format(series)
    if options.series:
        return "Python {}, which all nodes of the gang have".format(series)
    newest = "the newest on this node" + ("" if series == order[0] else " with packages")
    return "Python {}, {} of those that its lock supports".format(series, newest)


def _downloaded(series: str, recipe: Recipe, options: argparse.Namespace) -> str:
    """Return an interpreter that uv has downloaded now."""
    uv = _uv(recipe, options)
    _say("no Python {} on this node: asking uv for one".format(series))
    failed = uv.run("python", "install", "--no-bin", series) is not None
    found = None if failed else interpreters.find(series, uv.path, options.root)
    if found is None:
        raise Unavailable("uv could not download this Python", "", uv.log)
    return found


def _no_python(wanted: Sequence[str], log: str | None) -> Unavailable:
    listed = " or ".join(sorted(wanted, key=interpreters.version))
    return Unavailable(
        "there is no Python {} on this node, and none could be downloaded".format(listed),
        "Install Python {0} (deadsnakes, `pyenv install {0}`, or `uv python install {0}` with "
        "network access) so that python{0} is on PATH or under ~/.pyenv/versions".format(wanted[0]),
        log,
    )


def _is_complete(env: str) -> bool:
    return os.path.exists(os.path.join(env, ".ok.json")) and os.access(
        os.path.join(env, "bin", "python"), os.X_OK
    )


def _refuse_foreign(series: str, env: str) -> None:
    """Refuse to rebuild an environment of another host whose interpreter is missing here.

    On a shared root, a rebuild would break the environment for the hosts that can use it.
    """
    made = read_json(os.path.join(env, ".ok.json")) or {}
    if made.get("host") in (None, socket.gethostname()) or _is_complete(env):
        return
    raise Unavailable(
        "the environment {} was built on {} with {}, which is not on this node".format(
            env, made["host"], made.get("interpreter")
        ),
        "Install Python {} at the same path on all nodes that share environments.root, or give "
        "the nodes roots of their own; or remove that folder".format(series),
    )


def _refuse_unfit_gpus(recipe: Recipe) -> None:
    """Refuse a variant that cannot work on this node's GPUs."""
    why = _unfit(recipe.described)
    if why is not None:
        raise Unavailable(
            "{} {} cannot run on this node: {}".format(recipe.line, recipe.variant, why),
            "Choose another variant (`environments.variants` of the cluster, or the suite's "
            "`builds`), update the driver, or run the line on other nodes",
        )


def _unfit(variant: dict[str, Any]) -> str | None:
    """Return why a variant cannot work on this node; None if it can, or states no requirements."""
    driver, capabilities = variant.get("driver"), variant.get("compute_capabilities")
    if not driver and not capabilities:
        return None
    if shutil.which("nvidia-smi") is None:
        least = ", {} or newer".format(driver) if driver else ""
        return "found no nvidia-smi; expected NVIDIA GPUs and their driver" + least
    # There are no rows where nvidia-smi fails; the preflight says why.
    for name, found, capability in smi.rows("--query-gpu=name,driver_version,compute_cap"):
        if driver and _version(found) < _version(driver):
            cuda = " (CUDA {})".format(variant["cuda"]) if "cuda" in variant else ""
            return "found driver {} of {}; expected {} or newer{}".format(found, name, driver, cuda)
        if capabilities and capability not in capabilities:
            return "found compute capability {} of {}; expected one of {}".format(
                capability, name, ", ".join(capabilities)
            )
    return None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _note_use(env: str) -> None:
    """Set the marker's time to now: `clean` reads it as the environment's last use."""
    try:
        os.utime(os.path.join(env, ".ok.json"))
    except PermissionError:
        return  # another user's environment on a shared root: its owner cleans it up


def _quietly(text: str) -> None:
    """Write a line to stderr if it is still open."""
    try:
        _say(text)
    except OSError:
        # It is closed; Python must not fail again when it flushes at its end.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it is open to the very end


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _build_locked(recipe: Recipe, env: str, interpreter: str, options: argparse.Namespace) -> bool:
    """Build under the locks of node and environment; return False if another process built it."""
    envs, name = os.path.split(env)
    probe_writable(envs)
    with both_locks(name, envs, options.lock_dir, lambda: _is_complete(env)) as mine:
        if mine:
            # An incomplete build belongs to a process that has died.
            for half in glob.glob(os.path.join(glob.escape(envs), _half(name, "*"))):
                shutil.rmtree(half, ignore_errors=True)
            _build(recipe, env, interpreter, options)
        return mine


def _half(name: str, pid: object) -> str:
    return ".building-{}-{}".format(pid, name)


def _build(recipe: Recipe, env: str, interpreter: str, options: argparse.Namespace) -> None:
    envs, name = os.path.split(env)
    needed = int(recipe.size_bytes * SPARE)
    if free_bytes(envs) < needed:
        raise AgentError(
            "disk full: framework {} needs {:.1f} GB below {}, {:.1f} GB are free".format(
                recipe.line, needed / 1e9, envs, free_bytes(envs) / 1e9
            ),
            "make room there (`nightbench clean`), or put `environments.root` on another disk",
        )
    uv = _uv(recipe, options)
    beside = os.path.join(envs, _half(name, os.getpid()))
    shutil.rmtree(beside, ignore_errors=True)
    try:
        _say("{}: making an environment with {}".format(name, interpreter))
        uv.must("venv", "--relocatable", "--python", interpreter, beside)
        _install(recipe, uv, beside, options)
        libraries.bring(recipe.libraries, beside)
        write_json(
            os.path.join(beside, ".ok.json"),
            {
                "line": recipe.line,
                "variant": recipe.variant,
                "version": _installed(beside, recipe.package) or recipe.version or recipe.locked,
                "wheel": os.path.basename(recipe.wheel) if recipe.wheel else None,
                "interpreter": interpreter,
                "host": socket.gethostname(),
                "built_at": utc_now(),
            },
            durable=True,
        )
        _rename(beside, env)
    except uvtool.UvFailure as failure:
        raise _why(recipe, failure, uv.log) from failure
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    _say("{}: ready".format(name))


def _installed(env: str, package: str) -> str | None:
    """Return the version of a package in an environment; None if it is not there."""
    name = re.sub(r"[-_.]+", "_", package)
    pattern = os.path.join(glob.escape(env), "lib", "python*", "site-packages", "*.dist-info")
    for path in glob.glob(pattern):
        found, _, version = os.path.basename(path)[: -len(".dist-info")].partition("-")
        if re.sub(r"[-_.]+", "_", found).lower() == name.lower():
            return version
    return None


def _rename(beside: str, env: str) -> None:
    if os.path.isdir(env) and not _is_complete(env):
        broken = env + ".broken-{}".format(os.getpid())
        os.rename(env, broken)
        shutil.rmtree(broken, ignore_errors=True)
    try:
        os.rename(beside, env)
    except OSError:
        # With a shared home another node, under its own lock, may have built it first.
        if not _is_complete(env):
            raise


def _uv(recipe: Recipe, options: argparse.Namespace) -> uvtool.Uv:
    logs = os.path.join(options.root, "logs")
    os.makedirs(logs, exist_ok=True)
    log = os.path.join(logs, "provision-{}-{}.log".format(recipe.line, recipe.variant))
    path = options.uv or interpreters.any_uv(options.root)
    return uvtool.Uv(path, options.root, log, options)


def _install(recipe: Recipe, uv: uvtool.Uv, env: str, options: argparse.Namespace) -> None:
    python = os.path.join(env, "bin", "python")
    replaced = bool(recipe.wheel or recipe.version)
    lock, pinned = uvtool.without(recipe.requirements, recipe.package)
    path = os.path.join(env, "requirements.lock")
    with open(path, "w") as handle:
        handle.write(lock if replaced else recipe.requirements)
    _say("{} {}: installing the locked packages".format(recipe.line, recipe.variant))
    # A lock is complete: what it leaves out of what its packages declare, they do without.
    uv.install(python, ["--no-deps", "--require-hashes", "-r", path], recipe.index)
    if not replaced:
        return
    what = recipe.wheel or "{}=={}".format(
        recipe.package, uvtool.like_build(str(recipe.version), pinned)
    )
    _say("{} {}: installing {}".format(recipe.line, recipe.variant, os.path.basename(what)))
    uv.install(python, [what], recipe.index)


def _why(recipe: Recipe, failure: uvtool.UvFailure, log: str) -> Exception:
    """Return the error that explains a failure of uv to the user."""
    text = str(failure)
    if "No space left on device" in text or "os error 28" in text:
        return AgentError(
            "disk full: No space left on device while building {} {}".format(
                recipe.line, recipe.variant
            ),
            "make room below `environments.root` (`nightbench clean`)",
            log,
        )
    hint = (
        "Give the node an index (`environments.index_url`, `find_links`, or pip's own "
        "configuration there), or ship wheels from the controller (`environments.wheelhouse`)"
    )
    if recipe.index is not None:
        hint += (
            ". The {} build of {} comes from {}, or from a folder that contains its wheel: "
            "PIP_FIND_LINKS=/folder in the node's environment"
        ).format(recipe.variant, recipe.package, recipe.index["url"])
    return Unavailable(
        "the packages of {} ({}) could not be installed: {}".format(
            recipe.line, recipe.variant, shortly(text)
        ),
        hint,
        log,
    )


def shortly(said: str) -> str:
    """Return the end of uv's output, without the lines between a failure and its cause."""
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()]
    causes = [line for line in lines if line.lower().startswith("cause:")]
    if len(causes) > 1:
        lines = [causes[0][len("cause:") :].strip(), causes[-1][len("cause:") :].strip()]
        return ": ".join(lines)[:600]
    return " ".join(lines[-6:])[-600:]
