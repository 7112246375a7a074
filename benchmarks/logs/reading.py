"""What the log of a training script states: steps and speeds, by strict rules.

A format is a file `logs/formats/<name>.json` of templates (see `templates`) or a module
`logs/formats/<name>.py`:

    TITLE                    what writes it
    MARKER                   pattern that every line holds which claims to state a step
    read(lines, options)     yields (line number, what it states or None where it is damaged)

A line states some of

    epoch, step, steps       counter; `steps` is their number in an epoch
    step_time, time_unit     duration of one step, and its unit
    throughput, unit         units of work per second
    samples                  units of work in a step
    others                   figures by name, as printed: loss, tflops_per_device, mfu_percent
    skipped                  why the line is none of training

A wrong number is worse than none. Lines of several processes mixed, steps that go back, two runs in
one file and logs without a step are errors. Damaged lines, figures that are no positive number,
that have no unit, contradict each other or lie far from all others are left out and counted; too
many of them are an error too.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from logs.lines import Fields, LogError, Row, split_lines
from logs.templates import TemplateFormat
from logs.writers import OTHER_PROCESS, chosen_writer, last_run, tags_of

MOST_DAMAGED = 0.1
"""Part of the lines that may be left out; one of them always may."""

CONTRADICTION = 0.1
"""Relative difference of what one line states twice: samples, and throughput by step time."""

ABSURD = 50.0
"""Times the median, or part of it, beyond which a figure is left out."""

SECONDS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6}
_PER_SECOND = re.compile(r"^(.+?)/(?:s|sec|second)\.?(?P<device>/device)?$")

DAMAGED = "damaged"
NOT_POSITIVE = "not a positive number"
NO_UNIT = "without a unit"
CONTRADICTS = "contradicts itself"
FAR_OFF = "far from all others"
CUT_OFF = "last line cut off"
LOSS_NOT_FINITE = "read without their loss, which is not finite"


@dataclass
class Record:
    """A line that states a step or a speed."""

    line: int
    segment: int = 0
    """Steps of different segments cannot be subtracted: how many lie between is not stated."""
    step: Optional[int] = None
    step_s: Optional[float] = None
    throughput: Optional[float] = None
    others: Dict[str, float] = field(default_factory=dict)


@dataclass
class Reading:
    """What a log states.

    Args:
        records: in the order of the log.
        left_out: why -> number of lines.
        unit: of the throughput; None where none is stated.
        per_device: whether the throughput is that of one device.
        skipped: why -> number of lines that are as they should be, and none of these records.
    """

    records: List[Record]
    left_out: Dict[str, int] = field(default_factory=dict)
    unit: Optional[str] = None
    per_device: bool = False
    skipped: Dict[str, int] = field(default_factory=dict)

    @property
    def numbered(self) -> bool:
        """Whether its steps are numbered."""
        return all(record.step is not None for record in self.records)

    def begin(self) -> int:
        """Return the step before the first one of this run; not 0 where training was resumed."""
        if len(self.records) < 2 or self.records[1].segment:
            return 0
        first, second = (record.step for record in self.records[:2])
        if first is None or second is None:
            return 0
        return first if first > second - first else 0

    def warmed(self, steps: int) -> List[Record]:
        """Return the records behind the warm-up; of unnumbered ones each counts as a step.

        Without a warm-up all of them: the first may be one step or, resumed, many.
        """
        if steps == 0:
            return self.records
        begin = self.begin()
        return [
            record
            for number, record in enumerate(self.records, start=1)
            if (number if record.step is None else record.step - begin) > steps or record.segment
        ]


def names() -> List[str]:
    """Return the names of all formats."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "formats")
    found = (os.path.splitext(entry) for entry in os.listdir(folder))
    return sorted(
        name for name, end in found if end in (".py", ".json") and not name.startswith(("_", "."))
    )


def format_named(name: str) -> Any:
    """Return a format: a module, or what a file of templates says.

    Raises:
        LogError: there is none of that name.
    """
    if name not in names():
        raise LogError("found format {!r}; expected one of {}".format(name, ", ".join(names())))
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "formats")
    path = os.path.join(folder, name + ".json")
    if os.path.exists(path):
        return TemplateFormat(path)
    return importlib.import_module("logs.formats." + name)


def read(name: str, text: str, options: Optional[Mapping[str, Any]] = None) -> Reading:
    """Read a whole log.

    Args:
        name: of its format.
        text: of the log.
        options: of the format (`pattern`, `time_unit`, `metric`), and for all `unit`, which a
            throughput has that states none, and `every`, the steps between two lines of a log
            that does not number them. `choose` reads one process of several and the last of
            several runs, and counts the lines of the others; else they are refused. `writer` is
            what the lines of the chosen process begin with.

    Raises:
        LogError: it cannot be read without a guess.
    """
    options = options or {}
    module = format_named(name)
    # A pattern of one's own may name the time.
    lines, complete = split_lines(text, with_times=not module.MARKER.pattern)
    left_out: Dict[str, int] = Counter()
    if not complete:
        if module.MARKER.search(lines[-1]):
            left_out[CUT_OFF] = 1
        lines.pop()
    found = _found(name, module, lines, options)
    skipped: Dict[str, int] = Counter()
    claims = [n for n, line in enumerate(lines, start=1) if module.MARKER.search(line)]
    tags = tags_of(lines, claims if module.MARKER.pattern else [n for n, _ in found])
    writer = chosen_writer(tags, options)
    if writer is not None:
        others = [number for number, tag in tags.items() if tag != writer]
        skipped[OTHER_PROCESS] += len(others)
        for number in others:
            lines[number - 1] = ""
        found = _found(name, module, lines, options)
    states: List[Tuple[int, Fields, Record]] = []
    units = set()
    first_lost: Optional[int] = None
    for number, fields in found:
        if fields and fields.get("skipped"):
            skipped[fields["skipped"]] += 1
            continue
        record, why = _record(number, fields, options, units)
        if record is None or fields is None:
            left_out[why] += 1
            first_lost = first_lost or number
        else:
            states.append((number, fields, record))
    _refuse_damage(name, module, left_out, len(states), first_lost)
    if options.get("choose") and all(fields.get("step") is not None for _, fields, _ in states):
        kept, why = last_run([(int(f.get("epoch") or 0), int(f["step"])) for _, f, _ in states])
        skipped[why] += len(states) - len(kept)
        states = [states[place] for place in kept]
    if len(units) > 1:
        said = sorted(_PER_SECOND.sub(r"\1\g<device>", unit) for unit in units)
        raise LogError("it counts in several units: {}".format(", ".join(said)))
    _number_steps(states, options.get("every"))
    records = [record for _, _, record in states]
    for figure in ("throughput", "step_s"):
        left_out[FAR_OFF] += _drop_far_off(records, figure)
    _refuse_damage(name, module, left_out, len(records) - left_out[FAR_OFF], first_lost)
    per_second = _PER_SECOND.match(next(iter(units), ""))
    for record in records:
        if not math.isfinite(record.others.get("loss", 0.0)):
            del record.others["loss"]
            skipped[LOSS_NOT_FINITE] += 1
    return Reading(
        records,
        {why: n for why, n in left_out.items() if n},
        per_second.group(1) if per_second else None,
        bool(per_second and per_second.group("device")),
        {why: n for why, n in skipped.items() if n},
    )


def _found(name: str, module: Any, lines: List[str], options: Mapping[str, Any]) -> List[Row]:
    """Return what a format reads of lines.

    Raises:
        LogError: a line has the shape of another format.
    """
    try:
        return list(module.read(lines, options))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        # JSON of another shape than the format's, or a number of thousands of digits.
        raise LogError("a line is not what {} writes: {}".format(name, error)) from error


def _refuse_damage(
    name: str, module: Any, left_out: Mapping[str, int], kept: int, first: Optional[int]
) -> None:
    lost = sum(n for why, n in left_out.items() if why != CUT_OFF)
    if not kept and not lost:
        raise LogError("no line of it states a step; expected {} ({})".format(name, module.TITLE))
    if not kept or lost > max(1, MOST_DAMAGED * (lost + kept)):
        said = ", ".join("{} {}".format(n, why) for why, n in left_out.items() if n)
        raise LogError(
            "{} of {} lines that state a step cannot be read ({}){}; expected at most "
            "{:.0%}".format(
                lost,
                lost + kept,
                said,
                ", the first on line {}".format(first) if first else "",
                MOST_DAMAGED,
            )
        )


def _record(
    number: int, fields: Optional[Fields], options: Mapping[str, Any], units: set
) -> Tuple[Optional[Record], str]:
    """Return the record of a line, or why there is none."""
    if fields is None:
        return None, DAMAGED
    if any(_too_large(fields.get(name)) for name in ("epoch", "step", "steps")):
        return None, DAMAGED
    record = Record(number, others=dict(fields.get("others") or {}))
    if fields.get("step_time") is not None:
        scale = SECONDS.get(str(fields.get("time_unit")))
        if scale is None:
            return None, NO_UNIT
        record.step_s = _positive(fields["step_time"])
        if record.step_s is None:
            return None, NOT_POSITIVE
        record.step_s *= scale
        batch = record.others.get("global_batch_size")
        if batch:
            record.others["samples_per_s"] = batch / record.step_s
    if fields.get("throughput") is not None:
        unit = fields.get("unit") or options.get("unit")
        if not unit:
            return None, NO_UNIT
        record.throughput = _positive(fields["throughput"])
        if record.throughput is None:
            return None, NOT_POSITIVE
        units.add(
            _PER_SECOND.sub(r"\1/s\g<device>", unit) if _PER_SECOND.match(unit) else unit + "/s"
        )
    samples = fields.get("samples")
    if samples is not None:
        samples = _positive(samples)
        if samples is None:
            return None, NOT_POSITIVE
        if record.throughput and record.step_s:
            if abs(record.throughput * record.step_s / samples - 1) > CONTRADICTION:
                return None, CONTRADICTS
        elif record.step_s:
            record.throughput = samples / record.step_s
    return record, ""


def _too_large(count: Any) -> bool:
    """Whether a count has more digits than any log counts to."""
    return len(str(count)) > 18


def _positive(value: Any) -> Optional[float]:
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number > 0 else None


def _number_steps(states: List[Tuple[int, Fields, Record]], every: Optional[int]) -> None:
    """Give records their steps, counted over epochs.

    Raises:
        LogError: a step comes twice or goes back, or only some lines are numbered.
    """
    numbered = [fields.get("step") is not None for _, fields, _ in states]
    if not any(numbered):
        for count, (_, _, record) in enumerate(states, start=1):
            record.step = count * every if every else None
        return
    before: Optional[Tuple[int, int]] = None
    line_before = segment = 0
    sizes: Dict[int, int] = {}
    for number, fields, record in states:
        if fields.get("step") is None:
            raise LogError("line {} numbers no step, and others do".format(number))
        epoch, step = int(fields.get("epoch") or 0), int(fields["step"])
        if fields.get("steps") is not None:
            size = int(fields["steps"])
            if sizes.setdefault(0, size) != size:
                raise LogError(
                    "line {} counts {} steps in an epoch, and others {}".format(
                        number, size, sizes[0]
                    )
                )
            if step > size:
                raise LogError("line {} states step {} of {}".format(number, step, size))
            step += epoch * size
        elif before is not None and epoch > before[0] and step <= before[1]:
            segment += 1
            before = None
        if before is not None and (step <= before[1] or epoch < before[0]):
            raise LogError(
                "line {} states step {} after step {} on line {}: several processes or several "
                "runs wrote this log; give each one of its own".format(
                    number, step, before[1], line_before
                )
            )
        before, line_before = (epoch, step), number
        record.step, record.segment = step, segment


def _drop_far_off(records: Sequence[Record], figure: str) -> int:
    """Take out figures that lie far from their median; return how many.

    The first record is kept: it holds compilation, and is of the warm-up.
    """
    stated = [value for value in (getattr(record, figure) for record in records) if value]
    if len(stated) < 3:
        return 0
    middle = statistics.median(stated)
    dropped = 0
    for record in records[1:]:
        value = getattr(record, figure)
        if value is not None and not middle / ABSURD <= value <= middle * ABSURD:
            setattr(record, figure, None)
            dropped += 1
    return dropped
