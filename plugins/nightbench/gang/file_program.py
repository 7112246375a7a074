"""File operations on a node, as its own Python does them.

Sent to the node as text and run there, on Python 3.7 or newer, before anything is shipped: it
imports nothing but the standard library. Each line of input is a request, each line of output its
answer: `{"value": ...}`, or `{"errno": 28, "error": "No space left on device"}`. Bytes of a file,
and the names in a folder, follow a line that has their number as `bytes`.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Any


def answer(request: dict[str, Any], content: bytes) -> Any:
    """Return what a request asks for; paths are UTF-8, whatever the node's locale."""
    path = request["path"].encode()
    what = request["do"]
    if what == "size":
        return os.path.getsize(path)
    if what == "listdir":
        return b"\0".join(sorted(os.listdir(path)))
    if what == "mkdir":
        return os.mkdir(path)
    if what == "makedirs":
        return os.makedirs(path, exist_ok=True)
    if what == "rename":
        return os.rename(path, request["to"].encode())
    if what == "read":
        with open(path, "rb") as file:
            file.seek(request["begin"])
            return file.read(request["size"])
    if what == "write":
        # Created by the first piece alone: a later piece must never become the file. Not
        # truncated: another controller may be writing the same content.
        flags = os.O_WRONLY | (os.O_CREAT if request["begin"] == 0 else 0)
        with open(os.open(path, flags, 0o666), "wb") as file:
            file.seek(request["begin"])
            return file.write(content)
    if what == "finish":
        found = os.path.getsize(path)
        if found != request["size"]:  # not every file system reports a full disk as it writes
            os.remove(path)
            said = "{} of {} bytes were written".format(found, request["size"])
            raise OSError(errno.EIO, said)
        if request["mode"] is not None:
            os.chmod(path, request["mode"])
        return os.replace(path, request["to"].encode())
    raise ValueError(what)


def main() -> None:
    """Answer requests until the input ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(b"\nnightbench: files\n")  # after what a wrapper of this Python has printed
    sink.flush()
    for line in iter(source.readline, b""):
        request = json.loads(line.decode())
        try:
            value = answer(request, source.read(request.get("bytes", 0)))
            found: dict[str, Any] = {"value": value}
        except (OSError, ValueError) as error:  # ValueError: a path that no file can have
            number = getattr(error, "errno", None) or errno.EINVAL
            found = {"errno": number, "error": getattr(error, "strerror", None) or str(error)}
        piece = found.pop("value") if isinstance(found.get("value"), bytes) else b""
        sink.write(json.dumps(dict(found, bytes=len(piece))).encode() + b"\n" + piece)
        sink.flush()


if __name__ == "__main__":
    main()
