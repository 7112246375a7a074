"""`Epoch: [0][10/100]  Time 0.123 (0.130)  Data 0.001 (0.002)  Loss 6.9 (6.95)`.

The first figure is the last step's, in seconds; the one in brackets is the epoch's mean.
"""

import re

from logs.lines import NUMBER, rows

TITLE = "PyTorch's examples, NVIDIA Apex"
MARKER = re.compile(r"Epoch: ?\[")
_STEP = r"Epoch: ?\[(?P<epoch>\d+)\] ?\[\s*(?P<step>\d+)/(?P<steps>\d+)\]"
_TIME = r"\bTime:?\s+(?P<step_time>{0})s?\s*\(\s*(?:{0})s?\s*\)".format(NUMBER)
_SPEED = r"\bSpeed:?\s+(?P<throughput>{})".format(NUMBER)
_PATTERNS = [
    re.compile(_STEP + r"\s+" + _TIME + r"\s+" + _SPEED),
    re.compile(_STEP + r"\s+" + _TIME),
]


def read(lines, options):
    """Yields (line number, what it states or None)."""
    unit = options.get("unit") or "samples/s"
    for number, fields in rows(lines, MARKER, _PATTERNS, time_unit="s", unit=unit):
        yield number, fields and dict(fields, since=int(fields["step"]) - 1)
