"""A rank of the `fake` line: keeps the contract of a rank with the standard library alone.

It also breaks the contract on request, for tests of the launch and of the checks. Every knob
is a key of the workload's parameters (`die_at_step`) or an environment variable
(`FAKE_DIE_AT_STEP`, which wins):

| knob | effect |
|---|---|
| `step_s` | seconds of a step |
| `repeat`, `rank` | the knobs below act only on this repeat, on this trainer; always when absent |
| `die_at_step` | end at this step (1-based over warm-up and window) ... |
| `die_at_phase` | ... or on entering import, build, warmup, window, drain or finish; ... |
| `die_at_finish` | ... or once everything is measured and written; ... |
| `die_signal`, `die_code` | ... by this signal number, or with this exit code (default 1) |
| `eat_at_step` | take memory at this step until the kernel ends it |
| `eat_memory` | the same at step 3 |
| `hang_at_step` | sleep for ever at this step |
| `collective` | the trainers meet at each step: where one hangs or dies the others wait |
| `busy` | a step computes for `step_s` instead of sleeping |
| `busy_children` | so many processes of the rank compute beside it |
| `ignore_term` | ignore SIGTERM |
| `daemon` | leave a process behind that has left session and group; "bare": and its environment |
| `nan_loss` | the loss is not finite from the window's first step on |
| `weights_differ` | the digest of the weights is this rank's own |
| `no_result` | exit 0 without rank.json |
| `slow_step`, `slow_step_s` | one step of the window takes so much longer |
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import math
import os
import platform
import resource
import signal
import socket
import sys
import time

ENV = os.environ
JOB = json.load(open(ENV["NIGHTBENCH_JOB_FILE"]))  # noqa: SIM115 - read once, at start
NAME = ENV["NIGHTBENCH_PROCESS"]
REPEAT_DIR = ENV["NIGHTBENCH_REPEAT_DIR"]
FOLDER = ENV["NIGHTBENCH_PROCESS_DIR"]
ME = next(process for process in JOB["processes"] if process["name"] == NAME)
TRAINERS = [process for process in JOB["processes"] if process["role"] == "trainer"]


def _knob(name, default=None):
    """A knob's value as JSON (or a plain word): environment first, then the parameters."""
    text = ENV.get("FAKE_" + name.upper())
    if text is None:
        return JOB["workload"]["params"].get(name, default)
    try:
        return json.loads(text)
    except ValueError:
        return text


def _drill_sleep_s() -> float:
    """As `measure.drill_sleep_s`: a drill's sleep in each step; refused in every other job."""
    sleep_s = float(JOB["env"].get("NIGHTBENCH_DRILL_SLEEP_S", 0))
    if sleep_s and not JOB["run_id"].startswith("drill-"):
        raise ValueError("NIGHTBENCH_DRILL_SLEEP_S is for drills alone: " + JOB["run_id"])
    return sleep_s


def _concerned() -> bool:
    repeat, rank = _knob("repeat"), _knob("rank")
    here = int(os.path.basename(REPEAT_DIR))
    return repeat in (None, here) and (
        rank is None or (ME["role"] == "trainer" and rank == ME["rank"])
    )


CONCERNED = _concerned()


def _fault(name, default=None):
    """A knob that breaks something: absent on the ranks and repeats that are not concerned."""
    return _knob(name, default) if CONCERNED else default


class Steps:
    """steps.jsonl, flushed at most every 0.2 s and at changes of phase."""

    def __init__(self) -> None:
        self._file = open(os.path.join(FOLDER, "steps.jsonl"), "a")  # noqa: SIM115 - whole life
        self._flushed_s = 0.0
        self.phase_name = ""

    def phase(self, name: str) -> None:
        """Enter a phase."""
        self.phase_name = name
        self._write({"kind": "phase", "phase": name, "t_s": time.monotonic()}, True)
        if name == _fault("die_at_phase"):
            _die("the phase {}".format(name))

    def step(self, number: int, end_s: float, lap_s: float) -> None:
        """Record a step's end."""
        record = {"kind": "step", "phase": self.phase_name, "step": number}
        record.update({"t_s": end_s, "dt_s": lap_s})
        self._write(record, end_s - self._flushed_s > 0.2)

    def _write(self, record, flush):
        self._file.write(json.dumps(record) + "\n")
        if flush:
            self._file.flush()
            self._flushed_s = time.monotonic()


def _address_of(process):
    return next(n for n in JOB["nodes"] if n["name"] == process["node"])["data_address"]


def _barrier() -> None:
    """Trainers meet at the master's port: all go when the last has come."""
    if len(TRAINERS) < 2:
        return
    with open(os.path.join(REPEAT_DIR, "go.json")) as handle:
        port = json.load(handle)["ports"]["master"]
    if ME["rank"] == 0:
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", port))
        server.listen(64)
        others = [server.accept()[0] for _ in TRAINERS[1:]]
        for other in others:
            other.sendall(b"g")
            other.close()
        server.close()
        return
    address = _address_of(next(process for process in TRAINERS if process["rank"] == 0))
    while True:
        try:
            with socket.create_connection((address, port)) as link:
                if link.recv(1) == b"g":
                    return
        except OSError:
            pass  # rank 0 does not listen yet; the agent's progress watch bounds the waiting
        time.sleep(0.05)


def _leave_daemon() -> None:
    """A process that has left the session and the group, and that ignores SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            if _fault("daemon") == "bare":
                os.execve("/bin/sleep", ["sleep", "3600"], {})
            time.sleep(3600)
        os._exit(0)


def _serve() -> None:
    """A parameter server: runs until somebody ends it."""
    with open(os.path.join(REPEAT_DIR, "go.json")) as handle:
        port = json.load(handle)["ports"][NAME]
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", port))
    server.listen(8)
    while True:
        time.sleep(3600)


def _die(where: str) -> None:
    print("fake: told to die at {}".format(where), flush=True)
    die_signal = _fault("die_signal")
    if die_signal is not None:
        os.kill(os.getpid(), die_signal)
        time.sleep(60)
    sys.exit(_fault("die_code", 1))


def _misbehave(number: int) -> None:
    if number == _fault("die_at_step"):
        _die("step {}".format(number))
    if number == _fault("hang_at_step"):
        time.sleep(3600)
    if number == _fault("eat_at_step", 3 if _fault("eat_memory") else None):
        print("fake: told to take all memory at step {}".format(number), flush=True)
        eaten = []
        while True:
            eaten.append(os.urandom(2**20) * 16)  # random: no page of it is shared or zero


def _compute_for(length_s: float) -> None:
    until = time.monotonic() + length_s
    while time.monotonic() < until:
        sum(range(1000))


def _start_busy_children() -> None:
    for _ in range(_fault("busy_children", 0)):
        if os.fork() == 0:
            _compute_for(3600)
            os._exit(0)


class Ring:
    """The trainers' meetings at each step: a byte to rank 0 and one back."""

    def __init__(self) -> None:
        self._links = []
        with open(os.path.join(REPEAT_DIR, "go.json")) as handle:
            port = json.load(handle)["ports"][TRAINERS[0]["name"]]
        address = _address_of(TRAINERS[0])
        if ME["rank"] == TRAINERS[0]["rank"]:
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("", port))
            server.listen(256)
            self._links = [server.accept()[0] for _ in TRAINERS[1:]]
            server.close()
            return
        while not self._links:
            try:
                self._links = [socket.create_connection((address, port))]
            except OSError:
                time.sleep(0.05)  # rank 0 does not listen yet

    def meet(self) -> None:
        """Wait until all have come."""
        leads = ME["rank"] == TRAINERS[0]["rank"]
        for link in self._links:
            if not leads:
                link.sendall(b"s")
        for link in self._links:
            while not link.recv(1):
                time.sleep(3600)  # its other end has died: a collective that never comes back
        for link in self._links:
            if leads:
                link.sendall(b"g")


def _finite(values):
    return [value if math.isfinite(value) else None for value in values]


def _write_result(document) -> None:
    path = os.path.join(FOLDER, "rank.json")
    with open(path + ".tmp", "w") as handle:
        json.dump(document, handle)
    os.rename(path + ".tmp", path)


def _train(started_s: float) -> int:
    steps = Steps()
    steps.phase("import")
    source = os.path.join(ENV["NIGHTBENCH_CODE"], "workloads", JOB["workload"]["name"], "fake.py")
    spec = importlib.util.spec_from_file_location("workload", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    steps.phase("build")
    step_s = _knob("step_s", 0.01)
    batch_size, seed = JOB["case"]["batch_size_per_device"], JOB["workload"]["seed"]
    task = module.Task(0.0 if _knob("busy") else step_s, batch_size, seed)
    if _fault("daemon"):
        _leave_daemon()
    _start_busy_children()
    _barrier()
    drill_s = _drill_sleep_s()
    ring = Ring() if _knob("collective") and len(TRAINERS) > 1 else None
    protocol = JOB["protocol"]
    ends, losses, laps = [], [], []
    first_step_s = None

    def run(name, count, least_s):
        # All ranks share the rule, so that they agree on the number without talking.
        nonlocal first_step_s
        count = max(count, math.ceil(least_s / max(step_s, 1e-6)))
        steps.phase(name)
        before = time.monotonic()
        for number in range(1, count + 1):
            _misbehave(number + (protocol["warmup_steps"] if name == "window" else 0))
            loss = task.step()
            if _knob("busy"):
                _compute_for(step_s)
            if ring is not None:
                ring.meet()
            if drill_s:
                time.sleep(drill_s)
            if name == "window":
                if number == _fault("slow_step"):
                    time.sleep(_fault("slow_step_s", 1.0))
                if _fault("nan_loss"):
                    loss = float("nan")
            now = time.monotonic()
            if first_step_s is None:
                first_step_s = now - started_s
            steps.step(number, now, now - before)
            ends.append(now)
            losses.append(loss)
            laps.append(now - before)
            before = now

    run("warmup", protocol["warmup_steps"], 0.0)
    warmup = len(ends)
    open_s = time.monotonic()
    run("window", protocol["measured_steps"], protocol["min_seconds"])
    close_s = time.monotonic()
    window = len(ends) - warmup
    digest = task.weights_digest()
    drained = 0
    asynchronous = JOB["case"]["strategy"] == "parameter_server" and JOB["case"]["sync"] != "sync"
    if asynchronous:
        steps.phase("drain")
        while not os.path.exists(os.path.join(REPEAT_DIR, "drain")):
            if time.monotonic() - close_s > 120:
                break
            before = time.monotonic()
            task.step()
            drained += 1
            ends.append(time.monotonic())
            steps.step(drained, ends[-1], ends[-1] - before)
    steps.phase("finish")
    finite = all(math.isfinite(loss) for loss in losses)
    if _fault("weights_differ"):
        digest = digest[::-1]
    if not _fault("no_result"):
        _write_result(
            {
                "schema": "nightbench.rank/1",
                "samples_per_step": task.samples_per_step,
                "world_size": len(TRAINERS),
                "window": {
                    "open_s": open_s,
                    "close_s": close_s,
                    "wall_s": close_s - open_s,
                    "steps": window,
                },
                "step_seconds": laps[warmup : warmup + window],
                "step_end_s": ends,
                "warmup_steps": warmup,
                "drain_steps": drained,
                "time_to_first_step_s": first_step_s,
                "loss": {
                    "first": _finite(losses)[0],
                    "window": _finite(losses[warmup : warmup + window]),
                    "last": _finite(losses)[-1],
                },
                "loss_finite": finite,
                "weights_digest": None if asynchronous else digest,
                "parameters": 1000,
                "peak_memory": {
                    "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                    "allocator_bytes": None,
                },
                "precision": "fp32",
                "transport": "tcp" if len(TRAINERS) > 1 else None,
                "versions": {
                    "python": platform.python_version(),
                    "fake": str(_knob("version", "1.0")),
                },
                **({"drill_sleep_s": drill_s} if drill_s else {}),
            }
        )
    if _fault("die_at_finish"):
        _die("the end")
    if not finite:
        print("fake: the loss is not finite", flush=True)
        return 3
    return 0


def main() -> int:
    """Exit code: 0, 3 where the loss is not finite, or what a knob asks for."""
    started_s = time.monotonic()
    handler = open(os.path.join(FOLDER, "faulthandler.txt"), "w")  # noqa: SIM115 - whole life
    faulthandler.register(signal.SIGUSR2, file=handler, all_threads=True)
    if _fault("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if ME["role"] == "pserver":
        _serve()
        return 0
    return _train(started_s)


if __name__ == "__main__":
    sys.exit(main())
