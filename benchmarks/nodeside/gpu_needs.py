"""Whether this node's GPUs can run a variant of a line, checked before several GB are built."""

from __future__ import annotations

import re
import shutil
from typing import Any

from nodeside import smi


def unfit(variant: dict[str, Any]) -> str | None:
    """Return why a variant cannot work on this node; None if it can, or states no requirements.

    Args:
        variant: its entry in framework.json, with `driver` (the minimum for its CUDA) and
            `compute_capabilities` of the devices that it is built for.
    """
    driver, capabilities = variant.get("driver"), variant.get("compute_capabilities")
    if not driver and not capabilities:
        return None
    if shutil.which("nvidia-smi") is None:
        return "found no nvidia-smi; expected NVIDIA GPUs and their driver" + _least(driver)
    # There are no rows if nvidia-smi fails; the preflight says why.
    for name, found, capability in smi.rows("--query-gpu=name,driver_version,compute_cap"):
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


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
