"""Lines with `ips: 93.2 images/sec` of PaddleClas, PaddleNLP, PaddleSeg, PaddleDetection.

[Train][Epoch 1/90][Iter: 10/1252]lr: 0.1, loss: 7.0, batch_cost: 0.949s, ips: 269.8 images/sec
global step 10, epoch: 0, batch: 9, loss: 5.9, avg_batch_cost: 0.1 sec, ips: 240.1 sequences/sec

PaddleOCR and older PaddleDetection count `iter:` over all epochs.
"""

import re
import statistics

from logs.lines import NUMBER, match

TITLE = "PaddleClas, PaddleNLP, PaddleSeg, PaddleDetection, PaddleOCR, PaddleRec, PaddleVideo"
MARKER = re.compile(r"\b(?:avg_)?ips(?:: | (?=\d))")
_NOT_A_STEP = re.compile(
    r"\[eval\]|\[valid|\beval[ :]|\bvalid (?:step|batch)|\[Avg\]|Epoch ID|\bEND (?:epoch|valid)",
    re.IGNORECASE,
)
_STEPS = [
    re.compile(pattern)
    for pattern in (
        r"\bglobal[ _]step:? (?P<step>\d+)",
        r"\[Epoch (?P<epoch>\d+)/\d+\]\[Iter: (?P<step>\d+)/(?P<steps>\d+)\]",
        r"Epoch \[(?P<epoch>\d+)/\d+\], Iter \[(?P<step>\d+)/(?P<steps>\d+)\]",
        r"Epoch: \[(?P<epoch>\d+)\] \[\s*(?P<step>\d+)/(?P<steps>\d+)\]",
        r"\[[Ee]poch (?P<epoch>\d+), iter:? (?P<step>\d+)\]",
        r"epoch: \d+, iter: (?P<step>\d+)/\d+",
        r"epoch:\s*\[?(?P<epoch>\d+)(?:/\d+)?\]?\s*,?\s*train step:\s*(?P<step>\d+)",
        r"epoch: (?P<epoch>\d+), batch(?:_id)?: (?P<step>\d+)",
        r"\[Pass (?P<epoch>\d+), train batch (?P<step>\d+)\]",
        r"(?:INFO: |epoch: \[\d+/\d+\], )iter: (?P<step>\d+),",
    )
]
_SPEEDS = [
    re.compile(
        r"\b(?:avg_)?ips:? (?P<throughput>{})(?:\s+(?P<unit>[A-Za-z]+/s(?:ec)?)\b)?".format(NUMBER)
    )
]
_TIMES = [
    re.compile(r"\b(?:avg_)?batch_cost:? (?P<step_time>{})\s*(?P<time_unit>sec|s)\b".format(NUMBER))
]
_SAMPLES = [re.compile(r"\bavg_samples: (?P<samples>{})".format(NUMBER))]


def read(lines, options):
    """Yield (line number, fields); the fields of a damaged line are None."""
    found = [(number, line) for number, line in enumerate(lines, start=1) if MARKER.search(line)]
    training = [line for _, line in found if "loss" in line]
    # PaddleRec divides its first step by the steps between two lines.
    samples = [float((match(_SAMPLES, line) or {}).get("samples", 0)) for line in training]
    usual = statistics.median(samples or [0])
    for number, line in found:
        claims = len(MARKER.findall(line))
        if _NOT_A_STEP.search(line) or (training and "loss" not in line):
            continue
        step, speed = match(_STEPS, line), match(_SPEEDS, line)
        if claims > 1 or step is None or speed is None:
            yield number, None
        else:
            others = dict(match(_TIMES, line) or {}, **(match(_SAMPLES, line) or {}))
            if float(others.get("samples", usual)) < usual / 2:
                yield number, {"skipped": "of one step, divided by the steps between two lines"}
                continue
            yield number, dict(others, **dict(step, **speed))
