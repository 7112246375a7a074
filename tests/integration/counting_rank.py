"""Takes the place of rank.py in a copy of benchmarks/: steps, and then what the servers hold.

The gradient of every weight of `counted` is 1 in trainer 0 and 3 in trainer 1, whatever the
weights are. Asynchronous trainers take different numbers of steps. When all have ended, further
steps on inputs of 0 change nothing and fetch what the servers hold.
"""

import itertools
import json
import os
import sys
import time

from original_rank import Context, new_runtime, new_trainer, read_json

STEPS = 20
ATTEMPTS = 40


class Scaled:
    """data.py with inputs of 1 in trainer 0 and 3 in trainer 1."""

    def __init__(self, data, rank):
        self._data, self._scale = data, 1 + 2 * rank

    def weights(self, params, random):
        """The initial weights."""
        return self._data.weights(params, random)

    def batch(self, params, batch_size, random):
        """A batch of equal inputs."""
        batch = self._data.batch(params, batch_size, random)
        return {name: value * self._scale for name, value in batch.items()}


def main():
    """Writes `losses` to rank.json."""
    code, folder = os.environ["NIGHTBENCH_CODE"], os.environ["NIGHTBENCH_PROCESS_DIR"]
    repeat_dir = os.environ["NIGHTBENCH_REPEAT_DIR"]
    job = read_json(os.environ["NIGHTBENCH_JOB_FILE"])
    go = read_json(os.path.join(repeat_dir, "go.json"))
    spec = read_json(os.path.join(code, "workloads", "counted", "spec.json"))
    context = Context(job, os.environ["NIGHTBENCH_PROCESS"], go, repeat_dir, spec)
    runtime = new_runtime(code, context)
    trainer = new_trainer(code, context, lambda data: Scaled(data, context.rank))
    if not context.measured:
        trainer.serve()
        return
    steps = STEPS if context.case["sync"] == "sync" else STEPS + 5 * context.rank
    for _ in range(steps):
        trainer.step()
    runtime.barrier()
    zeros = {name: value * 0 for name, value in next(trainer.batches).items()}
    trainer.batches = itertools.repeat(zeros)
    # Fluid's asynchronous trainers send and fetch in the background.
    for _ in range(ATTEMPTS):
        trainer.step()
        held = sorted({float(each) for value in trainer.weights().values() for each in value.flat})
        if held == [job["expected"]] or context.case["sync"] == "sync":
            break
        time.sleep(0.5)
    runtime.barrier()
    with open(os.path.join(folder, "rank.json"), "w") as stream:
        json.dump({"held": held}, stream)
    runtime.shutdown()


if __name__ == "__main__":
    sys.exit(main())
