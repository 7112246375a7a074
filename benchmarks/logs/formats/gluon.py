"""`Epoch[0] Batch [49]  Speed: 123.4 samples/sec  accuracy=0.1`, also `Batch [20-40]`."""

import re

from logs.lines import NUMBER, rows

TITLE = "MXNet's Speedometer and GluonCV"
MARKER = re.compile(r"\bBatch ?\[")
_PATTERNS = [
    re.compile(
        r"(?:Epoch|Iter) ?\[(?P<epoch>\d+)\],? *Batch ?\[(?:\d+-)?(?P<step>\d+)\],?\s+"
        r"Speed: *(?P<throughput>{})(?: (?P<unit>[A-Za-z]+/s(?:ec)?)\b)?".format(NUMBER)
    )
]


def read(lines, options):
    """Yields (line number, what it states or None)."""
    return rows(lines, MARKER, _PATTERNS)
