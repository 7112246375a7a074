"""Ending with who asked: a build whose controller has gone must not go on by itself.

sshd closes its ends of a command's pipes when the controller closes the channel or the connection
dies; nothing else tells the command.
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
    """The controller has gone, or a signal asked for the end; everything cleans up on its way."""


def end_with_reader() -> None:
    """From now on SIGTERM, SIGHUP, SIGINT and the loss of who reads our output raise `Cancelled`.

    For the main thread of a process that has nobody else's work to do.
    """

    def cancel(number: int, frame: Any) -> None:
        for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)  # cleaning up is not interrupted
        raise Cancelled(signal.Signals(number).name)

    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, cancel)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    reader = select.poll()
    for stream in (sys.stdout, sys.stderr):
        try:
            # No event is asked for: errors and hang-ups are always told.
            reader.register(stream.fileno(), 0)
        except (OSError, ValueError):
            continue  # closed from the beginning, or no file at all
    while True:
        events = reader.poll()
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in events):
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if not events or any(event & select.POLLNVAL for _, event in events):
            return


def run(argv: Sequence[str], env: Mapping[str, str], log: Any) -> int:
    """Run a command that ends with us, whatever happens; its exit code.

    It has a group of its own, so that what it starts is ended with it.

    Raises:
        OSError: it cannot be started.
        Cancelled: we are to end; the command has ended.
    """
    parent = os.getpid()

    def in_child() -> None:
        os.setpgid(0, 0)
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)  # we died between fork and prctl

    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=dict(env),
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
    # The leader may have gone before the others of its group.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
