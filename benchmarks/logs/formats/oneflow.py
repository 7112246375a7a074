"""DLPerf's lines of OneFlow: networks of images, BERT, InsightFace.

train: epoch 0, iter 20, loss: 7.087, top_1: 0.0, samples/s: 3988.891 1597933942.98
step: 19, total_loss: 9.725, mlm_loss: 8.960, throughput: 54.982 1598056519.88
train: iter 10, loss 45.2, throughput: 1312.5
"""

import re

from logs.lines import NUMBER, rows

TITLE = "OneFlow's benchmarks, as in DLPerf"
MARKER = re.compile(r"\btrain: (?:epoch|iter) |^\s*(?:\[[^\]]*\]\S* ?|\d+: ?)?step: \d")
_STEP = r"(?:train: (?:epoch (?P<epoch>\d+), )?iter |step: )(?P<step>\d+),.*"
_PATTERNS = [
    re.compile(_STEP + r"(?P<unit>samples/s): (?P<throughput>{})(?:[ ,]|$)".format(NUMBER)),
    re.compile(_STEP + r"throughput: (?P<throughput>{})(?:[ ,]|$)".format(NUMBER)),
]


def read(lines, options):
    """Yields (line number, what it states or None); `throughput:` is in samples/s."""
    for number, fields in rows(lines, MARKER, _PATTERNS):
        yield number, fields and dict({"unit": "samples/s"}, **fields)
