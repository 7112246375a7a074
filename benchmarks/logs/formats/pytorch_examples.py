"""`Epoch: [0][10/100]  Time 0.123 (0.130)  Data 0.001 (0.002)  Loss 6.9 (6.95)`.

The first value is the last step's, in seconds; the one in brackets is the epoch's mean. GNMT begins
its lines with `TRAIN`. Torchvision's references, DETR and DeiT state the mean of the last 20
steps: `Epoch: [0]  [ 10/100]  eta: 0:00:11  loss: 6.9 (6.95)  time: 0.123  data: 0.001`.
"""

import re

from logs.lines import NUMBER, rows

TITLE = "PyTorch's examples, torchvision's references, NVIDIA Apex"
MARKER = re.compile(r"(?:Epoch: ?|\bTRAIN )\[(?!\d+\] Total time)")
WINDOW = 20
"""Steps in the mean of torchvision's MetricLogger; fewer at the beginning of an epoch."""
_STEP = r"\[(?P<epoch>\d+)(?:/\d+)?\] *\[\s*(?P<step>\d+)/(?P<steps>\d+)\]\s+"
_TIME = r"\bTime:?\s+(?P<step_time>{0})s?\s*\(\s*(?:{0})s?\s*\)".format(NUMBER)
_SPEED = r"\bSpeed:?\s+(?P<throughput>{})".format(NUMBER)
_PATTERNS = [
    re.compile(_STEP + _TIME + r"\s+" + _SPEED),
    re.compile(_STEP + _TIME),
    re.compile(_STEP + r"(?P<window>eta): .*\btime: (?P<step_time>{})  data: ".format(NUMBER)),
]


def read(lines, options):
    """Yield (line number, fields); the fields of a damaged line are None."""
    unit = options.get("unit") or "samples/s"
    for number, fields in rows(lines, MARKER, _PATTERNS, time_unit="s", unit=unit):
        if fields:
            of = WINDOW if fields.pop("window", None) else 1
            fields["since"] = max(-1, int(fields["step"]) - of)
        yield number, fields
