"""Progress of Keras: `12/100 [==>...........] - 3s 25ms/step - loss: 2.3` below `Epoch 1/5`.

The duration is the mean since the epoch's begin. A bar that is only estimating (`ETA:`) states no
duration; bars behind a complete epoch are those of an evaluation.
"""

import re

from logs.lines import NUMBER, TAG

TITLE = "Keras' progress bars and lines"
MARKER = re.compile(r"(?<![\w/.])\d+/\d+ +(?:\[[=>. ]*\]|[\u2500-\u257f]+|- )")
_EPOCH = re.compile(r"^\s*Epoch (\d+)/\d+\s*$")
_BAR = re.compile(r"(?<![\w/.])(\d+)/(\d+) +(?:\[[=>. ]*\]|[\u2500-\u257f]+|-)")
_TIME = re.compile(r"(?<![\w.])(?P<step_time>{}) ?(?P<time_unit>s|ms|us)/step\b".format(NUMBER))


def read(lines, options):
    """Yields (line number, what it states or None)."""
    rows, epoch, ended = [], 0, False
    for number, line in enumerate(lines, start=1):
        header = _EPOCH.match(TAG.sub("", line))
        if header:
            epoch, ended = int(header.group(1)) - 1, False
        claims = len(MARKER.findall(line))
        if not claims:
            continue
        step, steps = (int(text) for text in _BAR.search(line).groups())
        time = _TIME.search(line)
        last = rows[-1][1] if rows else None
        again = last and last["epoch"] == epoch and last["step"] == step == last["steps"] == steps
        if ended and not again:
            continue
        if claims > 1 or (time is None and "ETA:" not in line):
            rows.append((number, None))
        elif time is not None:
            if again:
                rows.pop()  # written once more with the results of the validation
            rows.append((number, dict(time.groupdict(), epoch=epoch, step=step, steps=steps)))
            ended = step == steps
    return iter(rows)
