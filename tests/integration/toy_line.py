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
MAIN = """\
import os, runpy, sys
import toy_framework
os.environ["FAKE_STEP_S"] = repr(toy_framework.STEP_S)
os.environ["FAKE_VERSION"] = '"' + toy_framework.VERSION + '"'
sys.argv[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rank.py")
runpy.run_path(sys.argv[0], run_name="__main__")
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
    described |= {"python": SERIES, "size_bytes": 1000}
    described |= {"devices": {"cpu": True}, "variants": {"cpu": {"device": "cpu"}}}
    (line / "framework.json").write_text(json.dumps(described))
    digest = hashlib.sha256(locked.read_bytes()).hexdigest()
    name = PACKAGE.replace("_", "-")
    lock = f"{name}=={version} \\\n    --hash=sha256:{digest}\n"
    (line / "requirements-cpu.lock").write_text(lock)
    launch = (folder / "frameworks/fake/launch.py").read_text()
    (line / "launch.py").write_text(launch.replace('"fake", "main.py"', '"toy", "main.py"'))
    (line / "main.py").write_text(MAIN)
    rank = (folder / "frameworks/fake/main.py").read_text()
    # Nights, alerts and causes know of a version what a rank says of its own line.
    said = '"fake": str(_knob("version"'
    assert said in rank
    (line / "rank.py").write_text(rank.replace(said, said.replace("fake", LINE)))
    shutil.copy(folder / "workloads/sleep/fake.py", folder / "workloads/sleep/toy.py")
    return folder
