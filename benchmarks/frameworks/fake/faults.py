"""Fault injection for tests of launch, checks and drills.

A knob is a key of the workload's parameters (`die_at_step`) or an environment variable
(`FAKE_DIE_AT_STEP`, which wins); docs/framework-code.md lists them. `repeat` and `rank` confine
those that break something to one repeat and to one trainer.
"""

import atexit
import json
import os
import signal
import sys
import time

from wrappers import Wrapper

PREFIX = "FAKE_"


def knobs_of(params, environ):
    """Return the parameters, overridden by environment variables (JSON, or a plain word)."""
    knobs = dict(params)
    for name, text in environ.items():
        if name.startswith(PREFIX):
            try:
                value = json.loads(text)
            except ValueError:
                value = text
            knobs[name[len(PREFIX) :].lower()] = value
    return knobs


class Faults:
    """The faults that this process injects.

    Args:
        context: see `rank.Context`.
    """

    def __init__(self, context):
        self.knobs = knobs_of(context.params, os.environ)
        self._warmup_steps = context.job["protocol"]["warmup_steps"]
        self._window_steps = context.job["protocol"]["measured_steps"]
        repeat, rank = self.knobs.get("repeat"), self.knobs.get("rank")
        self._concerned = repeat in (None, int(os.path.basename(context.repeat_dir))) and (
            rank is None or (context.measured and rank == context.rank)
        )

    def fault(self, name, default=None):
        """Return a fault's value; the default if it does not apply to this process."""
        return self.knobs.get(name, default) if self._concerned else default

    def on_start(self):
        """Inject the faults of the phase import."""
        if self.fault("ignore_term"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._on_phase("import")

    def on_build(self):
        """Inject the faults of the phase build."""
        self._on_phase("build")
        if self.fault("daemon"):
            _leave_daemon(bare=self.fault("daemon") == "bare")
        for _ in range(self.fault("busy_children", 0)):
            if os.fork() == 0:
                while True:
                    sum(range(1000))

    def on_step(self, number):
        """Inject the faults of a step before it runs; 1 is the first of the warm-up."""
        in_window = number - self._warmup_steps
        if number == 1:
            self._on_phase("warmup" if self._warmup_steps else "window")
        elif in_window == 1:
            self._on_phase("window")
        elif in_window == self._window_steps + 1:
            self._on_phase("drain")
        self._misbehave(number)

    def on_losses(self, losses):
        """Inject the faults of the phase finish; return the losses to report."""
        self._on_phase("finish")
        if self.fault("no_result"):
            sys.exit(0)
        if self.fault("nan_loss"):
            known = losses[: self._warmup_steps]
            losses = known + [float("nan")] * (len(losses) - len(known))
        factor = self.fault("loss_factor", 1.0)
        return [loss * factor for loss in losses]

    def on_end(self):
        """Inject the faults after rank.json is written."""
        if self.fault("die_at_finish"):
            self._die("the end")

    def _on_phase(self, name):
        if name == self.fault("die_at_phase"):
            self._die("the phase {}".format(name))

    def _misbehave(self, number):
        if number == self.fault("die_at_step"):
            self._die("step {}".format(number))
        if number == self.fault("hang_at_step"):
            time.sleep(3600)
        if number == 3 and self.fault("eat_memory"):
            print("fake: injected fault: take all memory at step 3", flush=True)
            eaten = []
            while True:
                eaten.append(os.urandom(2**20) * 16)  # random: no page of it is shared or zero

    def _die(self, where):
        print("fake: injected fault: die at {}".format(where), flush=True)
        if self.fault("die_raise"):
            if self.fault("die_signal") is not None:  # like a framework that crashes at its exit
                atexit.register(os.kill, os.getpid(), self.fault("die_signal"))
            atexit.register(time.sleep, self.fault("die_for_s", 0.0))
            raise RuntimeError(self.fault("die_raise"))
        if self.fault("die_signal") is not None:
            os.kill(os.getpid(), self.fault("die_signal"))
            time.sleep(60)
        sys.exit(self.fault("die_code", 1))


class FaultyTrainer(Wrapper):
    """A trainer with injected faults."""

    def __init__(self, trainer, faults):
        super().__init__(trainer)
        self._faults = faults

    def step(self):
        """Inject a fault, or run the step."""
        self._faults.on_step(len(self.trainer.kept) + 1)
        self.trainer.step()

    def losses(self):
        """Return the losses, or those that a fault replaces them with."""
        return self._faults.on_losses(self.trainer.losses())

    def weights_moved(self, updates):
        """Return how far the weights moved, or the values that a fault gives."""
        moved = self.trainer.weights_moved(updates)
        for tensor in moved.values():
            if self._faults.fault("frozen"):
                tensor.update(moved=0.0, largest=0.0)
            if self._faults.fault("leap"):
                tensor.update(largest=1.0, limit=0.1)
        return moved

    def gradients_arrive(self):
        """Return whether gradients arrive; a fault can make this False."""
        arrive = self.trainer.gradients_arrive()
        return False if arrive and self._faults.fault("unsent") else arrive

    def weights_digest(self):
        """Return the digest; a fault can make it differ on each rank."""
        digest = self.trainer.weights_digest()
        return digest[::-1] if self._faults.fault("weights_differ") else digest


def _leave_daemon(bare):
    """Start a process that ignores SIGTERM, outside the session and the process group."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            if bare:
                os.execve("/bin/sleep", ["sleep", "3600"], {})
            time.sleep(3600)
        os._exit(0)
