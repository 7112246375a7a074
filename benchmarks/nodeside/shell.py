"""Short calls of other programs."""

from __future__ import annotations

import subprocess
from typing import Mapping, Sequence


def answer(
    argv: Sequence[str], timeout_s: float = 20.0, env: Mapping[str, str] | None = None
) -> str | None:
    """Standard output of a program that ends well in time; None otherwise."""
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            env=None if env is None else dict(env),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return done.stdout.decode("utf-8", "replace")
