"""Running uv on a node with the site's indexes, its output kept in a log."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any, Mapping, Sequence

from nodeside import hangup, interpreters
from nodeside.files import AgentError, utc_now
from nodeside.pipconfig import uv_environment
from nodeside.tracebacks import without_logins


class UvFailure(Exception):
    """uv failed; the message is the end of its output."""


class Uv:
    """One uv binary with the environment that provisioning gives it.

    Args:
        path: the binary.
        root: folder of Nightbench on the node; its cache and interpreters go below.
        log: file that all output is appended to.
        options: `index_url`, `find_links`, `wheelhouse` of the verb.

    Raises:
        AgentError: there is no uv.
    """

    def __init__(self, path: str | None, root: str, log: str, options: argparse.Namespace) -> None:
        if path is None or not os.access(path, os.X_OK):
            raise AgentError(
                "no uv on this node ({})".format(path or "neither shipped nor on PATH"),
                "let the controller ship uv (`make setup` fetches it), or install uv",
            )
        self.path = path
        self.log = log
        self.env = environment_of(options)
        self.env.pop("VIRTUAL_ENV", None)
        self.env.pop("PYTHONPATH", None)
        self.env.setdefault("UV_CACHE_DIR", os.path.join(root, "cache", "uv"))
        self.env.setdefault("UV_PYTHON_INSTALL_DIR", interpreters.downloads(root))
        self.env.setdefault("UV_HTTP_TIMEOUT", "60")
        self.env["UV_NO_PROGRESS"] = "1"
        self.env["UV_NO_CONFIG"] = "1"
        self._links = [os.path.expanduser(link) for link in options.find_links]
        self._wheelhouse = options.wheelhouse

    def run(self, *words: str) -> str | None:
        """Run uv; return None on success, the end of its output otherwise."""
        with open(self.log, "ab") as log:
            shown = without_logins(" ".join(words))
            log.write("\n[{}] uv {}\n".format(utc_now(), shown).encode())
            log.flush()
            begin = log.tell()
            try:
                code = hangup.run([self.path, *words], self.env, log)
            except OSError as error:
                raise AgentError(
                    "cannot run {}: {}".format(self.path, error.strerror), None, self.log
                ) from error
        if code == 0:
            return None
        with open(self.log, "rb") as handle:
            handle.seek(begin)
            said = handle.read().decode("utf-8", "replace")
        return without_logins(said[-4000:]) or "exit code {}".format(code)

    def must(self, *words: str) -> None:
        """Run uv.

        Raises:
            UvFailure: it failed.
        """
        said = self.run(*words)
        if said is not None:
            raise UvFailure(said)

    def install(self, python: str, what: Sequence[str], index: Mapping[str, Any] | None) -> None:
        """Run `uv pip install` with the site's sources, one after another.

        Args:
            python: interpreter of the environment.
            what: requirements.
            index: index of the variant, from framework.json. The default index is not used for
                such a variant, because it may have another build of several gigabytes. The sources
                are then links, the wheelhouse, or this index.

        Raises:
            UvFailure: no source has the packages; it has the output of the first source.
        """
        # uv has no such variable: pip's `no-index` becomes an option.
        alone = bool(self.env.get("UV_NO_INDEX"))
        call = ["pip", "install", "--python", python]
        if self._wheelhouse:
            call += ["--no-index", "--find-links", self._wheelhouse]
        elif alone:
            call.append("--no-index")
        for link in self._links:
            call += ["--find-links", link]
        ways: list[list[str]] = [[]]
        if index is not None and not self._wheelhouse and not alone:
            ways = [list(index.get("options") or ["--index", index["url"]])]
            if self._links or self.env.get("UV_FIND_LINKS"):
                ways.insert(0, [])
        first: str | None = None
        for way in ways:
            said = self.run(*(call + way + list(what)))
            if said is None:
                return
            # The site's own source should contain it.
            first = first or said
        # The lock's hashes decide: without a network the cache may contain all files.
        if "Failed to fetch" in (first or ""):
            for way in ways:
                if self.run(*call, "--offline", *way, *what) is None:
                    return
        raise UvFailure(first or "")


def environment_of(options: argparse.Namespace) -> dict[str, str]:
    """Return this process's variables with the indexes that uv gets.

    `index_url` of the cluster's YAML overrides the node's own settings.
    """
    env = dict(os.environ)
    if options.index_url:
        env.pop("UV_INDEX", None)
        env.pop("UV_EXTRA_INDEX_URL", None)
        env["UV_DEFAULT_INDEX"] = options.index_url
    env.update(uv_environment(env, os.path.expanduser("~")))
    return env


def normal(name: str) -> str:
    """Return the name of a package as indexes normalise it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def without(requirements: str, package: str) -> tuple[str, list[str]]:
    """Return a lock without one package (its lines and hashes), and the versions that it pinned.

    There are several versions if older Pythons get an older version.
    """
    kept, pinned, dropping = [], [], False
    for line in requirements.splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            found = re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([^\s;\\]+)", line)
            dropping = found is not None and normal(found.group(1)) == normal(package)
            if found is not None and dropping:
                pinned.append(found.group(2))
        if not dropping:
            kept.append(line)
    return "\n".join(kept) + "\n", pinned


def like_build(version: str, pinned: Sequence[str]) -> str:
    """Return `version` with the local part of the pinned one: 2.12.0, 2.13.0+cpu: 2.12.0+cpu."""
    local = pinned[0].partition("+")[2] if pinned else ""
    return version + "+" + local if local and "+" not in version else version
