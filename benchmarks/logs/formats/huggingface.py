"""Hugging Face's Trainer, and scripts of Accelerate, by their progress bar.

 45%|####5     | 10/22 [00:30<00:27,  2.27s/it]

The step and its time are those of the progress bar, which is smoothed by tqdm; what the Trainer
prints beside it, `{'loss': 2.6031, 'grad_norm': 1.88, 'epoch': 2.24}`, belongs to the bar before.
Bars of an evaluation count to another end, or state no training's end. Where the bar is switched
off, `num_input_tokens_seen` and `train_runtime` say how many tokens were seen since the line
before, and in which time; without them only the line at the end of a training states a speed, with
evaluation and compilation in it.
"""

import re

from logs.lines import NUMBER, TAG
from logs.templates import compiled, figure

TITLE = "Hugging Face's Trainer and Accelerate"
_BAR = re.compile(
    r"\s*\d+%\|[^|]*\| (?P<step>\d+)/(?P<steps>\d+) \[[\d:]+<[^,\]]*, +"
    r"(?:(?P<step_time>{0})s/it|(?P<rate>{0})it/s)(?:, [^\]]*)?\]".format(NUMBER)
)
MARKER = re.compile(
    r"^(?i:(?:{})?)\s*\d+%\|[^|]*\| \d+/\d+ \[[\d:]+<[\d:]|"
    r"'train_(?:samples|tokens)_per_second'".format(TAG.pattern)
)
_GLUED = re.compile(r"(?<=[\]}])(?= *(?:\d{1,3}%\||\{'))")
"""Where a bar begins anew, or figures, and the carriage return between was lost."""
_SEEN = [
    compiled(["'{}': {{}},".format(key), "'{}': '{{}}',".format(key)])
    for key in ("num_input_tokens_seen", "train_runtime")
]
_END = compiled(["'train_samples_per_second': {}", "'train_samples_per_second': '{}'"])
_OTHERS = {
    name: compiled(["'{}': {{}}".format(key), "'{}': '{{}}'".format(key)])
    for name, key in (
        ("loss", "loss"),
        ("tokens_per_s", "train_tokens_per_second"),
        ("samples_per_s", "train_samples_per_second"),
    )
}


def read(lines, options):
    """Yields (line number, what it states or None)."""
    rows, total, ends, seen = [], None, [], []
    for number, line in _pieces(lines):
        if line.lstrip().startswith("{'"):
            stated = {name: figure(patterns, line) for name, patterns in _OTHERS.items()}
            stated = {name: value for name, value in stated.items() if value is not None}
            if rows and rows[-1][1] and "others" in rows[-1][1]:
                rows[-1][1]["others"].update(stated)
            speed = figure(_END, line)
            counts = [figure(patterns, line) for patterns in _SEEN]
            if speed is None and None not in counts:
                seen.append((number, counts, stated))
            if speed is not None:
                ends.append((number, {"throughput": speed, "unit": "samples/s", "others": stated}))
        elif MARKER.match(line):
            bar = _BAR.match(line)
            if bar is None:
                rows.append((number, None))
                continue
            step, steps = int(bar.group("step")), int(bar.group("steps"))
            total = total or steps
            if steps != total:
                rows.append((number, {"skipped": "not of training"}))
                continue
            rate = float(bar.group("rate") or 0)
            fields = {"step": step, "steps": steps, "time_unit": "s", "others": {}}
            fields["step_time"] = bar.group("step_time") or (1 / rate if rate else 0)
            last = rows[-1][1] if rows else None
            if last and last.get("step") == step:
                continue  # drawn once more
            rows.append((number, fields))
    return iter(rows or _by_tokens(seen) or ends)


def _pieces(lines):
    """Lines by number, without marks of processes; several of one in which bars follow on."""
    for number, line in enumerate(lines, start=1):
        for piece in _GLUED.split(TAG.sub("", line)):
            yield number, piece


def _by_tokens(seen):
    """Rows of lines that say how many tokens were seen in how many seconds, without numbers."""
    rows, before = [], None
    for number, counts, stated in seen:
        fields = {"others": {n: value for n, value in stated.items() if n == "loss"}}
        if before and all(now > then for now, then in zip(counts, before)):
            tokens, seconds = (now - then for now, then in zip(counts, before))
            fields.update(throughput=tokens / seconds, unit="tokens/s")
        before = counts
        rows.append((number, fields))
    return rows
