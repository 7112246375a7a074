"""`Epoch[0] Batch [49]  Speed: 123.4 samples/sec  accuracy=0.1`, also `Batch [20-40]`.

GluonCV's detectors: `[Epoch 0][Batch 99], LR: 1.00E-03, Speed: 30.990 samples/sec, ObjLoss=5.1`.
Older versions write a line for each metric of a step, all with the same speed.
"""

import re

from logs.lines import NUMBER, rows

TITLE = "MXNet's Speedometer and GluonCV"
MARKER = re.compile(r"\bBatch ?\[|\[Batch \d")
_PATTERNS = [
    re.compile(
        r"(?:Epoch|Iter) ?\[?(?P<epoch>\d+)\]?,? *\[?Batch ?\[?(?:\d+-)?(?P<step>\d+)\]"
        r"(?:/\[(?P<steps>\d+)\])?,?\s+(?:LR: \S+, +)?"
        r"Speed: *(?P<throughput>{})(?: (?P<unit>[A-Za-z]+/s(?:ec)?)\b)?"
        r"(?:\s+(?P<metric>[\w-]+)=\S+\s*$)?".format(NUMBER)
    )
]


def read(lines, options):
    """Yield (line number, fields); the fields of a damaged line are None."""
    before, metrics = None, set()
    for number, fields in rows(lines, MARKER, _PATTERNS):
        metric = fields.pop("metric", None) if fields else None
        if fields is None or fields != before:
            metrics = set()
        elif metric and metrics and metric not in metrics:
            metrics.add(metric)
            continue
        before = fields
        metrics |= {metric} - {None}
        yield number, fields
