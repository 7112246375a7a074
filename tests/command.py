"""The command `nightbench` in a process of its own, without the seconds that its imports take.

A server, one for each worker, has imported the commands, and forks for each call: `run` costs a
tenth of a new interpreter. What a command imports, and what Python itself reads from the
environment, is not seen so: that is what `COMMAND` is for.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "from nightbench.cli.entry import main; main()"]
LIMIT_S = 580.0
"""Below the 600 s of a test: what hangs is a command, and its output is known."""
MODULES = (
    *("alerts", "experiments.engine", "gang.case_runner", "night.ingest", "night.judge"),
    *("night.planning", "night.run_preflight", "warehouse"),
)
"""What the commands import when they are called."""
LONGEST = 1 << 20


def run(
    *words: str,
    env: Mapping[str, str],
    cwd: Path | None = None,
    checks: bool = False,
    timeout_s: float = LIMIT_S,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whatever that is.

    Args:
        words: what follows `nightbench`.
        env: its whole environment.
        cwd: its folder.
        checks: whether it may hold checks, for which the server imports Great Expectations first.
        timeout_s: raises subprocess.TimeoutExpired after so long.
    """
    argv = [*COMMAND, *words]
    asked = {"words": words, "env": dict(env), "cwd": str(cwd or Path.cwd()), "checks": checks}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        ours, theirs = socket.socketpair()
        with ours, theirs, ours.makefile("r") as answers:
            files = [out.fileno(), err.fileno(), theirs.fileno()]
            _send(json.dumps(asked).encode(), files)
            theirs.close()
            ours.settimeout(timeout_s)
            pid = None
            try:
                pid = int(answers.readline())
                status = int(answers.readline())
            except BaseException as error:
                if pid is not None:
                    _kill(pid)
                if isinstance(error, TimeoutError):
                    raise subprocess.TimeoutExpired(argv, timeout_s) from None
                raise
        said = [Path(f"/dev/fd/{file.fileno()}").read_text() for file in (out, err)]
    return subprocess.CompletedProcess(argv, os.waitstatus_to_exitcode(status), *said)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _send(message: bytes, files: list[int]) -> None:
    try:
        socket.send_fds(_server(), [message], files)
    except ConnectionError:
        _server.cache_clear()  # it has died: another one is started
        socket.send_fds(_server(), [message], files)


@functools.cache
def _server() -> socket.socket:
    """Start the server of this process, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def close() -> None:
        ours.close()
        server.wait()

    atexit.register(close)
    return ours


def _serve() -> None:
    """Fork for each call that comes on standard input, until it is closed."""
    from typer.main import get_command

    from nightbench.cli.main import app
    from nightbench.config.catalog import load_catalog

    commands: Any = get_command(app)
    commands.load_all()
    for name in MODULES:
        importlib.import_module(f"nightbench.{name}")
    # What it reads of each file it keeps.
    load_catalog(Path(__file__).parents[1] / "benchmarks")
    calls = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    waiting: set[int] = set()
    while True:
        message, files, _, _ = socket.recv_fds(calls, LONGEST, 3)
        if not message:
            return
        asked = json.loads(message)
        if asked["checks"]:
            from nightbench.checks import expectations

            expectations.load_great_expectations()
        gc.freeze()
        waiting.add(pid := os.fork())
        if pid == 0:
            calls.close()
            return _call(asked, *files)
        for file in files:
            os.close(file)
        waiting -= {each for each in waiting if os.waitpid(each, os.WNOHANG)[0]}


def _call(asked: dict[str, Any], out: int, err: int, answers: int) -> None:
    """In a child of the server: run the command in one of its own, and tell how it ended."""
    pid = os.fork()
    if pid:
        try:
            os.write(answers, f"{pid}\n".encode())
        except BrokenPipeError:  # nobody waits for it any more
            _kill(pid)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(BrokenPipeError):
            os.write(answers, f"{status}\n".encode())
        os._exit(0)
    for file, number in ((out, 1), (err, 2)):
        os.dup2(file, number)
    for file in (out, err, answers):
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv = ["-c", *asked["words"]]
    from nightbench.cli.entry import main

    main()


if __name__ == "__main__":
    _serve()
