"""One process of a gang: loads its framework and workload, measures, writes rank.json.

Runs in the framework's own interpreter; everything it needs stands in the environment:

    NIGHTBENCH_JOB_FILE     job.json
    NIGHTBENCH_PROCESS      name of this process in it
    NIGHTBENCH_REPEAT_DIR   holds go.json (ports by name) and, later, `drain`
    NIGHTBENCH_PROCESS_DIR  where steps.jsonl and rank.json go
    NIGHTBENCH_CODE         the folder of this file

Four files there are one cell of the matrix: `frameworks/<line>/runtime.py` (the process),
`frameworks/<line>/trainer.py` (how a network is trained), `workloads/<name>/<api>.py` (the network
and its loss in the line's API) and `workloads/<name>/data.py` (batches and initial weights).

Exit code 0: done. 3: a loss is not finite (rank.json is written). Anything else: a crash, whose
traceback is on stderr.
"""

import faulthandler
import importlib.util
import json
import os
import signal
import sys
import time

from batch_search import MAX, largest_batch, names_memory
from extras import extra_of
from measure import loss_summary, measure
from profiling import profile
from recorder import Recorder
from wrappers import Slowed

EXIT_LOSS_NOT_FINITE = 3

CONDITIONS = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE"),
    *("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_CBWR", "XLA_FLAGS"),
    *("TF_ENABLE_ONEDNN_OPTS", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE"),
)
"""Variables that decide the order of additions in kernels, and their instructions."""


class Context:
    """The job, and this process's place in it, for a runtime and a trainer.

    Args:
        job: the job.json document.
        name: name of this process in it.
        go: the document go.json, the start signal.
        repeat_dir: folder of the repeat.
        spec: the workload's spec.json document.
    """

    def __init__(self, job, name, go, repeat_dir, spec):
        self.job = job
        self.process = _by_name(job["processes"], name)
        self.node = _by_name(job["nodes"], self.process["node"])
        self.case = job["case"]
        self.params = job["workload"]["params"]
        self.parameters = self.params.get("parameters", spec.get("parameters"))
        """Required number of trainable parameters: the scale's, otherwise the workload's."""
        self.shards = spec.get("shards")
        """The network's list of layers that `shard` gathers one by one."""
        self.matrices = spec.get("tensor")
        """How `tensor` splits the network's modules."""
        self.tables = spec.get("context")
        """The network's tables by position, which `context` cuts like sequences."""
        self.experts = spec.get("expert", {}).get("modules")
        """The network's modules whose weights have experts in their first dimension."""
        self.ends = spec.get("pipeline")
        """Modules of the first and the last stage of a `pipeline` in addition to layers."""
        self.seed = job["workload"]["seed"]
        self.tell_progress = lambda: None
        """Records that this process continues, for long work outside the measured steps."""
        self.role = self.process["role"]
        self.rank = self.process["rank"]
        self.measured = self.process["measured"]
        """Whether this process trains; otherwise it serves until it is ended."""
        self.trainers = [p for p in job["processes"] if p["measured"]]
        self.world_size = len(self.trainers)
        collective = self.case["strategy"] == "collective"
        self.grouped = self.measured and collective and self.world_size > 1
        """Whether gradients are exchanged between ranks. No line wraps a single rank (no process
        group, no DataParallel): `collective` at 1x1 is the same program as `single`."""
        self.batch_size = self.case["batch_size_per_device"]
        """Samples in a rank's step; "max" until the search has found the number."""
        self.tensor = self.case.get("tensor", 1)
        """Number of ranks that split each matrix; they are neighbours."""
        self.pieces = self.case.get("context", 1)
        """Number of ranks that split each sequence."""
        self.stages = self.case.get("pipeline", 1)
        """Number of ranks that split the layers, one after another."""
        self.devices_of_experts = self.case.get("expert", 1)
        """Number of ranks that split the experts of each layer; each has its own samples."""
        self.together = self.tensor * self.pieces * self.stages
        """Number of ranks that compute the same samples: their batches joined to one."""
        self.data_ranks = self.world_size // self.together
        self.data_rank = self.rank // (self.tensor * self.pieces) % max(self.data_ranks, 1)
        """Number among `data_ranks` with different samples; servers have no samples."""
        self.precision = self.case["precision"]
        self.data_path = job["workload"]["data_path"]
        """Folder or file of real data on this node: the cluster's data set, or the shipped sample;
        None if batches are synthetic."""
        if self.case["data"] == "sample":
            here = os.path.dirname(os.path.abspath(__file__))
            self.data_path = os.path.join(here, "samples", spec["reads"])
        self.device = self.process["device"]
        """Index or UUID of a GPU; None on the CPU."""
        self.ports = go["ports"]
        self.repeat_dir = repeat_dir
        self.runtime = None

    def address(self, name):
        """Return (host, port) on the data network where the named process may listen."""
        node = _by_name(self.job["nodes"], _by_name(self.job["processes"], name)["node"])
        return node["data_address"], self.ports[name]


def _by_name(items, name):
    return next(item for item in items if item["name"] == name)


def load_module(name, path):
    """Import a file by its path, because names of workload folders are not valid module names."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def read_json(path):
    """Return the JSON document in a file."""
    with open(path) as stream:
        return json.load(stream)


def write_json(path, document):
    """Write a JSON document atomically, by a rename."""
    temporary = "{}.tmp-{}".format(path, os.getpid())
    with open(temporary, "w") as stream:
        json.dump(document, stream, allow_nan=False)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)


def process_start_s():
    """Return the start of this process on the monotonic clock, in s (resolution 0.01 s)."""
    with open("/proc/self/stat") as stream:
        # The second field, the command's name in brackets, may hold blanks; start time is the 22nd.
        ticks = int(stream.read().rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / float(os.sysconf("SC_CLK_TCK"))
    return time.monotonic() - age_s


def tell_stack_on_signal(folder):
    """Make SIGUSR2 write the stacks of all threads to faulthandler.txt, whatever Python does."""
    # Kept open for the life of the process: the handler writes to the descriptor.
    stream = open(os.path.join(folder, "faulthandler.txt"), "w")  # noqa: SIM115 - see above
    faulthandler.register(signal.SIGUSR2, file=stream, all_threads=True)


def new_runtime(code, context):
    """Return the line's runtime, after it has joined the other ranks."""
    line = os.path.join(code, "frameworks", context.case["framework"])
    runtime = load_module("nightbench_runtime", os.path.join(line, "runtime.py")).Runtime(context)
    context.runtime = runtime
    runtime.init()
    return runtime


def new_trainer(code, context, wrap_data=None):
    """Return the line's trainer of the workload; `wrap_data` may replace the module data.py."""
    line = os.path.join(code, "frameworks", context.case["framework"])
    workload = os.path.join(code, "workloads", context.case["workload"])
    api = read_json(os.path.join(line, "framework.json"))["api"]
    network = load_module("nightbench_network", os.path.join(workload, api + ".py"))
    data = load_module("nightbench_data", os.path.join(workload, "data.py"))
    trainer = load_module("nightbench_trainer", os.path.join(line, "trainer.py"))
    return trainer.Trainer(context, network, wrap_data(data) if wrap_data else data)


def count_step(trainer, context):
    """Count a step's FLOPs and sent bytes; count nothing if this needs too much memory."""
    try:
        trainer.count_step()
    except Exception as error:
        if context.world_size > 1 or not names_memory(str(error)):
            raise
        print("out of memory while a step was counted: {}".format(error), file=sys.stderr)


def conditions(environ):
    """Return the settings that decide how CPU kernels add; on GPUs, libraries choose by time."""
    cpus = str(len(os.sched_getaffinity(0)))
    return {"cpus": cpus, **{name: environ[name] for name in CONDITIONS if name in environ}}


def main():
    """Run the process named by the environment and return its exit code."""
    environ = os.environ
    started_s = process_start_s()
    code, folder = environ["NIGHTBENCH_CODE"], environ["NIGHTBENCH_PROCESS_DIR"]
    repeat_dir = environ["NIGHTBENCH_REPEAT_DIR"]
    tell_stack_on_signal(folder)
    job = read_json(environ["NIGHTBENCH_JOB_FILE"])
    go = read_json(os.path.join(repeat_dir, "go.json"))
    spec = read_json(os.path.join(code, "workloads", job["case"]["workload"], "spec.json"))
    context = Context(job, environ["NIGHTBENCH_PROCESS"], go, repeat_dir, spec)
    recorder = Recorder(os.path.join(folder, "steps.jsonl"))

    profiled_steps = int(extra_of(job, "profile"))
    if profiled_steps:
        # No value of this job enters a history, so NCCL may log its choices in the window.
        environ.setdefault("NCCL_DEBUG_SUBSYS", "INIT,NET,TUNING")
    searched = context.measured and context.batch_size == MAX
    if searched:
        context.batch_size = largest_batch(context, code, folder, lambda: recorder.phase("search"))

    recorder.phase("import")
    runtime = new_runtime(code, context)

    recorder.phase("build")
    trainer = new_trainer(code, context)

    if not context.measured:
        trainer.serve()
        recorder.phase("finish")
        recorder.close()
        return 0

    precision = trainer.precision_proof()
    asynchronous = context.case["strategy"] == "parameter_server" and context.case["sync"] != "sync"
    drain_file = os.path.join(repeat_dir, "drain") if asynchronous else None
    sleep_s = extra_of(job, "drill")
    if sleep_s:
        trainer = Slowed(trainer, runtime, sleep_s)
    measured = measure(trainer, runtime, job["protocol"], recorder, drain_file)

    context.tell_progress = lambda: recorder.phase("finish")
    context.tell_progress()
    updates = len(measured.step_end_s) - measured.warmup_steps
    weights_moved = trainer.weights_moved(updates)
    skipped = trainer.skipped_updates(updates) if hasattr(trainer, "skipped_updates") else None
    again = trainer.step_again()
    loss, finite = loss_summary(trainer.losses(), measured, again)
    rank = {
        "schema": "nightbench.rank/1",
        "samples_per_step": float(trainer.samples_per_step),
        "world_size": context.world_size,
        "window": {
            "open_s": measured.open_s,
            "close_s": measured.close_s,
            "wall_s": measured.wall_s,
            "steps": len(measured.step_seconds),
        },
        "step_seconds": measured.step_seconds,
        "step_end_s": measured.step_end_s,
        "warmup_steps": measured.warmup_steps,
        "drain_steps": measured.drain_steps,
        "time_to_first_step_s": measured.first_step_end_s - started_s,
        "loss": loss,
        "loss_finite": finite,
        "weights_moved": weights_moved,
        "weights_digest": trainer.weights_digest(),
        "parameters": trainer.parameters,
        "peak_memory": runtime.peak_memory(),
        "precision": precision,
        "transport": runtime.transport(),
        "versions": runtime.versions(),
    }
    waits_s = getattr(trainer, "data_waits_s", None)
    if waits_s is not None:
        begin, steps = measured.warmup_steps, len(measured.step_seconds)
        rank["data_wait_s"] = sum(waits_s[begin : begin + steps]) / steps
    if hasattr(trainer, "count_step") and not job.get("is_attempt"):
        count_step(trainer, context)
    rank["flops_per_step"] = getattr(trainer, "flops_per_step", None)
    optional = {
        "batch_size_per_device": context.batch_size if searched else None,
        "skipped_updates": skipped,
        "conditions": conditions(environ) if context.device is None else None,
        "sent_bytes_per_step": getattr(trainer, "sent_bytes_per_step", None),
        "expert_tokens": trainer.expert_tokens() if hasattr(trainer, "expert_tokens") else None,
        "drill_sleep_s": sleep_s or None,
        "modes": (trainer.modes_used() if hasattr(trainer, "modes_used") else {}) or None,
        "gradients_arrive": trainer.gradients_arrive(),
    }
    rank.update((name, value) for name, value in optional.items() if value is not None)
    if profiled_steps:
        rank["profile"] = profile(trainer, runtime, profiled_steps)
    write_json(os.path.join(folder, "rank.json"), rank)
    runtime.shutdown()
    recorder.close()
    if not finite:
        print("a loss is not finite: {}".format(loss), file=sys.stderr)
        return EXIT_LOSS_NOT_FINITE
    return 0


if __name__ == "__main__":
    sys.exit(main())
