"""Runs other programs: short ones to their end, long ones with output that is polled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import Any, Mapping, Sequence

from nodeside.processes import environ_of, send

_MARK = "NIGHTBENCH_TELEMETRY"


def answer(
    argv: Sequence[str], timeout_s: float = 20.0, env: Mapping[str, str] | None = None
) -> str | None:
    """Return the standard output of a program that succeeds in time; None otherwise."""
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


class Stream:
    """A program that prints lines from time to time, read without waiting.

    Args:
        argv: the program is searched on PATH; if it is absent, there are no lines.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self._buffer = b""
        self._popen: Any = None
        tool = shutil.which(argv[0])
        if tool is None:
            return
        try:
            self._popen = subprocess.Popen(
                [tool, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(os.environ, **{_MARK: str(os.getpid())}),
            )
        except OSError:
            return  # the measurement goes on without the tool's output
        os.set_blocking(self._popen.stdout.fileno(), False)

    def lines(self) -> list[str]:
        """Return the complete lines since the last call."""
        if self._popen is None:
            return []
        while True:
            try:
                piece = os.read(self._popen.stdout.fileno(), 65536)
            except BlockingIOError:
                break
            if not piece:
                break
            self._buffer += piece
        *lines, self._buffer = self._buffer.split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]

    def close(self) -> None:
        """End the program."""
        if self._popen is None:
            return
        # It may have ended by itself, and its pid may be another process's by now.
        if environ_of(self._popen.pid).get(_MARK) == str(os.getpid()):
            send(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._popen.stdout.close()
        self._popen = None
