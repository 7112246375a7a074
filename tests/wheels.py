"""Wheels of one module, made for tests: what a node installs without any index."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, body: str = "", ballast: int = 0) -> Path:
    """A pure wheel whose module knows its version, unless another body is given.

    Args:
        folder: where; made.
        name: of the distribution and of its module.
        version: its own.
        body: of the module.
        ballast: bytes that do not compress, beside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": (body or f"VERSION = {version!r}\n").encode(),
        f"{name}_ballast.bin": os.urandom(ballast),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for inner, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        record += f"{inner},sha256={digest.decode()},{len(content)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, content in files.items():
            archive.writestr(inner, content)
    return path
