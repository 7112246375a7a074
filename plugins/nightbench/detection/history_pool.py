"""Judges many histories on all processors that this process may use."""

import contextlib
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from nightbench.core.errors import UserError
from nightbench.detection.history import HistoryReport, judge_history
from nightbench.detection.observations import Observation

History = tuple[str, Sequence[Observation]]
"""Name and nights of a series."""

ALONE_S = 1.0
"""Time after which histories are shared among processes, if as much is left to do; starting them
costs about as much."""

TASK_NIGHTS = 2000
"""Nights that a process is given at once, in whole histories."""


def judge_histories(
    histories: Sequence[History], lower_is_better: bool = False, min_change: float = 0.0
) -> Iterator[HistoryReport]:
    """Yield the report of `judge_history` on each history, in their order, as soon as it is judged.

    Raises:
        UserError: a process was ended from outside.
    """
    processors = _processors()
    nights = sum(len(each) for _, each in histories)
    begun, done = time.monotonic(), 0
    for place, (name, each) in enumerate(histories):
        spent = time.monotonic() - begun
        if processors > 1 and spent > ALONE_S and spent * (nights - done) > ALONE_S * done:
            rest = histories[place:]
            yield from _judge_in_processes(rest, lower_is_better, min_change, processors)
            return
        yield judge_history(name, each, lower_is_better, min_change)
        done += len(each)


def _processors(limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many processors this process may use: those of its affinity and of its cgroup."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = limit.read_text().split()
    except (OSError, ValueError):
        return allowed
    return allowed if quota == "max" else min(allowed, math.ceil(int(quota) / int(period)))


def _judge_in_processes(
    histories: Sequence[History], lower_is_better: bool, min_change: float, processors: int
) -> Iterator[HistoryReport]:
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        processors, multiprocessing.get_context("spawn"), initializer=_end_with_parent
    )
    try:
        futures: list[Future[list[HistoryReport]]] = []
        with _inherited_by_children_as_blocked(signal.SIGINT):
            for task in _tasks(histories):
                futures.append(executor.submit(_judge_task, task, lower_is_better, min_change))
        futures.reverse()
        while futures:
            yield from futures.pop().result()
    except BrokenProcessPool as error:
        raise UserError(
            "A process that judges histories was ended from outside; was there too little memory?"
        ) from error
    except BaseException:
        # Nobody waits for what is being judged: an interrupt, or a reader that went away.
        # Python 3.11.2 waits for ever that an ended process reads its task (CPython 94777), unless
        # nobody can; it forgets the queue in shutdown(). The queue has no public name.
        calls = getattr(executor, "_call_queue", None) if sys.version_info < (3, 11, 5) else None
        executor.shutdown(wait=False, cancel_futures=True)
        if calls is not None:
            calls._reader.close()
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    executor.shutdown()


def _tasks(histories: Sequence[History]) -> Iterator[list[History]]:
    task: list[History] = []
    nights = 0
    for history in histories:
        task.append(history)
        nights += len(history[1])
        if nights >= TASK_NIGHTS:
            yield task
            task, nights = [], 0
    if task:
        yield task


def _judge_task(
    histories: Sequence[History], lower_is_better: bool, min_change: float
) -> list[HistoryReport]:
    return [judge_history(*each, lower_is_better, min_change) for each in histories]


@contextlib.contextmanager
def _inherited_by_children_as_blocked(number: signal.Signals) -> Iterator[None]:
    """Block a signal for the processes that are started within; this one gets it afterwards."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def _end_with_parent() -> None:
    """End this process when its parent is killed; a pool's process would wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
