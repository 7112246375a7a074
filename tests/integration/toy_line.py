"""A framework line of wheels made here: small, installed by uv on a node, some of them slower."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sys
import zipfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SERIES = f"{sys.version_info[0]}.{sys.version_info[1]}"
LINE, PACKAGE = "toy", "toy_framework"
MAIN = """\
import os, runpy, sys
import toy_framework
os.environ["FAKE_STEP_S"] = repr(toy_framework.STEP_S)
os.environ["FAKE_VERSION"] = '"' + toy_framework.VERSION + '"'
sys.argv[0] = os.path.join(os.environ["NIGHTBENCH_CODE"], "frameworks", "fake", "main.py")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def make_wheel(folder: Path, version: str, step_s: float, body: str = "") -> Path:
    """A wheel of the toy framework whose steps take so long."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{PACKAGE}-{version}.dist-info"
    files = {
        f"{PACKAGE}.py": body or f"VERSION = {version!r}\nSTEP_S = {step_s!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text)}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    path = folder / f"{PACKAGE}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in files.items():
            archive.writestr(inner, text)
    return path


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
    (line / "framework.json").write_text(json.dumps(described))
    digest = hashlib.sha256(locked.read_bytes()).hexdigest()
    name = PACKAGE.replace("_", "-")
    lock = f"{name}=={version} \\\n    --hash=sha256:{digest}\n"
    (line / "requirements-cpu.lock").write_text(lock)
    launch = (folder / "frameworks/fake/launch.py").read_text()
    (line / "launch.py").write_text(launch.replace('"fake", "main.py"', '"toy", "main.py"'))
    (line / "main.py").write_text(MAIN)
    shutil.copy(folder / "workloads/sleep/fake.py", folder / "workloads/sleep/toy.py")
    return folder
