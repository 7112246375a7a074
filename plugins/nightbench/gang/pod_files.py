"""File operations in a pod, as SFTP offers them on a machine.

Sent to the pod as text and run there by its Python, 3.7 or newer, before anything is shipped: it
imports nothing but the standard library. Each line of input is a request, each line of output its
answer: `{"value": ...}`, or `{"errno": 28, "error": "No space left on device"}`.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any


def answer(request: dict[str, Any]) -> Any:
    """Return what a request asks for."""
    path = request["path"]
    what = request["do"]
    if what == "exists":
        return os.path.exists(path)
    if what == "listdir":
        return sorted(os.listdir(path))
    if what == "mkdir":
        return os.mkdir(path)
    if what == "makedirs":
        return os.makedirs(path, exist_ok=True)
    if what == "rename":
        return os.rename(path, request["to"])
    if what == "chmod":
        return os.chmod(path, request["mode"])
    if what == "read":
        with open(path, "rb") as file:
            file.seek(request["begin"])
            return base64.b64encode(file.read(request["size"])).decode()
    if what == "write":
        # Created by the first piece alone: a later piece must never become the file.
        with open(path, "wb" if request["begin"] == 0 else "r+b") as file:
            file.seek(request["begin"])
            return file.write(base64.b64decode(request["data"]))
    raise ValueError(what)


def main() -> None:
    """Answer requests until the input ends."""
    for line in iter(sys.stdin.readline, ""):
        try:
            found: dict[str, Any] = {"value": answer(json.loads(line))}
        except OSError as error:
            found = {"errno": error.errno, "error": error.strerror or str(error)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
