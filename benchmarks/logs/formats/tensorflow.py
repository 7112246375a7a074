"""Logs of TensorFlow's estimators, and NVIDIA's `examples/sec`.

INFO:tensorflow:loss = 7.0, step = 100 (12.345 sec)
INFO:tensorflow:global_step/sec: 8.1
INFO:tensorflow:examples/sec: 259.2
INFO:tensorflow:global step 3: loss = 67.3 (16.534 sec/step)

The seconds are those since the line before; in the last form (TF-Slim), those of one step. A log
without steps has only rates.
"""

import re

from logs.lines import NUMBER
from logs.lines import number as number_of

TITLE = "TensorFlow's estimators and TF-Slim, NVIDIA's examples/sec"
MARKER = re.compile(r"global_step/sec: |examples/sec: |\bstep = \d|\bglobal step \d+: ")
_STEP = re.compile(r"\bstep = (?P<step>\d+)(?: \((?P<seconds>{}) sec\))?\s*$".format(NUMBER))
_SLIM_STEP = re.compile(
    r"\bglobal step (?P<step>\d+): .*\((?P<step_time>{}) sec/step\)\s*$".format(NUMBER)
)
_STEPS_PER_S = re.compile(r"global_step/sec: ({})\s*$".format(NUMBER))
_EXAMPLES_PER_S = re.compile(r"examples/sec: ({})\s*$".format(NUMBER))
_NEAR = 5
"""Maximum number of lines between a step and the rate that is logged with it."""


def read(lines, options):
    """Yield (line number, fields); the fields of a damaged line are None."""
    claims = [(n, line) for n, line in enumerate(lines, start=1) if MARKER.search(line)]
    # Two handlers of one logger print each line twice; one of them adds this prefix.
    prefixed = [each for each in claims if "INFO:tensorflow:" in each[1]]
    found = [(number, *_stated(line)) for number, line in prefixed or claims]
    if any(kind == "step" for _, kind, _ in found):
        return iter(_numbered(found))
    kind = "examples" if any(kind == "examples" for _, kind, _ in found) else "steps"
    return iter([(n, fields) for n, this, fields in found if this in (kind, None)])


def _stated(line):
    """Return the kind of a line and its fields; None and None if the line is damaged."""
    if len(MARKER.findall(line)) == 1:
        step = _STEP.search(line)
        if step:
            return "step", step.groupdict()
        slim = _SLIM_STEP.search(line)
        if slim:
            since = int(slim.group("step")) - 1
            return "step", dict(slim.groupdict(), time_unit="s", seconds=None, since=since)
        steps = _STEPS_PER_S.search(line)
        if steps:
            rate = number_of(steps.group(1))
            return "steps", {"step_time": 1 / rate if rate else 0, "time_unit": "s"}
        examples = _EXAMPLES_PER_S.search(line)
        if examples:
            return "examples", {"throughput": examples.group(1), "unit": "examples/s"}
    return None, None


def _numbered(found):
    """Return rows of the lines with steps; a line with a rate of examples is merged into a step.

    It is the next step. If two steps come before the first rate, it is the step before the rate.
    """
    rows, before, waiting = [], None, None
    kinds = [kind for _, kind, _ in found if kind in ("step", "examples")]
    comes_after = kinds[:2] == ["step", "step"]
    for number, kind, fields in found:
        if kind == "step":
            step = int(fields["step"])
            stated = dict(fields, step=step)
            if stated.pop("seconds") and before is not None and step > before:
                stated.update(
                    step_time=number_of(fields["seconds"]) / (step - before), time_unit="s"
                )
            if waiting and number - waiting[0] <= _NEAR:
                stated.update(waiting[1])
            waiting, before = None, step
            rows.append((number, stated))
        elif kind == "examples" and not comes_after:
            waiting = (number, fields)
        elif kind == "examples" and rows[-1][1] and number - rows[-1][0] <= _NEAR:
            rows[-1][1].update(fields)
        elif kind is None:
            rows.append((number, None))
    return rows
