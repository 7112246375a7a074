"""Shared libraries that a framework's wheels need but lack: from another locked package.

PaddlePaddle's, MXNet's and MindSpore's wheels are linked against `libgomp.so.1`, which minimal
systems lack. Wheels of other packages contain it under another name
(`libgomp-a34b3233.so.1.0.0`). A copy whose own name is changed to the usual one is loaded when the
environment's interpreter starts. The linker then does not look for another copy. So all machines
compute with the same library.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping

from nodeside.files import AgentError

FOLDER = os.path.join("lib", "nightbench")
"""Folder of the environment with the copies."""

_LOAD = "import ctypes, os, sys; ctypes.CDLL(os.path.join(sys.prefix, {!r}))\n"
"""A line that `site` executes when the interpreter starts."""


def bring(wanted: Mapping[str, str], env: str) -> None:
    """Copy the libraries into an environment, and make its interpreter load them.

    Args:
        wanted: name by which wheels ask for a library -> its path in a package, with wildcards,
            below site-packages.
        env: folder of the environment.

    Raises:
        AgentError: not exactly one file is there.
    """
    if not wanted:
        return
    (site,) = glob.glob(os.path.join(glob.escape(env), "lib", "python*", "site-packages"))
    os.makedirs(os.path.join(env, FOLDER))
    for name, pattern in sorted(wanted.items()):
        found = glob.glob(os.path.join(glob.escape(site), pattern))
        if len(found) != 1:
            raise AgentError(
                "{}: found {} files {} in site-packages; expected one".format(
                    name, len(found), pattern
                ),
                "correct its path in `libraries` of framework.json",
            )
        with open(found[0], "rb") as handle:
            content = handle.read()
        own = os.path.basename(found[0]).encode() + b"\0"
        usual = (name.encode() + b"\0").ljust(len(own), b"\0")
        with open(os.path.join(env, FOLDER, name), "wb") as handle:
            handle.write(content.replace(own, usual))
    with open(os.path.join(site, "nightbench.pth"), "w") as handle:
        handle.writelines(_LOAD.format(os.path.join(FOLDER, name)) for name in sorted(wanted))
