"""Whether this node's GPUs can run a variant of a line: asked before several GB are built."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

_FIELDS = "name,driver_version,compute_cap"


def unfit(variant: dict[str, Any]) -> str | None:
    """Return why a variant cannot work on this node; None where it can, or says no needs.

    Args:
        variant: its entry in framework.json, with `driver` (the least that its CUDA runs on) and
            `compute_capabilities` of the devices that it is built for.
    """
    driver, capabilities = variant.get("driver"), variant.get("compute_capabilities")
    if not driver and not capabilities:
        return None
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "found no nvidia-smi; expected NVIDIA GPUs and their driver" + _least(driver)
    for name, found, capability in _gpus(tool):
        if driver and _version(found) < _version(driver):
            cuda = " (CUDA {})".format(variant["cuda"]) if "cuda" in variant else ""
            return "found driver {} of {}; expected {} or newer{}".format(found, name, driver, cuda)
        if capabilities and capability not in capabilities:
            return "found compute capability {} of {}; expected one of {}".format(
                capability, name, ", ".join(capabilities)
            )
    return None


def _least(driver: str | None) -> str:
    return ", {} or newer".format(driver) if driver else ""


def _gpus(tool: str) -> list[list[str]]:
    """Name, driver and compute capability of each GPU; none where nvidia-smi fails (see doctor)."""
    argv = [tool, "--query-gpu=" + _FIELDS, "--format=csv,noheader,nounits"]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    rows = [[word.strip() for word in line.rsplit(",", 2)] for line in lines]
    return [row for row in rows if len(row) == 3]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
