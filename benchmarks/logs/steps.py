"""The run of a log that is read, its steps, and the number of its steps before each line."""

from __future__ import annotations

from collections import Counter
from typing import Dict, List, Optional, Sequence, Tuple

from logs.lines import Fields, LogError
from logs.records import Record
from logs.writers import OTHER_PROCESS

State = Tuple[Fields, Record]
"""Values that a line states, and its record."""

LEAST_RUN = 3
"""Minimum lines of a run; steps that go back after fewer lines show several processes."""

EARLIER_RUN = "of earlier runs"
STATED_AGAIN = "of a step that is stated again"


def last_run(states: List[State]) -> Tuple[List[State], Dict[str, int], str]:
    """Return the lines of the last run, each step once; other lines by reason; and what was before.

    In a restarted training, steps go back once and then increase for many lines. If several
    processes write one log, steps go back or repeat at every other line. A step that repeats only
    now and then is neither.
    """
    places = [(fields.get("epoch") or 0, fields["step"]) for fields, _ in states]
    begins = [n for n in range(1, len(places)) if places[n] < places[n - 1]]
    skipped: Dict[str, int] = {}
    begin, said = 0, ""
    if begins and len(places) >= LEAST_RUN * (len(begins) + 1):
        begin = skipped[EARLIER_RUN] = begins[-1]
        earlier = sorted(step for _, step in places[:begin])
        said = "{} lines of {} earlier run{} (steps {} to {})".format(
            begin, len(begins), "s" if len(begins) > 1 else "", earlier[0], earlier[-1]
        )
    first = {places[n]: n for n in range(len(places) - 1, begin - 1, -1)}
    again = len(places) - begin - len(first)
    if again:
        skipped[OTHER_PROCESS if 2 * again >= len(first) else STATED_AGAIN] = again
    return [states[n] for n in sorted(first.values())], skipped, said


def _begin(states: Sequence[State]) -> int:
    """Return the step before the first one, counted as in its epoch; -1 if steps count from 0.

    A resumed run begins one interval before its first line, unless that line's step is no
    multiple of the interval.
    """
    fields, record = states[0]
    first, since = fields["step"], fields.get("since")
    if record.step_s is None and record.throughput is None:
        return first  # its values begin after it
    if since is not None and first - since > 1:
        return since
    places = [(each.get("epoch"), each["step"]) for each, _ in states]
    gaps = Counter(
        now[1] - then[1]
        for then, now in zip(places, places[1:])
        if now[0] == then[0] and now[1] > then[1]
    )
    every = gaps.most_common(1)[0][0] if gaps else first or 1
    if first % every == 0 or (first % every == every - 1 and every > 2):
        return max(-1, first - every)
    return first - 1


def number_steps(states: List[State], every: Optional[int]) -> None:
    """Set the records' steps, counted over epochs, and the number of steps of the run before them.

    Raises:
        LogError: a step repeats or goes back, or only some lines have step numbers.
    """
    if all(fields.get("step") is None for fields, _ in states):
        done = 0
        for fields, record in states:
            record.begun = done
            done += every or int(fields.get("span") or 1)
            record.done, record.step = done, done if every else None
        return
    for fields, record in states:
        if fields.get("step") is None:
            raise LogError("line {} has no step number, but others have one".format(record.line))
    begin = _begin(states)
    before, segment, offset = (states[0][0].get("epoch") or 0, begin), 0, 0
    size: Optional[int] = None
    line_before: Optional[int] = None
    for fields, record in states:
        epoch, step = fields.get("epoch") or 0, fields["step"]
        since = fields.get("since")
        if fields.get("steps") is not None:
            if size is None:
                size = fields["steps"]
                begin += epoch * size
                before = (epoch, begin)
            if size != fields["steps"]:
                raise LogError(
                    "line {} counts {} steps in an epoch, but others {}".format(
                        record.line, fields["steps"], size
                    )
                )
            if step > size:
                raise LogError("line {} states step {} of {}".format(record.line, step, size))
            step += epoch * size
            since = None if since is None else since + epoch * size
        elif line_before and epoch > before[0] and step <= before[1]:
            segment, offset, begin = segment + 1, offset + before[1] - begin, min(begin, 0)
            before = (epoch, begin)
            line_before = None
        if line_before and (step <= before[1] or epoch < before[0]):
            raise LogError(
                "line {} states step {} after step {} on line {}: several processes or several "
                "runs wrote this log; write a separate log for each".format(
                    record.line, step, before[1], line_before
                )
            )
        record.begun = offset + (before[1] if since is None else since) - begin
        record.done = offset + step - begin
        record.step, record.segment = step, segment
        before, line_before = (epoch, step), record.line
