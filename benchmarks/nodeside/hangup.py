"""Ends a command when its controller is gone, so that builds do not continue without one.

The only sign of this is that sshd closes its ends of the command's pipes, when the controller
closes the channel or the connection is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
from typing import Any, Mapping, Sequence

TERM_S = 3.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class Cancelled(BaseException):
    """The controller is gone, or a signal ended the command; `finally` blocks clean up."""


def end_with_reader() -> None:
    """Make SIGTERM, SIGHUP, SIGINT and the loss of our output's reader raise `Cancelled`.

    For the main thread of a process that does only this command's work.
    """

    def cancel(number: int, frame: Any) -> None:
        for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)  # the clean-up must not be interrupted
        raise Cancelled(signal.Signals(number).name)

    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, cancel)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    reader = select.poll()
    for stream in (sys.stdout, sys.stderr):
        try:
            # No event is requested: errors and hang-ups are always reported.
            reader.register(stream.fileno(), 0)
        except (OSError, ValueError):
            continue  # closed from the beginning, or not a file
    while True:
        events = reader.poll()
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in events):
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if not events or any(event & select.POLLNVAL for _, event in events):
            return


def run(argv: Sequence[str], env: Mapping[str, str], log: Any, folder: str | None = None) -> int:
    """Run a command that ends when this process ends; return its exit code.

    It has a process group of its own, so that its children are ended with it.

    Raises:
        OSError: it cannot be started.
        Cancelled: this process is to end; the command has been ended.
    """
    parent = os.getpid()

    def in_child() -> None:
        os.setpgid(0, 0)
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)  # this process died between fork and prctl

    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=dict(env),
        cwd=folder,
        preexec_fn=in_child,
    )
    try:
        return process.wait()
    except BaseException:
        _end(process)
        raise


def _end(process: Any) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(TERM_S)
        except subprocess.TimeoutExpired:
            continue
    # The leader may have ended before the others of its group.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
