"""`:::MLLOG {"time_ms": 1590000000000, "key": "epoch_stop", "value": null, "metadata": {...}}`.

The key `tracked_stats` states a throughput, in samples/s unless the option `unit` says otherwise
(GPT-3's is in tokens/s), and its metadata the step or the samples that have been seen. Where none
does, the time between `epoch_start` and `epoch_stop` is that of `train_samples` samples in batches
of `global_batch_size`; and where there are no epochs, that between `block_start` and `block_stop`
is of the samples by which `samples_count` has grown, or of `epoch_count` epochs.
"""

import json
import re

TITLE = "MLPerf Training"
MARKER = re.compile(r":::MLLOG ")


def read(lines, options):
    """Yields (line number, what it states or None)."""
    events = list(_events(lines))
    for rows in (_tracked(events, options.get("unit") or "samples/s"), _epochs(events)):
        found = list(rows)
        if any(fields for _, fields in found):
            return iter(found)
    return _blocks(events)


def _events(lines):
    for number, line in enumerate(lines, start=1):
        claims = len(MARKER.findall(line))
        if not claims:
            continue
        try:
            event, _ = json.JSONDecoder().raw_decode(line[line.index(":::MLLOG ") + 9 :].lstrip())
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


def _tracked(events, unit):
    """Rows of `tracked_stats`; several events of a step, each with a figure of its own, are one."""
    batch, rows = _value(events, "global_batch_size"), []
    for number, event in events:
        if event is None:
            rows.append((number, None))
        elif event["key"] == "tracked_stats" and isinstance(event.get("value"), dict):
            fields = _figures(event["value"], unit)
            where = event.get("metadata") or {}
            if isinstance(where.get("step"), int):
                fields["step"] = where["step"]
            elif where.get("samples_count") is not None and batch:
                fields["step"] = int(where["samples_count"] / batch)
            last = rows[-1][1] if rows else None
            if last and "step" in fields and _is_more_of(fields, last):
                last.update(fields, others=dict(last["others"], **fields["others"]))
            else:
                rows.append((number, fields))
    return [row for row in rows if row[1] is None or {"throughput", "step_time"} & set(row[1])]


def _figures(value, unit):
    fields = {"others": {}}
    if "throughput" in value:
        fields.update(throughput=value["throughput"], unit=unit)
    if "train_step_time" in value:
        fields.update(step_time=value["train_step_time"], time_unit="s")
    for loss in ("train_loss", "loss"):
        if isinstance(value.get(loss), (int, float)):
            fields["others"]["loss"] = value[loss]
    return fields


def _is_more_of(fields, last):
    """Whether figures are of the same step, and none of them is there already."""
    own = {"throughput", "step_time"} & set(fields)
    known = own & set(last) or set(fields["others"]) & set(last["others"])
    return last.get("step") == fields["step"] and not known and (own or fields["others"])


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
                steps = int(samples // batch)
                yield number, _stated(event["time_ms"] - begin, steps, epoch * steps, batch)
            begin = None


def _blocks(events):
    samples, batch = _value(events, "train_samples"), _value(events, "global_batch_size")
    begin = None
    for number, event in events:
        if event is None:
            yield number, None
        elif event["key"] == "block_start":
            begin = event
        elif event["key"] == "block_stop":
            counts = [_samples_seen(each, samples) for each in (begin, event)]
            begun, begin = begin, None
            if not batch or None in counts or counts[1] <= counts[0]:
                yield number, None
                continue
            steps = (counts[1] - counts[0]) / batch
            lasted = event["time_ms"] - begun["time_ms"]
            yield number, _stated(lasted, steps, counts[1] / batch, batch)


def _samples_seen(event, samples):
    """Samples up to the begin or the end of a block; None where it does not say."""
    where = (event or {}).get("metadata") or {}
    if "samples_count" in where:
        return where["samples_count"]
    first, epochs = where.get("first_epoch_num"), where.get("epoch_count")
    # Some count samples in these, and blocks of one length count epochs.
    if not samples or first is None or epochs is None or epochs >= samples:
        return None
    return (first - 1 + (epochs if event["key"] == "block_stop" else 0)) * samples


def _stated(lasted_ms, steps, step, batch):
    step_s = lasted_ms / 1000.0 / steps
    return {
        "step": int(step),
        "step_time": step_s,
        "time_unit": "s",
        "throughput": batch / step_s if step_s > 0 else 0,
        "unit": "samples/s",
    }
