"""`:::MLLOG {"time_ms": 1590000000000, "key": "epoch_stop", "value": null, "metadata": {...}}`.

The key `tracked_stats` states a throughput in samples/s, and its metadata the step or the samples
that have been seen. Where none does, the time between
`epoch_start` and `epoch_stop` is that of `train_samples` samples in batches of
`global_batch_size`.
"""

import json
import re

TITLE = "MLPerf Training"
MARKER = re.compile(r":::MLLOG ")


def read(lines, options):
    """Yields (line number, what it states or None)."""
    events = list(_events(lines))
    tracked = [row for row in _tracked(events)]
    return iter(tracked if any(fields for _, fields in tracked) else _epochs(events))


def _events(lines):
    for number, line in enumerate(lines, start=1):
        claims = len(MARKER.findall(line))
        if not claims:
            continue
        try:
            event = json.loads(line[line.index(":::MLLOG ") + 9 :])
        except ValueError:
            event = None
        whole = claims == 1 and isinstance(event, dict) and {"time_ms", "key"} <= set(event)
        yield number, event if whole else None


def _value(events, key):
    """The value of the first event of a key; None where there is none."""
    for _, event in events:
        if event and event["key"] == key and isinstance(event.get("value"), (int, float)):
            return event["value"]
    return None


def _tracked(events):
    batch = _value(events, "global_batch_size")
    for number, event in events:
        if event is None:
            yield number, None
        elif event["key"] == "tracked_stats" and "throughput" in (event.get("value") or {}):
            fields = {"throughput": event["value"]["throughput"], "unit": "samples/s"}
            where = event.get("metadata") or {}
            if isinstance(where.get("step"), int):
                fields["step"] = where["step"]
            elif where.get("samples_count") is not None and batch:
                fields["step"] = int(where["samples_count"] / batch)
            yield number, fields


def _epochs(events):
    samples, batch = _value(events, "train_samples"), _value(events, "global_batch_size")
    begin = None
    for number, event in events:
        if event is None:
            yield number, None
        elif event["key"] == "epoch_start":
            begin = event["time_ms"]
        elif event["key"] == "epoch_stop":
            epoch = (event.get("metadata") or {}).get("epoch_num")
            if begin is None or epoch is None or not samples or not batch:
                yield number, None
            else:
                seconds = (event["time_ms"] - begin) / 1000.0
                steps = int(samples // batch)
                yield (
                    number,
                    {
                        "step": int(epoch * steps),
                        "step_time": seconds / steps,
                        "time_unit": "s",
                        "samples": batch,
                    },
                )
            begin = None
