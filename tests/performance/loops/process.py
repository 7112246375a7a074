"""A training loop in a process of its own, which trains as many steps as each line of stdin says.

The first line is {"script", "code", "job", "gpu"}. The script's `build(given)` returns `step()`,
which trains on one batch, and `wait()`, which returns its loss once the device is idle. Runs in the
interpreter of a framework line.
"""

import importlib.util
import json
import os
import sys
import time


class NotWritten(Exception):
    """The loop does not support what a case asks for."""


class Given:
    """What a loop is built from."""

    def __init__(self, code, job, gpu):
        self.code, self.job, self.gpu = code, job, gpu
        self.case, self.params = job["case"], job["workload"]["params"]
        self._batch = None

    @property
    def batch(self):
        """Name -> array, always the same."""
        if self._batch is None:
            import numpy

            random, size = numpy.random.RandomState(1), self.case["batch_size_per_device"]
            self._batch = self.network("data").batch(self.params, size, random)
        return self._batch

    def network(self, api):
        """The workload's model file of an API, as a module."""
        folder = os.path.join(self.code, "workloads", self.case["workload"])
        return loaded("loop_" + api, os.path.join(folder, api + ".py"))

    def only(self, optimizer, dropout=True, **axes):
        """Refuses what the loop does not support: axis -> the values that it does.

        Raises:
            NotWritten: the case has another value.
        """
        known = {"precision": ["fp32"], "compiler": ["none"], "execution": ["default"]}
        known.update({"layout": ["default"], "recompute": ["none"], "tuning": ["default"]})
        known.update({"micro_batches": [1], "state_precision": ["fp32"], "optimizer": optimizer})
        known.update(axes)
        found = dict(self.case, optimizer=self.params.get("optimizer"))
        for axis, values in known.items():
            value = found.get(axis, values[0])
            if value not in values:
                raise NotWritten("the loop does not support {} {}".format(axis, value))
        if not dropout and self.params.get("dropout"):
            raise NotWritten("the loop does not support dropout")


def loaded(name, path):
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # MindSpore looks up there what it compiles.
    spec.loader.exec_module(module)
    return module


def main():
    """Answers each line of stdin with a line of JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What a framework prints is no answer.

    def answer(document):
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    request = json.loads(sys.stdin.readline())
    sys.path[0] = request["code"]
    try:
        step, wait = loaded("loop", request.pop("script")).build(Given(**request))
    except NotWritten as why:
        answer({"why": str(why)})
        return
    answer({})
    for line in sys.stdin:
        began_s = time.perf_counter()
        for _ in range(int(line)):
            step()
        loss = wait()
        answer({"seconds": time.perf_counter() - began_s, "loss": loss})


if __name__ == "__main__":
    main()
