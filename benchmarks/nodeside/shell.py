"""Runs other programs: short ones to their end, long ones with output that is polled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import Any, Sequence

from nodeside.processes import environ_of, send

_MARK = "NIGHTBENCH_TELEMETRY"


def run(argv: Sequence[str], timeout_s: float, errors: int = subprocess.STDOUT) -> tuple[int, str]:
    """Run a program; return its exit code and output, or a shell's code and why there is none.

    Args:
        argv: its command.
        timeout_s: limit of its duration.
        errors: where its standard error goes.
    """
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return 124, "no answer within {:g} s".format(timeout_s)
    except OSError as error:
        return 127, str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def answer(argv: Sequence[str], timeout_s: float = 20.0) -> str | None:
    """Return the standard output of a program that succeeds in time; None otherwise."""
    code, text = run(argv, timeout_s, subprocess.DEVNULL)
    return text if code == 0 else None


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
