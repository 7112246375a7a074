"""Calls a function on many items in several child processes.

They are programs of their own, which read tasks from a pipe. A process of `multiprocessing` would
import the main program of an Airflow task again, and a daemonic process, as which Celery runs it,
may have none.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from nightbench.core.errors import UserError

ALONE_S = 1.0
"""Time after which items are shared among processes, if as much is left to do; starting them
costs about as much."""

TASKS = 50
"""Tasks that a process is given in the mean, if items are many."""

_PROGRAM = "from nightbench.detection.process_pool import serve; serve({})"

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(
    call: Callable[[Item], Result],
    items: Iterable[Item],
    sizes: Sequence[int],
    most: int | None = None,
) -> Iterator[Result]:
    """Yield `call` of each item, in their order; of many on several processors.

    Args:
        call: a function of a module.
        items: are taken as they are needed.
        sizes: how much work each item is.
        most: processes; as many as there are processors if None.

    Raises:
        UserError: a process was ended from outside.
    """
    allowed, rest = processors(), iter(items)
    processes = min(most or allowed, allowed)
    begun, done, whole = time.monotonic(), 0, sum(sizes)
    for place, size in enumerate(sizes):
        spent = time.monotonic() - begun
        if processes > 1 and spent > ALONE_S and spent * (whole - done) > ALONE_S * done:
            together = math.ceil((len(sizes) - place) / processes / TASKS)
            yield from _in_processes(call, rest, together, processes)
            return
        yield call(next(rest))
        done += size


def processors(limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many processors this process may use: those of its affinity and of its cgroup."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = limit.read_text().split()
    except (OSError, ValueError):
        return allowed
    return allowed if quota == "max" else min(allowed, math.ceil(int(quota) / int(period)))


def serve(descriptor: int) -> None:
    """Answer tasks from a pipe until its end; the program of a process."""
    with Connection(descriptor) as pipe, contextlib.suppress(EOFError, OSError):
        while True:
            call, items = pipe.recv()
            raised, found = None, []
            try:
                found = [call(item) for item in items]
            except Exception as error:
                raised = _portable(error)
            pipe.send((found, raised))


class _Process(subprocess.Popen[bytes]):
    """A process that answers one task at a time."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        number, path = theirs.fileno(), {"PYTHONPATH": os.pathsep.join(sys.path)}
        # Ctrl-C reaches the whole process group; the parent ends this process.
        with theirs, _inherited_as_blocked(signal.SIGINT):
            super().__init__(
                [sys.executable, "-P", "-c", _PROGRAM.format(number)],
                stdin=subprocess.DEVNULL,
                stdout=2,  # printed text must not mix with answers
                pass_fds=[number],
                env=os.environ | path,
            )

    def answer(self, call: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        try:
            self._pipe.send((call, items))
            found, error = self._pipe.recv()
        except (OSError, EOFError) as ended:
            raise UserError(
                "A process that judges histories was ended from outside; was there too little "
                "memory?"
            ) from ended
        if error is not None:
            raise error
        results: list[Result] = found
        return results

    def close(self) -> None:
        self.wait()
        self._pipe.close()


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent, with where it was raised."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(repr(error))
    error.add_note(traceback.format_exc())
    return error


@contextlib.contextmanager
def _inherited_as_blocked(number: signal.Signals) -> Iterator[None]:
    """Block a signal for the processes that are started within; this one gets it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_processes(
    call: Callable[[Item], Result], items: Iterator[Item], together: int, processes: int
) -> Iterator[Result]:
    """Yield `call` of each item; a task has so many items `together`."""
    started, free = list[_Process](), SimpleQueue[_Process]()

    def answer(task: list[Item]) -> list[Result]:
        process = free.get()
        try:
            return process.answer(call, task)
        finally:
            free.put(process)

    threads = ThreadPoolExecutor(processes)
    try:
        for _ in range(processes):
            started.append(_Process())
            free.put(started[-1])
        asked = deque[Future[list[Result]]]()
        while task := list(itertools.islice(items, together)):
            asked.append(threads.submit(answer, task))
            if len(asked) > 2 * processes:
                yield from asked.popleft().result()
        while asked:
            yield from asked.popleft().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for process in started:
            process.kill()
        threads.shutdown()
        for process in started:
            process.close()
