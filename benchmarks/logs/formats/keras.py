"""Progress of Keras: `12/100 [==>...........] - 3s 25ms/step - loss: 2.3` below `Epoch 1/5`.

The duration is the mean since the epoch's beginning. A bar with an estimate (`ETA:`) states no
duration. Bars after a complete epoch are those of an evaluation. Below `Train on 6000 samples`,
bars count samples, and a duration is that of a sample, although older versions write `/step`. In
such logs, only the bars of whole epochs are read.
"""

import re

from logs.lines import NUMBER
from logs.lines import number as number_of
from logs.records import SECONDS

TITLE = "Keras' progress bars and lines"
MARKER = re.compile(r"(?<![\w/.])\d+/\d+ +(?:\[[=>. ]*\]|[\u2500-\u257f]+|- )")
_EPOCH = re.compile(r"(?:^|[\s:\]])Epoch (\d+)/\d+\s*$")
_SAMPLES = re.compile(r"\bTrain on (\d+) samples")
_BAR = re.compile(r"(?<![\w/.])(\d+)/(\d+) +(?:\[[=>. ]*\]|[\u2500-\u257f]+|-)")
_TIME = re.compile(
    r"(?<![\w.])(?P<step_time>{}) ?(?P<time_unit>s|ms|us)/(?P<of>step|sample)\b".format(NUMBER)
)


def read(lines, options):
    """Yield (line number, fields); the fields of a damaged line are None."""
    rows, epoch, samples, before = [], 0, None, None
    for number, line in enumerate(lines, start=1):
        header = _EPOCH.search(line)
        if header:
            epoch, before = int(header.group(1)) - 1, None
        trained = _SAMPLES.search(line)
        if trained:
            samples = int(trained.group(1))
        claims = len(MARKER.findall(line))
        if not claims:
            continue
        step, steps = (int(text) for text in _BAR.search(line).groups())
        time = _TIME.search(line)
        bar = (step, steps, time and time.group())
        ended = before and before[0] == before[1]
        again = ended and before[:2] == bar[:2] and ("val_" in line or before == bar)
        if ended and not again:
            continue
        if claims > 1 or (time is None and "ETA:" not in line):
            rows.append((number, None))
        elif time is not None:
            if again:
                rows.pop()  # Keras prints the row again with the results of the validation
            before = bar
            duration = {"step_time": time.group("step_time"), "time_unit": time.group("time_unit")}
            if time.group("of") == "step" and steps != samples:
                rows.append((number, dict(duration, epoch=epoch, step=step, steps=steps, since=0)))
            elif step == steps:
                rows.append((number, _of_samples(**duration)))
    return iter(rows)


def _of_samples(step_time, time_unit):
    seconds = number_of(step_time) * SECONDS[time_unit]
    return {"throughput": 1 / seconds if seconds else 0, "unit": "samples/s"}
