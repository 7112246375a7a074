"""The verb `commit`: builds the wheel of a commit by its repository's recipe, under the locks.

<root>/commits/<repository>/mirror.git      its branches and what was asked for; kept
<root>/commits/<repository>/<build>/        build.log, and wheel/ if one was made; the
                                            caller takes it and removes the folder
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import signal
import sys
import time
from typing import Any, Sequence

from nodeside import hangup, interpreters, sweep
from nodeside.buildlock import both_locks
from nodeside.files import explain, file_digest, read_json, tail, write_json
from nodeside.processes import AGENT_MARK, AGENT_NODE, JOB_MARK, NODE_MARK


class _Failed(Exception):
    """The build failed; the message says why."""


class _TimeIsUp(BaseException):
    """The build's time limit is reached; `finally` blocks clean up."""


def commit(options: argparse.Namespace, code: str) -> dict[str, Any]:
    """Build a commit, or find a build that was not fetched yet; return the verb's document.

    Returns:
        {"wheel", "sha256", "size", "seconds"}, or {"failed", "said", "late"} if it cannot be
        built; with `branch`, {"commit"}: where it left the branch, or why that is not known.

    Raises:
        AgentError: bad arguments, no space, or no permission.
    """
    folder = os.path.join(options.root, "commits", options.repository)
    made = os.path.join(folder, options.build)
    hangup.end_with_reader()
    try:
        os.makedirs(folder, exist_ok=True)
        build = _Build(options, code, folder, made)
        with both_locks(options.repository, folder, options.lock_dir, build.is_there) as mine:
            if mine:
                build.remove_leftovers()
                return build.run()
        return build.answer()
    except hangup.Cancelled as why:
        raise SystemExit(143) from why
    except OSError as error:
        raise explain(error, options.root) from error


class _Build:
    def __init__(self, options: argparse.Namespace, code: str, folder: str, made: str) -> None:
        self._options = options
        self._code = code
        self._folder = folder
        self._made = made
        self._mirror = os.path.join(folder, "mirror.git")
        self._beside = os.path.join(folder, ".building-{}".format(os.getpid()))
        self._env = {
            **os.environ,
            "GIT_TERMINAL_PROMPT": "0",
            "TMPDIR": os.path.join(self._beside, "tmp"),
            # By these `sweep` finds what a command leaves: it outlives its agent.
            JOB_MARK: os.environ.get(AGENT_MARK) or "commits/" + options.build,
            NODE_MARK: os.environ.get(AGENT_NODE, ""),
        }
        for name in (AGENT_MARK, AGENT_NODE, "VIRTUAL_ENV", "PYTHONPATH"):
            self._env.pop(name, None)

    def is_there(self) -> bool:
        """Return whether it was built and not yet fetched."""
        return not self._options.branch and self.answer() is not None

    def answer(self) -> Any:
        """Return the document of what was built; None if nothing was."""
        return read_json(os.path.join(self._made, "built.json"))

    def remove_leftovers(self) -> None:
        """Remove what a build that died has left: its processes, its files, its locks in git."""
        sweep.sweep(None, kill=True)
        for half in glob.glob(os.path.join(glob.escape(self._folder), ".building-*")):
            shutil.rmtree(half, ignore_errors=True)
        shutil.rmtree(self._made, ignore_errors=True)
        pattern = os.path.join(glob.escape(self._mirror), "**", "*.lock")
        for lock in glob.glob(pattern, recursive=True):
            os.remove(lock)

    def run(self) -> dict[str, Any]:
        """Build it; nothing is left of a build that is ended."""
        began = time.monotonic()
        os.makedirs(os.path.join(self._beside, "tmp"))

        def time_is_up(number: int, frame: Any) -> None:
            raise _TimeIsUp

        signal.signal(signal.SIGALRM, time_is_up)
        signal.setitimer(signal.ITIMER_REAL, self._options.timeout)
        try:
            try:
                self._fetch()
                if self._options.branch:
                    return {"commit": self._merge_base()}
                found = self._make()
            except _Failed as why:
                found = {"failed": str(why)}
            except _TimeIsUp:
                late = "it took longer than {:.0f} s".format(self._options.timeout)
                found = {"failed": late, "late": True}
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                sweep.sweep(self._env[JOB_MARK], kill=True)
            if "failed" in found:
                found["said"] = tail(os.path.join(self._beside, "build.log"), 2000)
            if self._options.branch:
                return found
            for name in ("source", "tmp"):
                shutil.rmtree(os.path.join(self._beside, name), ignore_errors=True)
            found["seconds"] = round(time.monotonic() - began, 3)
            if "failed" not in found:
                write_json(os.path.join(self._beside, "built.json"), found, durable=True)
            os.rename(self._beside, self._made)
            return found
        finally:
            shutil.rmtree(self._beside, ignore_errors=True)

    def _fetch(self) -> None:
        options = self._options
        if not os.path.isdir(self._mirror):
            self._must("git", "init", "--quiet", "--bare", self._mirror)
        git = ("git", "-C", self._mirror)
        # Without gc: objects that a branch has lost stay.
        fetch = (*git, "fetch", "--quiet", "--no-auto-gc")
        self._must(*fetch, "--prune", "--", options.url, "+refs/heads/*:refs/heads/*")
        have = (*git, "cat-file", "-e", options.commit + "^{commit}")
        if self._run(have) != 0:
            # A server gives what no branch has, such as a change's head, only by its name.
            kept = "{0}:refs/nightbench/{0}".format(options.commit)
            self._must(*fetch, "--", options.url, kept)

    def _merge_base(self) -> str:
        said = os.path.join(self._beside, "merge-base")
        branch = "refs/heads/" + self._options.branch
        with open(said, "wb") as out:
            words = ("git", "-C", self._mirror, "merge-base", branch, self._options.commit)
            ended = hangup.run(words, self._env, out)
        with open(said) as out:
            text = out.read().strip()
        if ended != 0:
            raise _Failed(
                "{} has no commit in common with branch {}: {}".format(
                    self._options.commit, self._options.branch, text[-500:]
                )
            )
        return text

    def _make(self) -> dict[str, Any]:
        options = self._options
        source, out = (os.path.join(self._beside, name) for name in ("source", "wheel"))
        os.makedirs(out)
        self._must("git", "clone", "--quiet", "--shared", "--no-checkout", self._mirror, source)
        git = ("git", "-C", source)
        self._must(*git, "remote", "set-url", "origin", options.url)
        self._must(*git, "checkout", "--quiet", "--detach", options.commit)
        named = {"OUT": out, "PYTHON": self._interpreter(), "COMMIT": options.commit}
        if options.uv:
            named["UV"] = options.uv
        self._env.update(named)
        for line in options.command:
            self._must("sh", "-ec", line, folder=source)
        found = sorted(os.listdir(out))
        if len(found) != 1 or not found[0].endswith(".whl"):
            raise _Failed(
                "the recipe left {} in $OUT; expected one wheel".format(
                    ", ".join(found[:5]) or "nothing"
                )
            )
        wheel = os.path.join(out, found[0])
        if os.path.islink(wheel) or not os.path.isfile(wheel):
            raise _Failed("the recipe left {} in $OUT, which is no file".format(found[0]))
        size = os.path.getsize(wheel)
        return {"wheel": found[0], "sha256": file_digest(wheel), "size": size}

    def _interpreter(self) -> str:
        described = read_json(
            os.path.join(self._code, "frameworks", self._options.line, "framework.json")
        )
        variants = (described or {}).get("variants", {}).values()
        pythons = {series for each in variants for series in each.get("pythons", [])}
        if not pythons:
            return sys.executable
        here = interpreters.those_here(pythons, self._options.uv, self._options.root)
        if not here:
            listed = " or ".join(sorted(pythons, key=interpreters.version))
            raise _Failed("there is no Python {} on this node".format(listed))
        return next(iter(here.values()))

    def _must(self, *words: str, folder: str | None = None) -> None:
        ended = self._run(words, folder)
        if ended != 0:
            shown = words[-1] if folder else "git " + words[3 if words[1] == "-C" else 1]
            raise _Failed("`{}` ended with {}".format(shown, ended))

    def _run(self, words: Sequence[str], folder: str | None = None) -> int:
        with open(os.path.join(self._beside, "build.log"), "ab") as log:
            shown = words[-1] if folder else " ".join(words)
            log.write("$ {}\n".format(shown).encode())
            log.flush()
            try:
                return hangup.run(words, self._env, log, folder)
            except FileNotFoundError as error:
                raise _Failed("there is no {} on this node".format(words[0])) from error
