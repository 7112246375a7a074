"""The packages that an interpreter finds, by the names of their metadata's folders."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from nodeside.shell import answer

_ASK = """
import json, sys
sys.path.append({!r})
from nodeside import packages
print(json.dumps(packages.found()))
"""


def of(python: str) -> dict[str, Any]:
    """Return what `found` does in an interpreter; nothing if it does not answer."""
    if python == sys.executable:
        return found()
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    text = answer([python, "-c", _ASK.format(here)], timeout_s=60.0)
    return dict(json.loads(text)) if text else {}


def found() -> dict[str, Any]:
    """Return {"python": version, "packages": {name: version}} of this interpreter."""
    packages: dict[str, str] = {}
    for folder in sys.path:
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            stem, ending = os.path.splitext(name)
            if ending in (".dist-info", ".egg-info") and "-" in stem:
                package, version = stem.split("-")[:2]
                packages.setdefault(package.lower().replace("_", "-"), version)
    return {"python": sys.version.split()[0], "packages": packages}
