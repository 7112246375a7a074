"""Runs an unchanged script of another program, and makes a rank.json from its log.

    script.py COMMAND [ARGUMENT ...]

The environment is that of `rank.py`. Steps and values come from the log. This process times the
window, from the arrival of its first line to that of its last one. So another clock checks the
values of the log. Scripts continue until every measured process of the gang has its window (the
file `drain` of the repeat), and are then ended.

Exit code 0: measured. If the script failed: its exit code. If its log cannot be read: 1.
"""

import math
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))

from logs import reading  # noqa: E402 - the path is set just above
from logs.lines import without_colours  # noqa: E402
from logs.records import CONTRADICTION  # noqa: E402
from rank import Context, process_start_s, read_json, write_json  # noqa: E402
from recorder import Recorder  # noqa: E402

POLL_S = 0.2
GRACE_S = 5.0
"""Time to wait for the others to end if a script fails; and time from SIGTERM to SIGKILL."""

AGAIN = 1.2
"""Growth after which a log is read again; more readings would take the script's cores."""

SETTLED = 20
"""Number of lines after which an unreadable log is an error."""

_ENDS = re.compile(b"[\r\n\x08]+")


class Log:
    """The lines of a pipe or of a growing file, with their times of arrival."""

    def __init__(self):
        self.lines = []
        self.times_s = []
        self._rest = b""

    def feed(self, piece):
        """Add bytes that have just arrived."""
        now = time.monotonic()
        *ended, self._rest = _ENDS.split(self._rest + piece)
        self.lines += [line.decode("utf-8", "replace") for line in ended]
        self.times_s += [now] * len(ended)

    def text(self, whole):
        """Return all complete lines; with `whole`, also the text after the last of them."""
        rest = self._rest.decode("utf-8", "replace") if whole else ""
        return "".join(line + "\n" for line in self.lines) + rest


class LogFile:
    """A log file that a script writes; content from before the start is ignored."""

    def __init__(self, path, log):
        self._path = path
        self._log = log
        self._offset = os.path.getsize(path) if os.path.exists(path) else 0

    def read(self):
        """Read what was appended; a file that was rewritten is read from its beginning."""
        if not os.path.exists(self._path):
            return
        if os.path.getsize(self._path) < self._offset:
            self._offset = 0
        with open(self._path, "rb") as stream:
            stream.seek(self._offset)
            piece = stream.read()
        self._offset += len(piece)
        if piece:
            self._log.feed(piece)


class Window:
    """The measured window between lines of a log.

    Args:
        records: of the log; the first one opens the window, each other one ends a part of it.
        warmup_steps: steps before the window.
        times_s: when the lines arrived.
        samples_per_step: samples that the log covers, to convert a throughput to a duration.
        first_s: when the first line that states a step arrived.
    """

    def __init__(self, records, warmup_steps, times_s, samples_per_step, first_s):
        self.warmup_steps = warmup_steps
        self.first_s = first_s
        self.open_s = times_s[records[0].line - 1]
        self.close_s = times_s[records[-1].line - 1]
        self.step_seconds, self.step_end_s = [], []
        for before, record in zip(records, records[1:]):
            steps = record.step - before.step
            begin_s, end_s = times_s[before.line - 1], times_s[record.line - 1]
            self.step_end_s += [
                begin_s + (end_s - begin_s) * n / steps for n in range(1, steps + 1)
            ]
            stated_s = _stated_s(record, samples_per_step)
            self.step_seconds += [stated_s or (end_s - begin_s) / steps] * steps
        if not any(_stated_s(record, samples_per_step) for record in records[1:]):
            raise reading.LogError("no line of the measured steps states a step time or throughput")
        self.reported = _reported(records[1:])


def _reported(records):
    """Return name -> median of the values that lines state, except time, throughput and loss."""
    values = {}
    for record in records:
        # If the batch is known, samples per second are computed from it.
        computed = {"samples_per_s"} if "global_batch_size" in record.others else set()
        for name, value in record.others.items():
            if name not in {"loss", *computed} and math.isfinite(value):
                values.setdefault(name, []).append(value)
    return {name: statistics.median(each) for name, each in values.items()}


def _stated_s(record, samples_per_step):
    """Return the seconds per step that a line states; None if it states no time or throughput."""
    by_speed = samples_per_step / record.throughput if record.throughput else None
    if record.step_s and by_speed and abs(by_speed / record.step_s - 1) > CONTRADICTION:
        raise reading.LogError(
            "line {} states {:g} s per step and {:g} per second, which is {:g} per step; expected "
            "{:g}: correct `batch_size_per_device`, or `log.covers`".format(
                record.line,
                record.step_s,
                record.throughput,
                record.step_s * record.throughput,
                samples_per_step,
            )
        )
    return record.step_s or by_speed


def find_window(found, times_s, protocol, samples_per_step):
    """Return the first window of a log that is long enough; None if there is none yet.

    If the log does not state the length of epochs, steps are not counted across epochs: the
    window is then within one epoch.
    """
    if not found.numbered:
        raise reading.LogError(
            "the log numbers no steps; set `log.every`, the steps between two lines"
        )
    opened = None
    for number, record in enumerate(found.records):
        if record.done < protocol["warmup_steps"]:
            continue
        if opened is None or record.segment != found.records[opened].segment:
            opened = number
        first = found.records[opened]
        lasted_s = times_s[record.line - 1] - times_s[first.line - 1]
        enough = record.step - first.step >= protocol["measured_steps"]
        if enough and lasted_s >= protocol["min_seconds"]:
            records = found.records[opened : number + 1]
            first_s = times_s[found.records[0].line - 1]
            return Window(records, first.done, times_s, samples_per_step, first_s)
    return None


class Script:
    """The script of one process, started in a session of its own."""

    def __init__(self, argv, folder, prefix, log):
        env = dict(os.environ)
        if prefix:
            prefix = os.path.expanduser(prefix)
            path = os.path.join(prefix, "bin")
            env.update(PATH=path + os.pathsep + env.get("PATH", os.defpath), VIRTUAL_ENV=prefix)
        try:
            self._popen = subprocess.Popen(
                argv,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            sys.exit("cannot start {}: {}".format(" ".join(argv), error))
        self._reader = threading.Thread(target=self._read, args=(log,), daemon=True)
        self._reader.start()

    def _read(self, log):
        for piece in iter(lambda: os.read(self._popen.stdout.fileno(), 65536), b""):
            os.write(1, piece)  # the agent keeps it as out.log
            if log is not None:
                log.feed(piece)

    def ended(self):
        """Return the exit code, or minus the signal, once all output is read; otherwise None."""
        if self._popen.poll() is not None:
            self._reader.join(GRACE_S)
        return self._popen.returncode

    def end(self):
        """End the script and the processes of its session."""
        for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
            try:
                os.killpg(self._popen.pid, number)
                self._popen.wait(patience_s)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass


def commit_of(folder):
    """Return repository, commit and local changes of a folder; empty if it is not in git."""

    def git(*words):
        try:
            done = subprocess.run(
                ("git", "-C", folder, *words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            return None
        return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return {}
    changed = git("status", "--porcelain", "--untracked-files=no") or ""
    origin = re.sub(r"//[^/@]*@", "//", git("config", "--get", "remote.origin.url") or "")
    files = len(changed.splitlines())
    return {
        "repository": origin or folder,
        "commit": commit,
        "local_changes": "{} files".format(files) if files else "none",
        "external": commit[:12] + ("+changes" if files else ""),
    }


class LogReader:
    """Searches for the window in the log of this process."""

    def __init__(self, context, recorder, folder):
        self._context = context
        self._options = context.params["command"]["log"]
        self._marker = reading.format_named(self._options["format"]).MARKER
        self._recorder = recorder
        self.log = Log()
        path = self._options["file"]
        self._file = LogFile(os.path.join(folder, path), self.log) if path else None
        self._seen = self._stating = self._read_at = 0
        self.window = None

    @property
    def piped(self):
        """The log of the script's output; None if the script writes a log file."""
        return None if self._file else self.log

    def look(self, whole):
        """Read new lines; exit if the log can no longer be read.

        Args:
            whole: the script has ended, and no more lines will come.
        """
        if self._file:
            self._file.read()
        count = len(self.log.lines)
        new = sum(
            1
            for line in self.log.lines[self._seen : count]
            if self._marker.search(without_colours(line))
        )
        self._seen = count
        self._stating += new
        if new:
            self._recorder.phase("warmup")  # progress, for the agent
        if not whole and self._stating < max(2, AGAIN * self._read_at):
            return
        self._read_at = self._stating
        try:
            found = reading.read(self._options["format"], self.log.text(whole), self._options)
            self.window = find_window(
                found,
                self.log.times_s,
                self._context.job["protocol"],
                stated_samples(self._context, found.per_device),
            )
        except reading.LogError as error:
            if whole or self._stating >= SETTLED:
                sys.exit("the log of the script cannot be read: {}".format(error))
        if self.window is not None:
            self._recorder.phase("drain")
        elif whole:
            sys.exit("the script ended before all steps were measured")


def main():
    """Run the script of this process and return the exit code."""
    environ = os.environ
    started_s = process_start_s()
    process_dir, repeat_dir = environ["NIGHTBENCH_PROCESS_DIR"], environ["NIGHTBENCH_REPEAT_DIR"]
    job = read_json(environ["NIGHTBENCH_JOB_FILE"])
    go = read_json(os.path.join(repeat_dir, "go.json"))
    context = Context(job, environ["NIGHTBENCH_PROCESS"], go, repeat_dir, {})
    command = context.params["command"]
    recorder = Recorder(os.path.join(process_dir, "steps.jsonl"))
    recorder.phase("build")
    folder = os.path.expanduser(command["folder"] or process_dir)
    data = os.path.expanduser(context.data_path or folder)
    if not os.path.exists(data):
        sys.exit("{}: no such file or folder on this node".format(data))
    reader = LogReader(context, recorder, folder) if context.measured else None
    script = None
    if command["launch"] != "head" or context.rank == 0:
        script = Script(sys.argv[1:], folder, command["prefix"], reader and reader.piped)
    wait(script, reader, os.path.join(repeat_dir, "drain"))
    if script:
        script.end()
    if reader:
        rank = summary(context, reader, commit_of(folder), started_s)
        write_json(os.path.join(process_dir, "rank.json"), rank)
    recorder.phase("finish")
    recorder.close()
    return 0


def wait(script, reader, drain_file):
    """Wait until all windows of the gang are read; exit if the script or its log fails."""
    while not os.path.exists(drain_file):
        code = script.ended() if script else None
        if code:
            # After another rank was ended, this rank may fail: this ends the rank, too.
            limit_s = time.monotonic() + GRACE_S
            while time.monotonic() < limit_s and not os.path.exists(drain_file):
                time.sleep(POLL_S)
            if not os.path.exists(drain_file):
                sys.exit(128 - code if code < 0 else code)
            return
        if reader and reader.window is None:
            reader.look(whole=code is not None)
        time.sleep(POLL_S)


def samples_per_step(context):
    """Return the units of work in a step, of the devices that this process measures."""
    devices = context.case["trainers"] // context.world_size
    return context.batch_size * devices * context.params.get("units_per_example", 1)


def stated_samples(context, per_device):
    """Return the units of work in a step, of the devices that the log's values cover."""
    if per_device or context.params["command"]["log"]["covers"] == "device":
        return context.batch_size * context.params.get("units_per_example", 1)
    return samples_per_step(context)


def summary(context, reader, versions, started_s):
    """Return the rank.json document; values that a log does not state are null."""
    window = reader.window
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "schema": "nightbench.rank/1",
        "samples_per_step": float(samples_per_step(context)),
        "world_size": context.world_size,
        "window": {
            "open_s": window.open_s,
            "close_s": window.close_s,
            "wall_s": window.close_s - window.open_s,
            "steps": len(window.step_seconds),
        },
        "step_seconds": window.step_seconds,
        "step_end_s": window.step_end_s,
        "warmup_steps": window.warmup_steps,
        "drain_steps": 0,
        "time_to_first_step_s": window.first_s - started_s,
        "loss": None,
        "loss_finite": None,
        "weights_digest": None,
        "parameters": None,
        "peak_memory": {"resident_bytes": children.ru_maxrss * 1024, "allocator_bytes": None},
        "precision": None,
        "transport": None,
        "reported": window.reported,
        "versions": dict({"external": "unknown"}, **versions),
    }


if __name__ == "__main__":
    sys.exit(main())
