"""The largest batch that fits into the memory of a rank: `batch_size_per_device: max`.

An attempt is a rank of its own: this line's `rank.py` with a job of one process, which trains two
steps with a given batch and writes a `rank.json`. Its memory is watched, and it is ended before the
kernel would end it. So an attempt never fails the repeat, and the largest batch is a measured one.
All ranks search at the same time, and the smallest of their results counts.
"""

import os
import shutil
import subprocess
import sys
import time

from base_runtime import peak_resident_bytes
from rendezvous import least_of_trainers

MAX = "max"
FILE = "batch_size_per_device"
"""File in the job's folder with the result of the first repeat, for the following ones."""
MARGIN = 0.1
"""Part of the memory that is left free."""
MOST = 2**20
PROTOCOL = {"warmup_steps": 0, "measured_steps": 2, "repeats": 1, "min_seconds": 0.0}
POLL_S = 0.02
OUT_OF_MEMORY = (
    *("out of memory", "outofmemory", "memoryerror", "bad_alloc", "resource_exhausted"),
    *("can't allocate memory", "cannot allocate memory", "failed to allocate", "std::length_error"),
)
"""Error texts of frameworks, in lower case."""


def names_memory(text):
    """Return whether a framework's message says that memory ran out."""
    return any(words in text.lower() for words in OUT_OF_MEMORY)


class AttemptFailed(Exception):
    """An attempt failed for a reason other than memory."""


def largest_batch(context, code, folder, on_attempt):
    """Return the largest batch that fits on all ranks.

    Args:
        context: see `rank.Context`.
        code: folder of the shipped code.
        folder: folder of this process; attempts leave no files in it.
        on_attempt: called before each attempt.

    Raises:
        AttemptFailed: see there; or a batch of one sample does not fit.
    """
    path = os.path.join(os.path.dirname(os.environ["NIGHTBENCH_JOB_FILE"]), FILE)
    try:
        with open(path) as stream:
            found = int(stream.read())
    except FileNotFoundError:
        attempts = Attempts(context, code, os.path.join(folder, "attempts"))
        found = largest(lambda size: on_attempt() or attempts.fits(size))
        if not found:
            raise AttemptFailed(
                "a batch of 1 sample does not fit into the memory of a rank ({})".format(
                    "{:.0f} MB".format(attempts.budget / 1e6) if attempts.budget else "of its GPU"
                )
            ) from None
    # Also ranks whose answer is in the file: they cannot know whether all others have one.
    found = least_of_trainers(context, found)
    temporary = "{}.{}".format(path, os.getpid())
    with open(temporary, "w") as stream:
        stream.write(str(found))
    os.replace(temporary, path)
    return found


def largest(fits):
    """Return the largest size up to MOST that fits, by doubling and bisection; 0 if none fits.

    Args:
        fits: returns whether a size fits; if a size fits, all smaller ones must fit.
    """
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
        if high > MOST:
            return low
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


class Attempts:
    """Trains with batches of given sizes in separate processes.

    Args:
        context: see `rank.Context`.
        code: folder of the shipped code.
        folder: for files of attempts; it is removed after each attempt.
    """

    def __init__(self, context, code, folder):
        self._context, self._code, self._folder = context, code, folder
        self.budget = _budget(context)
        """Bytes of resident memory that a rank may use; None on a GPU without such a limit."""

    def fits(self, size):
        """Return whether a rank can train with batches of this size.

        Raises:
            AttemptFailed: see there.
        """
        os.makedirs(self._folder)
        log = os.path.join(self._folder, "out.log")
        argv, env = self._command(size)
        with open(log, "w") as stream:
            process = subprocess.Popen(argv, env=env, stdout=stream, stderr=stream)
        try:
            _first_to_be_killed(process.pid)
            if not self._watch(process):
                return False
            return self._judge(process, size, log)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            shutil.rmtree(self._folder)

    def _watch(self, process):
        """Wait until an attempt has ended; return False if it uses too much memory."""
        while process.poll() is None:
            if self.budget is not None and _resident_bytes(process.pid) > self.budget:
                return False
            time.sleep(POLL_S)
        return True

    def _judge(self, process, size, log):
        path = os.path.join(self._folder, "rank.json")
        if os.path.exists(path):
            from rank import read_json  # rank imports this module.

            rank = read_json(path)
            needed = rank["peak_memory"]["resident_bytes"] + self._exchange_bytes(rank)
            return self.budget is None or needed <= self.budget
        with open(log, errors="replace") as stream:
            text = stream.read()
        killed = process.returncode == -9
        if killed or names_memory(text):
            return False
        raise AttemptFailed(
            "an attempt with a batch of {} ended with code {}:\n{}".format(
                size, process.returncode, text[-2000:]
            )
        )

    def _exchange_bytes(self, rank):
        """Return the bytes of gradient buffers, which ranks need and a lone attempt lacks."""
        if not self._context.grouped:
            return 0
        copies = 2 if self._context.case["compression"] == "none" else 4
        return copies * 4 * rank["parameters"]

    def _command(self, size):
        """Return argv and environment of an attempt, from the line's launch.py for one rank."""
        from rank import load_module, read_json, write_json  # rank imports this module.

        context = self._context
        line = os.path.join(self._code, "frameworks", context.case["framework"])
        job = self._job(size)
        write_json(os.path.join(self._folder, "job.json"), job)
        go = {"epoch": 1, "ports": context.ports}
        write_json(os.path.join(self._folder, "go.json"), go)
        launch = load_module("nightbench_launch", os.path.join(line, "launch.py"))
        (command,) = launch.processes(
            job, context.node["name"], context.ports, sys.executable, self._code
        )
        of_gang = read_json(os.path.join(line, "framework.json")).get("launcher_env", [])
        env = {name: value for name, value in os.environ.items() if name not in of_gang}
        env.update(command["env"])
        env.update(
            NIGHTBENCH_JOB_FILE=os.path.join(self._folder, "job.json"),
            NIGHTBENCH_REPEAT_DIR=self._folder,
            NIGHTBENCH_PROCESS_DIR=self._folder,
        )
        return command["argv"], env

    def _job(self, size):
        context = self._context
        alone = {"strategy": "single", "nodes": 1, "devices_per_node": 1, "trainers": 1}
        alone.update(batch_size_per_device=size, compression="none", sparsity=None)
        process = dict(context.process, rank=0, local_rank=0)
        return dict(
            context.job,
            case=dict(context.case, **alone),
            nodes=[context.node],
            processes=[process],
            protocol=PROTOCOL,
            is_attempt=True,
        )


def _budget(context):
    """Return the bytes that a rank may use, of its limit or its share of the node's free memory."""
    limit_mb = context.case["memory_mb"]
    if limit_mb is not None:
        # The limit holds for this process and its attempt together.
        return (1 - MARGIN) * limit_mb * 10**6 - peak_resident_bytes()
    if context.device is not None:
        return None
    here = [each for each in context.trainers if each["node"] == context.node["name"]]
    with open("/proc/meminfo") as stream:
        words = next(line for line in stream if line.startswith("MemAvailable:")).split()
    return (1 - MARGIN) * int(words[1]) * 1024 / len(here)


def _resident_bytes(pid):
    """Return the resident memory of a process in bytes; 0 if it has ended."""
    try:
        with open("/proc/{}/statm".format(pid)) as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _first_to_be_killed(pid):
    """Make the kernel kill the attempt, not its rank, if memory runs out before `_watch` acts."""
    try:
        with open("/proc/{}/oom_score_adj".format(pid), "w") as stream:
            stream.write("1000")
    except OSError:
        return  # It has ended already.
