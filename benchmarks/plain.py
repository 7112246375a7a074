"""A plain loop of a framework in turn with a line's trainer: what the trainer costs beside it.

`plain_loop.py` of a line, or of its API, is written as the framework's own examples write theirs.
It runs in a process of its own, which this file's `main` is; on GPUs in the trainer's, where it
says `SHARES_A_PROCESS`. Its `build(given)` returns `step()`, which trains on one batch, and
`wait()`, which returns its loss once the device is idle. Where it does not write what a case asks
for, `given.only` says so, and there is no figure.
"""

import contextlib
import importlib.util
import json
import math
import os
import select
import subprocess
import sys
import time
import traceback

LIMIT_S = 200.0
"""Time from the start of the plain loop to its last turn: meanwhile the trainer writes no record,
and one that writes none for 300 s is ended."""

SECONDS, FEWEST, MOST = 0.25, 3, 500
"""A turn takes so long by the trainer's own steps, of which it has so many."""

WARMUP = 5

LEAST, MOST_S = 3, 60.0
"""So many rounds at least; no further one that would end after so long."""

_OF_GANG = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "DMLC_ROLE")
"""Variables by which a framework would look for other ranks."""


FIRST = "NIGHTBENCH_PLAIN_FIRST"
"""A job's variable: its loop is there before its trainer (see `early`)."""


def early(context, code):
    """Returns the plain loop's process, in which it has trained; None where there is none.

    Of two equal processes of PyTorch the one that starts first is 2 to 3 % slower for good, unless
    another has taken 10 GB before: it gets the memory that ended processes have left in pieces. Who
    compares loops more closely than that lets either come first in half of the launches.
    """
    script = loop_of(code, context.case["framework"])
    if script is None:
        return None
    loop = None
    try:
        gpu = context.device is not None
        loop = Loop(sys.executable, script, code, context.case, context.params, gpu)
        loop.seconds_of(WARMUP)
    except LoopEnded:
        if loop:
            loop.__exit__()
        return None  # `beside` meets it again, and says it
    return loop


def beside(trainer, runtime, context, code, rounds, loop=None):
    """Returns rank.json's `plain`: seconds of both loops in each round, or why there are none.

    `loop` is what `early` returned; otherwise it is started now.
    """
    script = loop_of(code, context.case["framework"])
    if script is None:
        return {"why": "no plain loop is written for {}".format(context.case["framework"])}
    gpu = context.device is not None
    given = code, context.case, context.params, gpu
    own = Own(trainer, runtime)
    try:
        if gpu and _says(script, "SHARES_A_PROCESS = True"):
            context.tell_progress()  # Nothing ends a loop in here that compiles for long.
            return in_turn(own, Here(script, Given(*given)), rounds)
        with loop or Loop(sys.executable, script, *given) as other:
            return in_turn(own, other, rounds)
    except (LoopEnded, NotWritten) as ended:
        return {"why": str(ended)}


def in_turn(own, loop, rounds):
    """Returns the steps of a turn, and the seconds of both loops in each round."""
    loop.seconds_of(WARMUP)
    lap_s = own.seconds_of(WARMUP) / WARMUP
    steps = max(FEWEST, min(MOST, math.ceil(SECONDS / max(lap_s, 1e-6))))
    found, began_s = [], time.monotonic()
    for number in range(rounds):
        taken_s = time.monotonic() - began_s
        if number >= LEAST and taken_s * (number + 1) / number > min(MOST_S, loop.end_s - began_s):
            break
        turns = {}
        for each in (own, loop) if number % 2 == 0 else (loop, own):
            turns[each] = each.seconds_of(steps)
        found.append([turns[own], turns[loop]])
    return {"steps": steps, "rounds": found}


class Own:
    """The trainer of this process, as a loop."""

    def __init__(self, trainer, runtime):
        self._trainer, self._runtime = trainer, runtime

    def seconds_of(self, steps):
        """Trains so many steps; returns what they took."""
        self._runtime.device_sync()
        began_s = time.perf_counter()
        for _ in range(steps):
            self._trainer.step()
        self._runtime.device_sync()
        return time.perf_counter() - began_s


def loop_of(code, line):
    """Returns the plain loop of a line, else of all lines with its API; None without one."""
    with open(os.path.join(code, "frameworks", line, "framework.json")) as stream:
        api = json.load(stream)["api"]
    for folder in (os.path.join("frameworks", line), os.path.join("apis", api)):
        path = os.path.join(code, folder, "plain_loop.py")
        if os.path.exists(path):
            return path
    return None


def _says(script, line):
    """Whether a script has a line; to import it could bring in a framework a second time."""
    with open(script) as stream:
        return line in stream.read().splitlines()


def _loaded(script):
    spec = importlib.util.spec_from_file_location("plain_loop", script)
    loop = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loop
    spec.loader.exec_module(loop)
    return loop


def _timed(step, wait, steps):
    """Returns the seconds of so many steps, until the device is idle, and the loss of the last."""
    began_s = time.perf_counter()
    for _ in range(steps):
        step()
    loss = wait()
    return time.perf_counter() - began_s, loss


class LoopEnded(Exception):
    """The plain loop's process does not write the case, has ended, or does not answer."""


class Loop:
    """The process of a plain loop; use it as a context.

    Args:
        python: of the line's environment.
        script: see `loop_of`.
        code: folder of the shipped code.
        case, params: of the job.
        gpu: whether it trains on the GPU that the launcher has left visible.
        limit_s: for all its answers together; `LIMIT_S` when None.
    """

    def __init__(self, python, script, code, case, params, gpu, limit_s=None):
        self._limit_s = LIMIT_S if limit_s is None else limit_s
        self.end_s = time.monotonic() + self._limit_s
        env = {name: value for name, value in os.environ.items() if name not in _OF_GANG}
        self._process = subprocess.Popen(
            [python, os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )
        self.loss = None
        given = {"script": script, "code": code, "case": case, "params": params, "gpu": gpu}
        try:
            self._ask(given)
        except LoopEnded:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # a question that it did not live to read
            self._process.stdin.close()
        self._process.stdout.close()

    def seconds_of(self, steps):
        """Trains so many steps; returns what they took. `loss` is then that of the last.

        Raises:
            LoopEnded: it did not.
        """
        answer = self._ask({"steps": steps})
        self.loss = answer["loss"]
        return answer["seconds"]

    def _ask(self, question):
        try:
            self._process.stdin.write((json.dumps(question) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: the answer is empty
        left_s = max(0.0, self.end_s - time.monotonic())
        ready, _, _ = select.select([self._process.stdout], [], [], left_s)
        if not ready:
            raise LoopEnded(
                "the plain loop and its turns took longer than {:g} s".format(self._limit_s)
            )
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise LoopEnded(
                "the plain loop ended with code {}; its error is in the log".format(code)
            )
        answer = json.loads(line.decode())
        if "why" in answer:
            raise LoopEnded(answer["why"])
        return answer


class Here:
    """A plain loop in this process.

    Steps of a GPU that last milliseconds are mostly Python, in which two processes differ by more
    than their loops: on an H200 PyTorch's trainer was .80 (.71 to .90) of a loop in another process
    and .98 (.95 to 1.02) of one in its own.

    Raises:
        LoopEnded: it cannot be built.
        NotWritten: it does not write the case.
    """

    def __init__(self, script, given):
        self.end_s = time.monotonic() + LIMIT_S
        self.loss = None
        try:
            self._step, self._wait = _loaded(script).build(given)
            self.seconds_of(1)
        except NotWritten:
            raise
        except Exception as error:
            traceback.print_exc()
            raise LoopEnded(
                "the plain loop failed: {!r}; its error is in the log".format(error)
            ) from error

    def seconds_of(self, steps):
        """Trains so many steps; returns what they took. `loss` is then that of the last."""
        seconds, self.loss = _timed(self._step, self._wait, steps)
        return seconds


class NotWritten(Exception):
    """The plain loop does not write what a case asks for."""


class Given:
    """What a plain loop is given."""

    def __init__(self, code, case, params, gpu):
        self.case, self.params, self.gpu = case, params, gpu
        self._folder = os.path.join(code, "workloads", case["workload"])
        self._batch = None

    @property
    def batch(self):
        """Name -> array, always the same."""
        if self._batch is None:
            import numpy  # Of the line's environment: a rank of plain Python has none.

            random, size = numpy.random.RandomState(1), self.case["batch_size_per_device"]
            self._batch = self.network("data").batch(self.params, size, random)
        return self._batch

    def network(self, api):
        """The workload's model file of an API, as a module."""
        path = os.path.join(self._folder, api + ".py")
        spec = importlib.util.spec_from_file_location("plain_" + api, path)
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = loaded  # MindSpore looks up there what it compiles
        spec.loader.exec_module(loaded)
        return loaded

    def only(self, optimizer, dropout=True, **axes):
        """Refuses what the loop does not write: axis -> the values that it does.

        Raises:
            NotWritten: the case asks for another.
        """
        known = {"precision": ["fp32"], "compiler": ["none"], "execution": ["default"]}
        known.update({"layout": ["default"], "recompute": ["none"], "tuning": ["default"]})
        known.update({"micro_batches": [1], "state_precision": ["fp32"], "optimizer": optimizer})
        known.update(axes)
        found = dict(self.case, optimizer=self.params.get("optimizer"))
        for axis, values in known.items():
            value = found.get(axis, values[0])
            if value not in values:
                raise NotWritten("the plain loop is not written for {} {}".format(axis, value))
        if not dropout and self.params.get("dropout"):
            raise NotWritten("the plain loop is not written for dropout")


def main():
    """Answers a request and then numbers of steps, each a line of JSON, until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints is no answer

    def answer(document):
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    request = json.loads(sys.stdin.readline())
    try:
        step, wait = _loaded(request.pop("script")).build(Given(**request))
    except NotWritten as why:
        answer({"why": str(why)})
        return
    answer({})
    for line in sys.stdin:
        seconds, loss = _timed(step, wait, json.loads(line)["steps"])
        answer({"seconds": seconds, "loss": loss})


if __name__ == "__main__":
    main()
