"""`DLLL {"type": "LOG", "step": [0, 10], "data": {"train.total_ips": 2345.6}, ...}`.

Lines of METADATA state the units. The logger's output on the terminal is read as well:
`DLL 2020-11-16 05:33:09.030756 - Epoch: 0 Iteration: 20  train.total_ips : 390.5 images/s`, and
`DLL 2021-03-23 11:48:38.824370 - (0, 120) total_ips : 2879.1`. If no step states a throughput, as
in PyTorch's BERT, that of the whole training is read: `"step": []`, on the terminal `()`.
"""

import json
import re

from logs.lines import NUMBER, match
from logs.templates import compiled, figure

TITLE = "DLLogger of NVIDIA's DeepLearningExamples"
MARKER = re.compile(r"\bDLLL? ")
_UNITS = {
    "train.total_ips": "images/s",
    "train_ips": "images/s",
    "train.compute_ips": "images/s",
    "train.ips": "images/s",
    "total_ips": "images/s",
    "samples/s": "samples/s",
    "throughput_train": "sequences/s",
    "training_sequences_per_second": "sequences/s",
    "seqs_per_sec": "sequences/s",
    "train_throughput": None,
    "train_items_per_sec": "items/s",
    "throughput": None,
}
"""Metric -> its unit if no METADATA states it; the first metric of a line is read."""
_LOSSES = ("train.loss", "train_loss", "training_loss", "step_loss", "loss")
_LOSSES_IN_TEXT = compiled([loss + " : {}" for loss in _LOSSES])
_TEXTS = [
    re.compile(r"\bDLLL? \S+ \S+ - " + step + r" +(?P<data>.*)")
    for step in (
        r"(?:Epoch: (?P<epoch>\d+) )?Iteration: (?P<step>\d+)",
        r"[(\[](?P<epoch>\d+), (?P<step>\d+)[)\]]",
        r"(?P<step>\d+)",
        r"(?:\(\)|\[\]|(?!PARAMETER|\(|\[|Epoch|\d))",
    )
]


def read(lines, options):
    """Yield (line number, fields or None); the option `metric` names the throughput."""
    rows = list(_rows(lines, options))
    of_steps = [row for row in rows if row[1] is None or "step" in row[1]]
    return iter(of_steps if any(fields for _, fields in of_steps) else rows)


def _rows(lines, options):
    metrics = [options["metric"]] if options.get("metric") else list(_UNITS)
    units = dict(_UNITS)
    for number, line in enumerate(lines, start=1):
        claims = len(MARKER.findall(line))
        if claims > 1:
            yield number, None
        elif "DLLL {" in line:
            document = _document(line)
            if document is None:
                yield number, None
                continue
            if document.get("type") == "METADATA":
                units[document.get("metric")] = (document.get("metadata") or {}).get("unit")
            elif document.get("type") == "LOG":
                stated = _stated(document.get("data"), metrics, units)
                step = _step(document.get("step"))
                if stated and step is not None:
                    yield number, dict(step, **stated)
        elif claims:
            found = dict(match(_TEXTS, line) or {})
            stated = found and _stated_in_text(found.pop("data"), metrics, units)
            if stated:
                yield number, dict(found, whole="step" not in found, **stated)


def _document(line):
    try:
        document, _ = json.JSONDecoder().raw_decode(line[line.index("DLLL ") + 5 :].lstrip())
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _step(step):
    """Return the number (and epoch) of a step, or {"whole": True} of a run; None for an epoch."""
    if step == []:
        return {"whole": True}
    if isinstance(step, int):
        return {"step": step}
    if isinstance(step, list) and len(step) == 2 and all(isinstance(x, int) for x in step):
        return {"epoch": step[0], "step": step[1]}
    return None


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _stated(data, metrics, units):
    for metric in metrics:
        value = (data or {}).get(metric)
        if _is_number(value):
            losses = [data[loss] for loss in _LOSSES if _is_number(data.get(loss))]
            others = {"loss": losses[0]} if losses else {}
            return {"throughput": value, "unit": units.get(metric), "others": others}
    return None


def _stated_in_text(data, metrics, units):
    for metric in metrics:
        found = re.search(
            r"(?:^|\s){} : ({})(?: ([A-Za-z]+/s))?(?:\s|$)".format(re.escape(metric), NUMBER), data
        )
        if found:
            losses = figure(_LOSSES_IN_TEXT, data)
            return {
                "throughput": found.group(1),
                "unit": found.group(2) or units.get(metric),
                "others": {} if losses is None else {"loss": losses},
            }
    return None
