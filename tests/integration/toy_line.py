"""A framework line of wheels made here: small, installed by uv on a node, some of them slower."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

from tests import wheels

REPO = Path(__file__).resolve().parents[2]
SERIES = f"{sys.version_info[0]}.{sys.version_info[1]}"
LINE, PACKAGE = "toy", "toy_framework"
RUNTIME = """\
import os

import toy_framework
from frameworks.fake.runtime import Runtime as Fake

os.environ["FAKE_STEP_S"] = repr(toy_framework.STEP_S)
os.environ["FAKE_LOSS_FACTOR"] = repr(getattr(toy_framework, "LOSS_FACTOR", 1.0))
os.environ["FAKE_VERSION"] = '"' + toy_framework.VERSION + '"'


class Runtime(Fake):
    line = "toy"
"""


def make_wheel(folder: Path, version: str, step_s: float, body: str = "") -> Path:
    """A wheel of the toy framework whose steps take so long."""
    known = f"VERSION = {version!r}\nSTEP_S = {step_s!r}\n"
    return wheels.make_wheel(folder, PACKAGE, version, body or known)


def installing_from(cluster: str, folder: Path) -> str:
    """The text of a cluster whose nodes also install what lies in a folder."""
    assert "environments:\n" in cluster
    return cluster.replace("environments:\n", f"environments:\n  find_links: [{folder}]\n")


def make_benchmarks(folder: Path, locked: Path) -> Path:
    """A copy of benchmarks/ with the line toy, whose lock names one wheel.

    Args:
        folder: where; made.
        locked: the wheel of the lock, as `make_wheel` named it.
    """
    shutil.copytree(REPO / "benchmarks", folder, ignore=shutil.ignore_patterns("__pycache__"))
    line = folder / "frameworks" / LINE
    line.mkdir()
    version = locked.name.split("-")[1]
    fake = json.loads((folder / "frameworks/fake/framework.json").read_text())
    described = {**fake, "line": LINE, "title": "Toy", "version": version, "package": PACKAGE}
    cpu = {"device": "cpu", "pythons": [SERIES]}
    described |= {"size_bytes": 1000, "variants": {"cpu": cpu}}
    (line / "framework.json").write_text(json.dumps(described))
    digest = hashlib.sha256(locked.read_bytes()).hexdigest()
    name = PACKAGE.replace("_", "-")
    lock = f"{name}=={version} \\\n    --hash=sha256:{digest}\n"
    (line / "requirements-cpu.lock").write_text(lock)
    (line / "runtime.py").write_text(RUNTIME)
    for module in ("launch.py", "trainer.py"):
        shutil.copy(folder / "frameworks/fake" / module, line)
    return folder
