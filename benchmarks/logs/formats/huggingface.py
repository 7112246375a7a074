"""Hugging Face's Trainer, and scripts of Accelerate, by their progress bar.

 45%|####5     | 10/22 [00:30<00:27,  2.27s/it]
Steps:  45%|####5     | 10/22 [00:30<00:27,  2.27s/it, lr=0.0001, step_loss=0.12]

The step and its time are those of the progress bar, which tqdm smooths. The Trainer's line after
it, `{'loss': 2.6031, 'grad_norm': 1.88, 'epoch': 2.24}`, belongs to this bar. If there are several
bars, the training's is the one with losses. Otherwise it is the longest, then the one that no
evaluation ends, then the one with most steps. If bars have one name and number of steps, a bar that
continues after another one encloses it. A full bar that begins again is that of the next epoch.
Without bars, `num_input_tokens_seen` and `train_runtime` give the tokens since the line before, and
their time. Without these, only the line at the end of a training states a throughput, which
includes evaluation and compilation.
"""

import itertools
import re

from logs.lines import NUMBER, TAG
from logs.lines import number as number_of
from logs.templates import compiled, figure

TITLE = "Hugging Face's Trainer and Accelerate"
_HEAD = r"(?<!\d)\d{1,3}%\|[^|]*\| *"
_BAR = re.compile(
    _HEAD
    + r"(?P<step>\d+)/(?P<steps>\d+) \[(?P<elapsed>[\d:]+)<[^,\]]*, *"
    r"(?:(?P<step_time>{0})s/(?P<of>[A-Za-z]+)|(?P<rate>{0}|\?) ?(?P<unit>[A-Za-z]+)/s)"
    r"(?:, [^\]]*)?\]".format(NUMBER)
)
MARKER = re.compile(_HEAD + r"\d+/\d+ \[[\d:]+<[\d:]|'train_(?:samples|tokens)_per_second'")
_START = "<?, ?"
_STEPS = re.compile(r"(?:it|iter|step|batch)(?:e?s)?\Z")
_FIGURES = re.compile(r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?")
_NOT_TRAINING = re.compile(
    r"cach|check|decod|download|encod|eval|fetch|filter|generat|infer|load|map|predict|prepar|"
    r"process|sampl|sav|shard|skip|test|token|valid|writ",
    re.IGNORECASE,
)
_GLUED = re.compile(r"(?<=[\]}])(?= *(?:\d{1,3}%\||\{'))")
"""Position at which a bar or values begin again after a lost carriage return."""
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
_KEPT, _FORGOTTEN = 0.7, 0.01
"""Share of its mean that tqdm keeps at each print, and share below which nothing is visible."""


def read(lines, options):
    """Yield (line number, fields); the fields of a damaged line are None."""
    bars, ends, seen, starts, evaluated = [], [], [], {}, set()
    for number, line in _pieces(lines):
        if "{'" in line and not MARKER.search(line[: line.index("{'")]):
            stated = {name: figure(patterns, line) for name, patterns in _OTHERS.items()}
            stated = {name: value for name, value in stated.items() if value is not None}
            if bars and bars[-1][1]:
                bars[-1][2].update(stated)
                if "'eval_" in line:
                    evaluated.add(len(bars) - 1)
            speed = figure(_END, line)
            counts = [figure(patterns, line) for patterns in _SEEN]
            if speed is not None:
                fields = {"throughput": speed, "unit": "samples/s", "others": stated}
                ends.append((number, dict(fields, whole=True)))
            elif None not in counts:
                seen.append((number, counts, stated))
        elif MARKER.search(line):
            bars.append((number, _bar(line), {}))
        elif _START in line and _bar(line):
            starts[len(bars)] = _bar(line)[2]
    rows = _rows_of_bars(bars, _enclosed(bars, starts, evaluated), [number for number, _ in ends])
    return iter(rows or _by_tokens(seen) or ends)


def _pieces(lines):
    """Yield number and text of lines without process tags; a line with several bars is split."""
    for number, line in enumerate(lines, start=1):
        for piece in _GLUED.split(TAG.sub("", line)):
            yield number, piece


def _bar(line):
    """Return a progress bar's fields, elapsed seconds and task; None if the bar is damaged.

    A task is its name and its number of steps; it is None if the task is not training.
    """
    found = _BAR.search(line)
    if not found:
        return None
    before = _FIGURES.sub("", line[: found.start()]).rstrip(" :")
    name = re.split(r" - |[:|\]})]", before)[-1].strip()
    steps, elapsed_s = int(found.group("steps")), 0
    for part in found.group("elapsed").split(":"):
        elapsed_s = 60 * elapsed_s + int(part or 0)
    whose = (name, steps)
    if not _STEPS.match(found.group("of") or found.group("unit")) or _NOT_TRAINING.search(name):
        whose = None
    rate = number_of((found.group("rate") or "0").replace("?", "0"))
    step_time = found.group("step_time") or (1 / rate if rate else 0)
    fields = {"step": int(found.group("step")), "steps": steps, "step_time": step_time}
    return dict(fields, time_unit="s"), elapsed_s, whose


def _enclosed(bars, starts, evaluated):
    """Return the numbers of bars that are inside another bar of their task, or of an evaluation.

    A stack has the last step, elapsed seconds and bar numbers of each run that may continue.
    """
    stacks, enclosed = {}, set()
    for n, (_, bar, _) in enumerate(bars):
        begun = stacks.setdefault(starts.get(n), [])
        if n in starts and (not begun or begun[-1][2]):
            begun.append((0, 0, []))
        if not bar or not bar[2]:
            continue
        stack, step, elapsed_s = stacks.setdefault(bar[2], []), bar[0]["step"], bar[1]
        fits = (i for i, run in enumerate(stack) if run[0] <= step and run[1] <= elapsed_s)
        at = max(fits, default=None)
        if at is not None:
            enclosed.update(k for run in stack[at + 1 :] for k in run[2])
            stack[at:] = [(step, elapsed_s, stack[at][2])]
        elif not stack or elapsed_s < stack[-1][1]:
            stack.append((step, elapsed_s, []))
        stack[-1][2].append(n)
    for _, _, numbers in itertools.chain.from_iterable(stacks.values()):
        if evaluated.intersection(numbers[-1:]) and not any("loss" in bars[n][2] for n in numbers):
            enclosed.update(numbers)
    return enclosed


def _rows_of_bars(bars, enclosed, ends):
    """Return rows of the training's bars, other bars as skipped; `ends` separate training runs."""
    whose = [bar and bar[2] and bar[2] + (n in enclosed,) for n, (_, bar, _) in enumerate(bars)]
    tasks = {}
    for (_, bar, others), task in zip(bars, whose):
        if task:
            losses, longest, _, _, count = tasks.get(task, (0, 0, 0, 0, 0))
            longest = max(longest, bar[1])
            tasks[task] = losses + ("loss" in others), longest, not task[2], task[1], count + 1
    training = max(tasks, key=tasks.get) if tasks else ()
    rows, stated, epoch, last = [], [], 0, None
    for (number, bar, others), task in zip(bars, whose):
        if bar is None or task != training:
            rows.append((number, bar and {"skipped": "not of training"}))
            continue
        if last and last["step"] == bar[0]["step"]:
            last["others"].update(others)
            continue  # the bar was drawn again
        if last and last["step"] == last["steps"]:
            epoch = 0 if any(rows[-1][0] <= end < number for end in ends) else epoch + 1
        last = dict(bar[0], others=others, epoch=epoch, since=bar[0]["step"] - 1)
        stated.append(last)
        rows.append((number, last))
    _mark_resumed(stated)
    return rows


def _mark_resumed(stated):
    """Remove step times of a resumed bar until its mean no longer includes the steps before."""
    first, second = [fields["step"] for fields in stated[:2]] if len(stated) > 1 else (0, 0)
    jump = first / (second - first) - 1 if second > first else 0
    while jump > _FORGOTTEN and stated:
        del stated.pop(0)["step_time"]
        jump *= _KEPT


def _by_tokens(seen):
    """Return rows of lines that state total tokens and seconds, and no step number."""
    rows, before = [], None
    for number, counts, stated in seen:
        fields = {"others": {n: value for n, value in stated.items() if n == "loss"}}
        if before and all(now > then for now, then in zip(counts, before)):
            tokens, seconds = (now - then for now, then in zip(counts, before))
            fields.update(throughput=tokens / seconds, unit="tokens/s")
        before = counts
        rows.append((number, fields))
    return rows
