"""`:::MLLOG {"time_ms": 1590000000000, "key": "epoch_stop", "value": null, "metadata": {...}}`.

The key `tracked_stats` states a throughput, in samples/s unless the option `unit` says otherwise
(GPT-3's is in tokens/s). Its metadata state the step, the samples seen so far, or the samples of a
block if the throughput is the mean of a block. Without this key, the time between `block_start` and
`block_stop` is that of `samples_count` or `epoch_count`. The time between `epoch_start` and
`epoch_stop` is that of `train_samples`, in batches of `global_batch_size`. GPT-3 counts all in
tokens. Benchmarks use one name for different counts: the clock and nearby numbers show which it is.
"""

import bisect
import collections
import itertools
import json
import re
import statistics

TITLE = "MLPerf Training"
MARKER = re.compile(r":::MLLOG ")
_LOSSES = ("train_loss", "loss", "reduced_train_loss")
_RUN = ("run_start", "init_start")


def read(lines, options):
    """Yield (line number, fields); the fields of a damaged line are None."""
    events, damaged = [], []
    for number, event in _events(lines):
        (events if event else damaged).append((number, event))
    known = {}
    for _, event in events:
        if isinstance(event.get("value"), (int, float, str)):
            known.setdefault(event["key"], event["value"])
    batch, length = (known.get(key) for key in ("global_batch_size", "max_sequence_length"))
    gpt3 = str(known.get("submission_benchmark")).startswith("gpt3")
    periods = _periods(events, batch, known.get("train_samples"), (length or 0) if gpt3 else None)
    unit = options.get("unit") or "samples/s"
    stats = _tracked(events, unit)
    if stats:
        made = _ratio_to_clock(stats, batch)
        in_tokens = unit.startswith("token") or (length and _in_tokens(made, batch, length))
        # One event for each step without a batch, and less than one a second: Minigo's are epochs.
        counts_steps = not batch and 0 < made < 2 and stats[0][1].get("throughput", 1) < 1
        if "unit" not in options and (in_tokens or counts_steps):
            for _, fields, _, _ in stats:
                fields.update({"unit": "tokens/s" if in_tokens else ""} if "unit" in fields else {})
        work = batch and batch * (length or 0 if in_tokens else 1)
        began_ms = max((e["time_ms"] for _, e in events if e["key"] == "run_start"), default=None)
        _number(stats, _periods_of(stats, periods), batch, work, began_ms)
        rows = [(number, fields) for number, fields, _, _ in stats]
    else:
        rows = [(period["line"], _stated(period, batch)) for period in periods]
    return iter(sorted(rows + damaged, key=lambda row: row[0]))


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


def _tracked(events, unit):
    """Return the `tracked_stats` lines; events of one step with one metric each are merged."""
    rows = []
    for number, event in events:
        if event["key"] != "tracked_stats" or not isinstance(event.get("value"), dict):
            continue
        fields, where = _figures(event["value"], unit), event.get("metadata") or {}
        place = tuple(_count(where, name) for name in ("step", "samples_count"))
        steps = event["value"].get("iterations")
        if isinstance(steps, int) and place[0]:  # UNet3D's `step` is an epoch with this many steps
            place, fields["counted"] = (place[0] * steps, place[1]), True
        last = rows[-1] if rows else None
        if last and last[3] == place != (None, None) and _is_more_of(fields, last[1]):
            last[1].update(fields, others=dict(last[1]["others"], **fields["others"]))
        else:
            rows.append((number, fields, event["time_ms"], place))
    return [row for row in rows if {"throughput", "step_time"} & set(row[1])]


def _count(where, name):
    value = where.get(name)
    return int(value) if isinstance(value, (int, float)) else None


def _seen(where):
    """Return the number of samples seen, by the key of the benchmark or of JAX's trainer."""
    seen = _count(where, "samples_count")
    return _count(where, "train_samples_since_beginning") if seen is None else seen


def _figures(value, unit):
    fields = {"others": {}}
    if "throughput" in value:
        fields.update(throughput=value["throughput"], unit=unit)
    if "train_step_time" in value:
        fields.update(step_time=value["train_step_time"], time_unit="s")
    losses = [value[loss] for loss in _LOSSES if isinstance(value.get(loss), (int, float))]
    fields["others"].update({"loss": losses[0]} if losses else {})
    return fields


def _is_more_of(fields, last):
    """Return whether `fields` has metrics and `last` has none of them."""
    own = {"throughput", "step_time"} & set(fields)
    known = own & set(last) or set(fields["others"]) & set(last["others"])
    return not known and (own or fields["others"])


def _periods_of(stats, periods):
    """Return line number -> period, for lines that are the only ones of their period."""
    begins = [period["begin"] for period in periods]
    places = [bisect.bisect(begins, number) - 1 for number, _, _, _ in stats]
    counts = collections.Counter(places)
    return {
        stat[0]: dict(periods[place], is_last=place == len(periods) - 1)
        for stat, place in zip(stats, places)
        if place >= 0 and counts[place] == 1 and periods[place]["seconds"]
    }


def _ratio_to_clock(stats, batch):
    """Return the median ratio of throughput times seconds to the counted examples or steps."""
    made = []
    for before, (_, fields, now_ms, place) in zip(stats, stats[1:]):
        examples = [now - then for then, now in zip(before[3], place) if None not in (then, now)]
        if examples and examples[-1] > 0 and "throughput" in fields:
            examples[-1] *= (batch or 0) if place[1] is None else 1
            made.append(fields["throughput"] * (now_ms - before[2]) / 1000.0 / (examples[-1] or 1))
    return statistics.median(made or [0])


def _in_tokens(ratio, batch, length):
    """Return whether throughputs are in tokens: too high by the number of tokens per example."""
    of_samples = 0.5 < ratio * (batch or 1) / length < 3  # in these lines, a step is a sample
    return 0.5 < ratio / length < 3 or (of_samples and not 0.5 < ratio < 3)


def _number(stats, periods, batch, work, began_ms):
    """Set each line's step, or the number of steps that it covers, and its work by the clock.

    Args:
        stats: the lines; if others have a step, a line without a step is a mean of a block.
        periods: line number -> period.
        batch: examples in a step; None if it is not stated.
        work: the work of a step in the unit of the throughputs.
        began_ms: when the run started; None if it is not stated.
    """
    if any(place[0] is not None for _, _, _, place in stats):
        for _, fields, _, place in stats:
            if place[0] is None:
                fields["skipped"] = "mean of a block"
    stats = [each for each in stats if "skipped" not in each[1]]
    spans = _spans(stats, periods, work, began_ms)
    usual = statistics.median(spans or [0])
    steps, samples = zip(*(place for _, _, _, place in stats))
    if batch and None not in samples:
        if any(now <= then for then, now in zip(samples, samples[1:])):
            of_blocks = [periods.get(each[0], {}).get("samples") for each in stats]
            shares = [span * batch / count for span, count in zip(spans, samples) if count]
            # Each counts the samples of its own block, unless several processes or runs wrote them.
            if list(samples) == of_blocks or 0.5 < statistics.median(shares or [0]) < 3:
                samples = list(itertools.accumulate(samples))
        steps = [count // batch for count in samples]
    elif None not in steps and usual and "counted" not in stats[0][1]:
        gaps = [now - then for then, now in zip(steps, steps[1:])]
        gap = statistics.median(gaps or [1]) or 1
        if batch and usual < gap and 0.5 < usual * batch / gap < 3:
            steps = [count // batch for count in steps]  # the numbers count samples
        elif usual / gap > (3 if set(gaps) <= {1} else 20):
            steps = [None] * len(stats)  # the numbers are epochs
        elif work and 0 < usual / gap < 0.9:
            for _, fields, _, _ in stats:
                speed = fields.get("throughput")
                fields["clocked"] = (usual * work / speed, gap * work) if speed else None
    for (number, fields, _, _), step, span in zip(stats, steps, spans or [1] * len(stats)):
        if step is not None:
            fields["step"] = int(step)
        else:
            fields.update(span=max(1, round(span)), whole=len(stats) == 1)
        period = periods.get(number)
        # The last epoch may have ended early; in short epochs the last, smaller batch matters.
        size = (
            period and work and period["is_epoch"] and not period["is_last"] and period["samples"]
        )
        if size and not batch <= size <= 10 * batch:
            fields["clocked"] = (period["seconds"], size * work / batch)


def _spans(stats, periods, work, began_ms):
    """Return the steps that each line covers, by the log's clock; empty if any is unknown."""
    spans, before_ms = [], began_ms
    for number, fields, now_ms, _ in stats:
        speed = fields.get("throughput")
        step_s = fields.get("step_time") or (work / speed if speed and work else 0)
        seconds = (now_ms - before_ms) / 1000.0 if before_ms else 0
        seconds = periods[number]["seconds"] if number in periods else seconds
        before_ms = now_ms
        if not step_s or (seconds <= 0 and spans):
            return []
        spans.append(seconds / step_s)
    return [spans[0] or statistics.median(spans[1:] or [0]), *spans[1:]]


def _periods(events, batch, per_epoch, tokens):
    """Return the periods from start to stop events: epochs, or blocks if there are more blocks.

    Args:
        events: all events.
        batch: examples in a step.
        per_epoch: examples in an epoch.
        tokens: tokens of an example, if all counts are in tokens; otherwise None.
    """
    found, opened, run, evaluated = {"block": [], "epoch": [], "eval": []}, {}, 0, []
    speeds, last = {}, (0, None)
    for number, event in events:
        kind, _, what = event["key"].partition("_")
        run += event["key"] in _RUN
        count = _count(event.get("metadata") or {}, "epoch_num") if kind == "eval" else None
        if count is not None:
            evaluated.append((event["time_ms"], count))
        if event["key"] == "throughput":
            speeds[opened.get("epoch", last)[0]] = event["value"]
        if kind in found and what == "start":
            opened[kind] = (number, event)
        elif kind in found and what == "stop":
            begin, start = opened.pop(kind, (0, None))
            last = (begin, start) if kind == "epoch" else last
            if kind != "eval" or (start and _is_same(start, event)):
                found[kind].append((run, begin, start, number, event))
    is_epoch = len(found["epoch"]) >= len(found["block"])
    spans = found["epoch" if is_epoch else "block"]
    if is_epoch:
        sizes = [per_epoch / (tokens or 1) if per_epoch and tokens != 0 else None] * len(spans)
        ends = [None] * len(spans)
    else:
        sizes, ends = _blocks(spans, sorted(evaluated), batch, per_epoch, tokens)
    periods, total, shares = [], 0, _shares(found)
    for n, (own_run, begin, _, number, _) in enumerate(spans):
        total = (0 if n and own_run != spans[n - 1][0] else total) + (sizes[n] or 0)
        total = total if ends[n] is None else ends[n]
        seconds = _training_s(spans[n], found["eval"])
        period = {"line": number, "begin": begin, "seconds": seconds, "is_epoch": is_epoch}
        period.update(share=shares.get(number, 1), speed=speeds.get(begin))
        periods.append(dict(period, samples=sizes[n], end=total, tokens=tokens))
    return periods


def _is_same(start, stop):
    """Return whether two events are of one evaluation: the next may begin before the end of it."""
    first, last = ((each.get("metadata") or {}).get("epoch_num") for each in (start, stop))
    return first == last or None in (first, last)


def _training_s(span, evaluations):
    """Return the seconds of a period without the evaluations inside; None if its start is lost.

    An evaluation that begins with the period belongs to the period before and runs in parallel.
    """
    _, begin, start, end, stop = span
    if start is None:
        return None
    lasted = stop["time_ms"] - start["time_ms"]
    inside = [
        (first["time_ms"] - start["time_ms"], last["time_ms"] - first["time_ms"])
        for _, line, first, end_line, last in evaluations
        if begin < line and end_line < end
    ]
    return (lasted - sum(took for after, took in inside if after > 0.1 * (lasted - took))) / 1000.0


def _shares(found):
    """Return last line of an epoch -> its block's seconds divided by those of all its epochs."""
    shares = {}
    for block in found["block"]:
        epochs = [each for each in found["epoch"] if block[1] < each[1] and each[3] < block[3]]
        lasted = _training_s(block, found["eval"])
        own = sum(_training_s(epoch, found["eval"]) or 0 for epoch in epochs)
        shares.update({epoch[3]: lasted / own for epoch in epochs if lasted and own > 0})
    return shares


def _blocks(spans, evaluated, batch, per_epoch, tokens):
    """Return the samples of each block, and the samples up to its end; None if not stated.

    `evaluated` has the time and the count of each evaluation.
    """
    where = [[(each or {}).get("metadata") or {} for each in (s[2], s[4])] for s in spans]
    starts, stops = ([_seen(each[n]) for each in where] for n in (0, 1))
    if None not in stops:
        on = [False, *(a[0] == b[0] for a, b in zip(spans, spans[1:]))]  # same run as before
        goes_back = any(on[n] and stops[n] <= stops[n - 1] for n in range(1, len(stops)))
        if starts[0] == stops[0] or (starts[0] is None and goes_back):
            return stops, [None] * len(stops)  # each its own
        # Starts may count steps: a block is what lies between two stops.
        in_steps = any(begin and begin * batch == end for end, begin in zip(stops, starts[1:]))
        begins = [begin and begin * (batch if in_steps else 1) for begin in starts]
        for n in range(1, len(stops)):
            begins[n] = stops[n - 1] if on[n] and stops[n - 1] < stops[n] else begins[n]
        return [None if b is None else stop - b for b, stop in zip(begins, stops)], stops
    counts = [_count(dict(*each[:1], **each[1]), "epoch_count") for each in where]
    firsts = [each[0].get("first_epoch_num") for each in where]
    if all(isinstance(first, (int, float)) for first in firsts):
        between = statistics.median([b - a for a, b in zip(firsts, firsts[1:])] or [0])
        # Some write 1 for each block, and the epochs that it begins at.
        counts = [between if 0 < between < (n or 0) < (batch or 0) else n for n in counts]
    if tokens is not None:
        return [count and tokens and count / tokens for count in counts], [None] * len(counts)
    begins_ms = [(start or stop)["time_ms"] for _, _, start, _, stop in spans]
    ends = [next((n for at, n in evaluated if at > begin), None) for begin in begins_ms]
    sizes = [then is not None and now and now - then for then, now in zip([0, *ends], ends)]
    usual = statistics.median([size or 0 for size in sizes] or [0])
    if batch and usual >= batch:  # the numbers count samples: BERT has no epochs
        return [size if size and 0 < size < 2 * usual else None for size in sizes], ends
    # Some logs count samples here; a count below the batch size is a number of epochs.
    of_epochs = [
        count * per_epoch if count and per_epoch and count < (batch or 0) else None
        for count in counts
    ]
    return of_epochs, [None] * len(counts)


def _stated(period, batch):
    """Return the fields of a period without `tracked_stats`; None if its samples are unknown."""
    if period["seconds"] is None:
        return {"skipped": "without a begin"}
    steps = (period["samples"] or 0) / (batch or 1)
    steps = int(steps) if period["is_epoch"] else steps
    if not batch or steps < 1 or period["seconds"] <= 0:
        return None
    speed, end = steps * batch / period["seconds"], period["end"] / batch
    tokens = period["tokens"] or 1
    stated = period["speed"] if isinstance(period["speed"], (int, float)) else speed
    return {
        "samples": None if period["tokens"] else stated * period["seconds"] / steps,
        "clocked": (period["seconds"] * max(1, period["share"]), steps * batch * tokens),
        "step": int(end),
        "since": int(end - steps),
        "step_time": period["seconds"] / steps,
        "time_unit": "s",
        "throughput": speed * tokens,
        "unit": "tokens/s" if period["tokens"] else "samples/s",
    }
