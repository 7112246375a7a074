"""The values that one line of a log states, without values that contradict each other."""

from __future__ import annotations

import functools
import math
import re
import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from logs.lines import Fields, number

CONTRADICTION = 0.1
"""Relative difference between samples and throughput x step time at which they contradict."""

MOST_PAUSED = 2.0
"""Maximum ratio of the log's clock to the steps' duration: evaluations run between steps."""

ABSURD = 50.0
"""Ratio to the median (or its inverse) beyond which a value is left out."""

SECONDS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6}
EXAMPLES = ("examples", "images", "samples", "seq", "sequences")
"""Units of work with at least one unit in a step of the whole job."""
_PER_SECOND = re.compile(r"^(.+?)/(?:s|sec|second)\.?(/device)?$")

DAMAGED = "damaged"
NOT_POSITIVE = "not a positive number"
NO_UNIT = "without a unit"
CONTRADICTS = "contradicts itself"
FAR_OFF = "far from all others"
SPEED_CONTRADICTS = "read without their speed, which contradicts their step time"


class LeftOut(Exception):
    """A line that is left out: the reason and, if it helps, the values of the line."""

    def __init__(self, why: str, said: str = ""):
        super().__init__(why)
        self.why, self.said = why, said and ": " + said


@dataclass
class Record:
    """The record of a line that states a step or a throughput."""

    line: int
    segment: int = 0
    """Steps of different segments cannot be subtracted: the steps between are not known."""
    step: Optional[int] = None
    begun: int = 0
    """Minimum number of steps of this run before the first one that its values cover."""
    done: int = 0
    """Minimum number of steps of this run up to this record."""
    whole: bool = False
    step_s: Optional[float] = None
    throughput: Optional[float] = None
    others: Dict[str, float] = field(default_factory=dict)


def record_of(
    line: int, fields: Optional[Fields], options: Mapping[str, Any], units: set, skipped: Counter
) -> Record:
    """Return the record of a line; its unit is added to `units`.

    Raises:
        LeftOut: the line has no usable record.
    """
    if fields is None:
        raise LeftOut(DAMAGED)
    for name in ("epoch", "step", "steps", "since"):
        if fields.get(name) is not None:
            fields[name] = _count(fields[name])
    record = Record(line, whole=bool(fields.get("whole")), others=dict(fields.get("others") or {}))
    unit, device = unit_and_device(fields.get("unit") or options.get("unit") or "")
    if fields.get("step_time") is not None:
        scale = SECONDS.get(str(fields.get("time_unit")))
        if scale is None:
            raise LeftOut(NO_UNIT, "a step time; give --time-unit ms (`time_unit` in a suite)")
        record.step_s = _positive(fields["step_time"]) * scale
    if fields.get("throughput") is not None:
        if not unit:
            raise LeftOut(NO_UNIT, "a throughput; give --unit images (`unit` in a suite)")
        record.throughput = _positive(fields["throughput"])
        units.add(unit + "/s" + device)
    _cross_check(record, fields, unit.lower() in EXAMPLES and not device, skipped)
    return record


@functools.lru_cache(maxsize=None)
def unit_and_device(text: str) -> Tuple[str, str]:
    """Return the unit of `tokens/s/device` or `tokens`, and `/device` if it is per device."""
    found = _PER_SECOND.match(text)
    return (found.group(1), found.group(2) or "") if found else (text, "")


def _cross_check(record: Record, fields: Fields, examples: bool, skipped: Counter) -> None:
    """Check the metrics of a line against each other, which no other function does.

    Args:
        record: the line's record; a throughput that is certainly wrong is removed from it.
        fields: the fields that the line states.
        examples: whether its throughput is in examples of the whole job.
        skipped: why -> number of lines.

    Raises:
        LeftOut: they contradict each other, and it is unknown which of them is wrong.
    """
    speed, step_s = record.throughput, record.step_s
    batch = fields.get("batch") or record.others.get("global_batch_size")
    samples = fields.get("samples")
    samples = (batch if examples else None) if samples is None else _positive(samples)
    wrong = False
    if speed and step_s and not _agree(speed * step_s, samples, examples):
        if not fields.get("sure"):
            said = "{:g} per second times {:g} s per step is {:g} per step; expected {}"
            least = "at least 1" if samples is None else "{:g}".format(samples)
            raise LeftOut(CONTRADICTS, said.format(speed, step_s, speed * step_s, least))
        wrong, record.throughput = True, None
    printed = record.others.get("samples_per_s")
    if printed and step_s and not _agree(printed * step_s, batch, examples=True):
        wrong = True
        del record.others["samples_per_s"]
    skipped[SPEED_CONTRADICTS] += wrong
    if step_s and samples and not record.throughput:
        record.throughput = samples / step_s
    if step_s and batch:
        record.others["samples_per_s"] = batch / step_s
    seconds, work = fields.get("clocked") or (None, None)
    if speed and seconds and not 1 - CONTRADICTION <= speed * seconds / work <= MOST_PAUSED:
        said = "{:g} per second is {:g} in {:g} s; the log counts {:g}"
        raise LeftOut(CONTRADICTS, said.format(speed, speed * seconds, seconds, work))


def _agree(product: float, samples: Optional[float], examples: bool) -> bool:
    """Return whether throughput times step time equals the work of a step."""
    if samples is None:
        return not examples or product >= 1 - CONTRADICTION
    return abs(product / samples - 1) <= CONTRADICTION


def _count(value: Any) -> int:
    if isinstance(value, int) and abs(value) < 10**18:
        return value
    text = str(value).replace(",", "")
    if len(text) > 18 or not text.lstrip("-").isdigit():  # no log has numbers with more digits
        raise LeftOut(DAMAGED)
    return int(text)


def _positive(value: Any) -> float:
    try:
        found = number(value)
    except (OverflowError, TypeError, ValueError) as error:
        raise LeftOut(DAMAGED) from error
    if not (math.isfinite(found) and found > 0):
        raise LeftOut(NOT_POSITIVE)
    return found


def drop_far_off(records: Sequence[Record], figure: str) -> int:
    """Remove values that are far from their median; return their number.

    The first record is kept: it includes compilation and belongs to the warm-up.
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
