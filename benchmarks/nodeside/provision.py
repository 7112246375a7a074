"""Framework environments: named by what they hold, built beside and renamed, found for nothing."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import time
from typing import Any

from nodeside import interpreters, uvtool
from nodeside.files import (
    AgentError,
    explain,
    free_bytes,
    probe_writable,
    read_json,
    utc_now,
    write_json,
)
from nodeside.locks import NodeLock, holder_document, lock_path

SPARE = 1.1
"""Room that has to be free, as a multiple of the environment's size."""


class Unavailable(Exception):
    """The interpreter or the packages cannot be had on this node."""

    def __init__(self, reason: str, hint: str, log: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint
        self.log = log


class Recipe:
    """What an environment is made of, and thereby its name.

    Args:
        code: folder of the shipped code.
        line: framework line.
        variant: which lock.
        version: other version of the main package than the lock's.
        wheel: path of a wheel that takes its place.

    Raises:
        AgentError: the line, the variant or the wheel is not there.
    """

    def __init__(
        self, code: str, line: str, variant: str, version: str | None, wheel: str | None
    ) -> None:
        folder = os.path.join(code, "frameworks", line)
        described = read_json(os.path.join(folder, "framework.json"))
        if described is None:
            raise AgentError("the shipped code has no framework {!r}".format(line))
        self.line = line
        self.variant = variant
        self.info: dict[str, Any] = described
        self.python: str | None = described["python"]
        self.package: str = described.get("package") or line
        self.lock = os.path.join(folder, "requirements-{}.lock".format(variant))
        self.version = version if version != described["version"] else None
        self.wheel = wheel
        if self.python is None:
            return
        if not os.path.exists(self.lock):
            raise AgentError(
                "framework {} has no variant {!r}: {} is not there".format(
                    line, variant, os.path.basename(self.lock)
                ),
                "variants of this line: {}".format(", ".join(described["variants"])),
            )
        with open(self.lock) as handle:
            self.requirements = handle.read()
        digest = hashlib.sha256()
        wheel_digest = _file_digest(wheel) if wheel else ""
        for part in (self.requirements, self.python, variant, self.version or "", wheel_digest):
            digest.update(part.encode() + b"\0")
        self.name = "{}-{}-{}".format(line, variant, digest.hexdigest()[:12])


def _file_digest(path: str) -> str:
    total = hashlib.sha256()
    try:
        with open(path, "rb") as handle:
            for piece in iter(lambda: handle.read(1 << 20), b""):
                total.update(piece)
    except OSError as error:
        raise AgentError("cannot read the wheel {}: {}".format(path, error.strerror)) from error
    return total.hexdigest()


def provision(options: argparse.Namespace, code: str) -> dict[str, Any]:
    """Build or find an environment; the verb's document.

    Returns:
        {"python", "env", "built", "seconds"}, or {"unavailable", "hint", "log"} where the
        interpreter or the packages cannot be had here.

    Raises:
        AgentError: bad arguments, no room, no rights.
    """
    began = time.monotonic()
    recipe = Recipe(code, options.line, options.variant, options.version, options.wheel)
    if recipe.python is None:
        return {"python": sys.executable, "env": None, "built": False, "seconds": 0.0}
    env = os.path.join(options.root, "envs", recipe.name)
    python = os.path.join(env, "bin", "python")
    built = False
    try:
        if not _is_complete(env):
            built = _build_locked(recipe, env, options)
        _note_use(env)
    except Unavailable as why:
        document = {"unavailable": str(why), "hint": why.hint, "log": why.log}
        return {key: value for key, value in document.items() if value is not None}
    except OSError as error:
        raise explain(error, options.root) from error
    seconds = round(time.monotonic() - began, 3)
    return {"python": python, "env": env, "built": built, "seconds": seconds}


def _is_complete(env: str) -> bool:
    return os.path.exists(os.path.join(env, ".ok.json")) and os.access(
        os.path.join(env, "bin", "python"), os.X_OK
    )


def _note_use(env: str) -> None:
    """The marker's time says when an environment was last used; `clean` goes by it."""
    try:
        os.utime(os.path.join(env, ".ok.json"))
    except PermissionError:
        return  # another user's environment on a shared root: its owner cleans


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _build_locked(recipe: Recipe, env: str, options: argparse.Namespace) -> bool:
    """Build under the node's lock; False where somebody else did so meanwhile."""
    lock = NodeLock(lock_path(options.lock_dir, os.environ))
    try:
        job = "provision {}".format(recipe.name)
        shown: Any = lock
        while not lock.acquire(holder_document(job, os.environ)):
            holder = lock.holder()
            if holder != shown:
                shown = holder
                known = holder or {}
                _say(
                    "waiting for the node: held by {} of {} since {}".format(
                        known.get("job_id"), known.get("user"), known.get("since")
                    )
                )
            time.sleep(0.5)
            if _is_complete(env):
                return False
        if _is_complete(env):
            return False
        _build(recipe, env, options)
        return True
    finally:
        lock.close()


def _build(recipe: Recipe, env: str, options: argparse.Namespace) -> None:
    root = options.root
    envs = os.path.join(root, "envs")
    probe_writable(envs)
    os.makedirs(os.path.join(root, "logs"), exist_ok=True)
    needed = int(recipe.info.get("size_bytes", 0) * SPARE)
    if free_bytes(envs) < needed:
        raise AgentError(
            "disk full: framework {} needs {:.1f} GB below {}, {:.1f} GB are free".format(
                recipe.line, needed / 1e9, envs, free_bytes(envs) / 1e9
            ),
            "make room there (`nightbench clean`), or put `environments.root` on another disk",
        )
    log = os.path.join(root, "logs", "provision-{}.log".format(recipe.name))
    uv = uvtool.Uv(options.uv or interpreters.any_uv(root), root, log, options)
    interpreter = _interpreter(recipe, uv)
    beside = os.path.join(envs, ".building-{}-{}".format(os.getpid(), recipe.name))
    shutil.rmtree(beside, ignore_errors=True)
    try:
        _say("{}: making an environment with {}".format(recipe.name, interpreter))
        uv.must("venv", "--relocatable", "--python", interpreter, beside)
        _install(recipe, uv, beside, options)
        write_json(
            os.path.join(beside, ".ok.json"),
            {
                "line": recipe.line,
                "variant": recipe.variant,
                "version": recipe.version or recipe.info["version"],
                "wheel": os.path.basename(recipe.wheel) if recipe.wheel else None,
                "interpreter": interpreter,
                "built_at": utc_now(),
            },
            durable=True,
        )
        _rename(beside, env)
    except uvtool.UvFailure as failure:
        raise _why(recipe, failure, log) from failure
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    _say("{}: ready".format(recipe.name))


def _rename(beside: str, env: str) -> None:
    if os.path.isdir(env) and not _is_complete(env):
        broken = env + ".broken-{}".format(os.getpid())
        os.rename(env, broken)
        shutil.rmtree(broken, ignore_errors=True)
    try:
        os.rename(beside, env)
    except OSError:
        # With a shared home another node, under its own lock, may have come first.
        if not _is_complete(env):
            raise


def _interpreter(recipe: Recipe, uv: uvtool.Uv) -> str:
    series = str(recipe.python)
    found = interpreters.find(series, uv.path)
    if found:
        return found
    _say("no Python {} on this node: asking uv for one".format(series))
    downloaded = uv.run("python", "install", "--no-bin", series)
    found = interpreters.find(series, uv.path, uv.env) if downloaded is None else None
    found = found or uv.managed_python(series)
    if found:
        return found
    raise Unavailable(
        "there is no Python {} on this node, and it could not be downloaded".format(series),
        "Install Python {0} (deadsnakes, `pyenv install {0}`, or `uv python install {0}` with "
        "network access) so that python{0} is on PATH or under ~/.pyenv/versions".format(series),
        uv.log,
    )


def _install(recipe: Recipe, uv: uvtool.Uv, env: str, options: argparse.Namespace) -> None:
    python = os.path.join(env, "bin", "python")
    replaced = bool(recipe.wheel or recipe.version)
    lock, pinned = uvtool.without(recipe.requirements, recipe.package)
    path = os.path.join(env, "requirements.lock")
    with open(path, "w") as handle:
        handle.write(lock if replaced else recipe.requirements)
    _say("{}: installing the locked packages".format(recipe.name))
    uv.install(recipe.package, python, ["--require-hashes", "-r", path], recipe.variant)
    if not replaced:
        return
    what = recipe.wheel or "{}=={}".format(
        recipe.package, uvtool.like_build(str(recipe.version), pinned)
    )
    _say("{}: installing {}".format(recipe.name, os.path.basename(what)))
    uv.install(recipe.package, python, [what], recipe.variant)


def _why(recipe: Recipe, failure: uvtool.UvFailure, log: str) -> Exception:
    """A failure of uv as what the user has to know."""
    text = failure.said
    if "No space left on device" in text or "os error 28" in text:
        return AgentError(
            "disk full: No space left on device while building {}".format(recipe.name),
            "make room below `environments.root` (`nightbench clean`)",
            log,
        )
    hint = (
        "Give the node an index (`environments.index_url`, `find_links`, or pip's own "
        "configuration there), or ship wheels from the controller (`environments.wheelhouse`)"
    )
    if recipe.package == "torch" and recipe.variant == "cpu":
        hint += (
            ". PyTorch's CPU build comes from https://download.pytorch.org/whl/cpu, or from a "
            "folder that holds its wheel: PIP_FIND_LINKS=/folder in the node's environment"
        )
    return Unavailable(
        "the packages of {} ({}) could not be installed: {}".format(
            recipe.line, recipe.variant, shortly(text)
        ),
        hint,
        log,
    )


def shortly(said: str) -> str:
    """The end of uv's output without what stands between a failure and its root."""
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()]
    causes = [line for line in lines if line.lower().startswith("cause:")]
    if len(causes) > 1:
        lines = [causes[0][len("cause:") :].strip(), causes[-1][len("cause:") :].strip()]
        return ": ".join(lines)[:600]
    return " ".join(lines[-6:])[-600:]
