"""Reads steps and throughputs from the log of a training script, by strict rules.

A format is a file `logs/formats/<name>.json` of templates (see `templates`) or a module
`logs/formats/<name>.py`:

    TITLE                    the program that writes it
    MARKER                   pattern in every line that claims to state a step
    read(lines, options)     yields (line number, fields); fields are None for a damaged line

The fields of a line are some of

    epoch, step, steps       counter; `steps` is their number in an epoch
    since                    step before the first one that the values cover; if it is not stated,
                             they are means since the line before
    span                     number of steps that the values cover, if steps have no numbers
    step_time, time_unit     duration of one step, and its unit; `sure` if two values state it
    throughput, unit         units of work per second
    samples                  units of work in a step
    batch                    examples in a step of the whole job
    clocked                  seconds and units of work between two events of the log
    whole                    whether the values cover the whole training
    others                   other values by name: loss, tflops_per_device, mfu_percent
    skipped                  why the line does not belong to training

A wrong number is worse than none. Mixed lines of several processes, steps that go back, two runs in
one file and logs without a step are errors. Damaged lines are left out and counted. So are values
that are not positive, have no unit, contradict each other or are far from all others. Too many of
them are also an error.
"""

from __future__ import annotations

import importlib
import math
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from logs.lines import LogError, Row, split_lines
from logs.records import DAMAGED, FAR_OFF, LeftOut, Record, drop_far_off, record_of, unit_and_device
from logs.steps import State, last_run, number_steps
from logs.templates import TemplateFormat
from logs.writers import OTHER_PROCESS, chosen_writer, tags_of

MOST_DAMAGED = 0.1
"""Share of the lines that may be left out; one line always may."""

CUT_OFF = "last line cut off"
LOSS_NOT_FINITE = "read without their loss, which is not finite"


@dataclass
class Reading:
    """The content of a log.

    Args:
        records: in the order of the log.
        left_out: why -> number of lines.
        unit: of the throughput; None if the log states none.
        per_device: whether the throughput is that of one device.
        skipped: why -> number of correct lines that are not among these records.
        processes: the processes that wrote the log; empty if there is one.
        earlier: a description of earlier runs in the log; empty if there are none.
    """

    records: List[Record]
    left_out: Dict[str, int] = field(default_factory=dict)
    unit: Optional[str] = None
    per_device: bool = False
    skipped: Dict[str, int] = field(default_factory=dict)
    processes: str = ""
    earlier: str = ""

    @property
    def numbered(self) -> bool:
        """Whether all records have a step number."""
        return all(record.step is not None for record in self.records)

    def warmed(self, steps: int) -> List[Record]:
        """Return the records after the warm-up; a line without number is at least one step."""
        return [record for record in self.records if record.whole or record.begun >= steps]


def names() -> List[str]:
    """Return the names of all formats."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "formats")
    found = (os.path.splitext(entry) for entry in os.listdir(folder))
    return sorted(
        name for name, end in found if end in (".py", ".json") and not name.startswith(("_", "."))
    )


def format_named(name: str) -> Any:
    """Return a format: a module, or the format of a file of templates.

    Raises:
        LogError: there is no format of that name.
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
        name: name of its format.
        text: text of the log.
        options: of the format (`pattern`, `time_unit`, `metric`), and for all formats: `unit` of
            a throughput without a unit; `every`, the steps between two lines of a log without
            step numbers. `choose` reads one of several processes and the last of several runs,
            and counts the other lines; otherwise such logs are refused. `writer` is the text at
            the start of the chosen process's lines.

    Raises:
        LogError: the log cannot be read without guessing.
    """
    options = options or {}
    module = format_named(name)
    # The user's own pattern may contain the time.
    lines, complete = split_lines(text, with_times=not module.MARKER.pattern)
    left_out: Counter = Counter()
    if not complete:
        if module.MARKER.search(lines[-1]):
            left_out[CUT_OFF] = 1
        lines.pop()
    found = _found(name, module, lines, options)
    skipped: Counter = Counter()
    if module.MARKER.pattern and not isinstance(module, TemplateFormat):
        claims = [n for n, line in enumerate(lines, start=1) if module.MARKER.search(line)]
    else:
        claims = [n for n, _ in found]
    tags = tags_of(lines, claims)
    writer, processes, earlier = chosen_writer(tags, options), "", ""
    if writer is not None:
        others = [n for n, tag in tags.items() if tag != writer]
        skipped[OTHER_PROCESS] += len(others)
        processes = "{!r}, one of {} processes".format(writer, len(set(tags.values())))
        for n in others:
            lines[n - 1] = ""
        found = _found(name, module, lines, options)
    states: List[State] = []
    units: Set[str] = set()
    first_lost = ""
    for n, fields in found:
        if fields and fields.get("skipped"):
            skipped[fields["skipped"]] += 1
            continue
        try:
            states.append((fields or {}, record_of(n, fields, options, units, skipped)))
        except LeftOut as lost:
            left_out[lost.why] += 1
            first_lost = first_lost or ", the first on line {}{}".format(n, lost.said)
    _refuse_damage(name, module, left_out, len(states), first_lost, lines)
    if options.get("choose") and all(fields.get("step") is not None for fields, _ in states):
        states, of_others, earlier = last_run(states)
        skipped.update(of_others)
        if OTHER_PROCESS in of_others:
            processes = processes or "one process of several without marks"
    if len(units) > 1:
        said = sorted(unit.replace("/s", "", 1) for unit in units)
        raise LogError("the log counts in several units: {}".format(", ".join(said)))
    number_steps(states, options.get("every"))
    records = [record for _, record in states]
    for figure in ("throughput", "step_s"):
        left_out[FAR_OFF] += drop_far_off(records, figure)
    _refuse_damage(name, module, left_out, len(records) - left_out[FAR_OFF], first_lost, lines)
    for record in records:
        if not math.isfinite(record.others.get("loss", 0.0)):
            del record.others["loss"]
            skipped[LOSS_NOT_FINITE] += 1
    unit, device = unit_and_device(next(iter(units), ""))
    return Reading(
        records,
        {why: n for why, n in left_out.items() if n},
        unit or None,
        bool(device),
        {why: n for why, n in skipped.items() if n},
        processes,
        earlier,
    )


def _found(name: str, module: Any, lines: List[str], options: Mapping[str, Any]) -> List[Row]:
    """Return the rows that a format reads from lines.

    Raises:
        LogError: a line has the shape of another format.
    """
    try:
        return list(module.read(lines, options))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        # JSON of another shape than the format's, or a number of thousands of digits.
        raise LogError("a line is not what {} writes: {}".format(name, error)) from error


def _refuse_damage(
    name: str,
    module: Any,
    left_out: Mapping[str, int],
    kept: int,
    first: str,
    lines: Sequence[str],
) -> None:
    lost = sum(n for why, n in left_out.items() if why != CUT_OFF)
    if kept and lost <= max(1, MOST_DAMAGED * (lost + kept)):
        return
    said = "no line of the log states a step; expected {} ({})".format(name, module.TITLE)
    if lost:
        whys = ", ".join("{}: {}".format(why, n) for why, n in left_out.items() if n)
        said = "{} of {} lines that state a step cannot be read ({}){}; expected at most {:.0%}"
        said = said.format(lost, lost + kept, whys, first, MOST_DAMAGED)
    if not kept and name != "regex" and not set(left_out) - {CUT_OFF, DAMAGED}:
        others = {
            each: format_named(each).MARKER for each in names() if each not in (name, "regex")
        }
        found = Counter(n for n in others for line in lines[-5_000:] if others[n].search(line))
        said += (
            ". Lines look like " + " or ".join(n for n, _ in found.most_common(2)) if found else ""
        )
        said += ". The format regex reads any line with a --pattern"
    raise LogError(said)
