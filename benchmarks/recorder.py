"""Progress of a running rank: `steps.jsonl`, one JSON object a line.

    {"kind": "phase", "phase": "search|import|build|warmup|window|drain|finish", "t_s": 12.5}
    {"kind": "step", "phase": "warmup|window|drain", "step": 1, "t_s": 13.0, "dt_s": 0.5}

`t_s` is the node's monotonic clock; `step` counts from 1 in its phase. These records only show
progress: results are computed from the return value of `measure`. If the host queues steps ahead of
the device, a record has the time when the step was queued.
"""

import atexit
import json
import os
import time

WRITTEN_AT_ONCE = 16
"""First steps of a phase that are not buffered, to show where a rank hangs early."""


class Recorder:
    """Appends records to a file: a phase and its first steps at once, then every `interval_s`."""

    def __init__(self, path, interval_s=0.2):
        self._stream = open(path, "a")  # noqa: SIM115 (kept open for the life of the process)
        self._interval_s = interval_s
        self._lines = []
        self._written_s = 0.0
        self._previous_s = time.monotonic()
        # An exception ends the process without `close`: store what it reached.
        atexit.register(self._flush_at_exit, os.getpid())

    def phase(self, name):
        """Record that a phase begins now."""
        self._previous_s = time.monotonic()
        self._lines.append(json.dumps({"kind": "phase", "phase": name, "t_s": self._previous_s}))
        self.flush()

    def step(self, phase, step):
        """Record that a step has returned now."""
        now = time.monotonic()
        self._lines.append(
            '{{"kind": "step", "phase": "{}", "step": {}, "t_s": {:.6f}, "dt_s": {:.6f}}}'.format(
                phase, step, now, now - self._previous_s
            )
        )
        self._previous_s = now
        if step <= WRITTEN_AT_ONCE or now - self._written_s >= self._interval_s:
            self.flush()

    def flush(self):
        """Write the buffered records."""
        if self._lines:
            self._stream.write("\n".join(self._lines) + "\n")
            self._stream.flush()
            self._lines = []
        self._written_s = time.monotonic()

    def _flush_at_exit(self, owner):
        if os.getpid() == owner:  # what it forked has the same records
            self.flush()

    def close(self):
        """Write the buffered records and close the file."""
        self.flush()
        self._stream.close()
