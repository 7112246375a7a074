"""The inputs of a framework environment; its name is their digest."""

from __future__ import annotations

import hashlib
import os
import platform
from typing import Any

from nodeside.files import AgentError, file_digest, read_json
from nodeside.uvtool import without


class RecipeError(AgentError):
    """The line's own folder is not complete: a mistake of its author, not of the node."""


class Recipe:
    """The inputs of an environment, and its name.

    Args:
        code: folder of the shipped code.
        line: framework line.
        variant: which lock.
        version: other version of the main package than the lock's.
        wheel: path of a wheel that replaces it.

    Raises:
        RecipeError: the line or the variant does not exist, or its lock is missing.
        AgentError: the wheel cannot be read.
    """

    def __init__(
        self, code: str, line: str, variant: str, version: str | None, wheel: str | None
    ) -> None:
        folder = os.path.join(code, "frameworks", line)
        described = read_json(os.path.join(folder, "framework.json"))
        if described is None:
            raise RecipeError(
                "the shipped code has no framework {!r}".format(line),
                "expected benchmarks/frameworks/{}/framework.json".format(line),
            )
        self.line = line
        self.variant = variant
        self.info: dict[str, Any] = described
        self.described: dict[str, Any] = described["variants"].get(variant, {})
        """The variant's entry in framework.json."""
        self.pythons: list[str] = self.described.get("pythons", [])
        """Series of Python that its lock supports; empty: the agent's own interpreter runs it."""
        self.package: str = self.described.get("package") or described.get("package") or line
        self.index: dict[str, Any] | None = self.described.get("index")
        self.size_bytes: int = self.described.get("size_bytes") or described.get("size_bytes", 0)
        self.libraries: dict[str, str] = described.get("libraries", {})
        self.lock = os.path.join(folder, "requirements-{}.lock".format(variant))
        self.locked: str = self.described.get("version") or described["version"]
        """Version of the main package that the lock installs."""
        self.version = version
        """Version that replaces the locked one."""
        self.wheel = wheel
        if not self.pythons and variant in described["variants"]:
            return
        if not os.path.exists(self.lock):
            raise RecipeError(
                "framework {} has no variant {!r}: {} is not there".format(
                    line, variant, os.path.basename(self.lock)
                ),
                "Make the lock, or name another variant; variants of this line: {}".format(
                    ", ".join(described["variants"])
                ),
            )
        with open(self.lock) as handle:
            self.requirements = handle.read()
        # A lock of several versions installs older ones for older Pythons.
        if version == self.locked and len(without(self.requirements, self.package)[1]) < 2:
            self.version = None
        if wheel:
            self.pythons = [each for each in self.pythons if _fits(os.path.basename(wheel), each)]
        if not self.pythons:
            name, supported = os.path.basename(wheel or ""), ", ".join(self.described["pythons"])
            raise RecipeError(
                "{} fits no Python that {} {} supports ({})".format(name, line, variant, supported),
                "Build the wheel for one of them",
            )
        try:
            wheel_digest = file_digest(wheel) if wheel else ""
        except OSError as error:
            raise AgentError(
                "cannot read the wheel {}: {}".format(wheel, error.strerror)
            ) from error
        parts = [self.requirements, variant, self.version or "", wheel_digest]
        self._parts = parts + sorted("{}={}".format(*pair) for pair in self.libraries.items())

    def name(self, python: str) -> str:
        """Return the environment's name with a series of Python on this machine's architecture."""
        digest = hashlib.sha256()
        for part in [python, platform.machine(), *self._parts]:
            digest.update(part.encode() + b"\0")
        return "{}-{}-py{}-{}".format(self.line, self.variant, python, digest.hexdigest()[:12])


def _fits(wheel: str, series: str) -> bool:
    """Return whether CPython of a series can install a wheel, by the wheel's name."""
    tags, abis = [tag.split(".") for tag in wheel[: -len(".whl")].split("-")[-3:-1]]
    major, minor = series.split(".")
    for tag in tags:
        if tag in ("py" + major, "cp" + major + minor, "py" + major + minor):
            return True
        older = tag.startswith("cp" + major) and "abi3" in abis
        if older and int(tag[2 + len(major) :] or 0) <= int(minor):
            return True
    return False
