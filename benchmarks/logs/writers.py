"""Which process wrote a line of a log, and which of several runs in it is read."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from logs.lines import TAG, LogError

LEAST_RUN = 3
"""Lines of a run: what goes back after fewer are several processes."""

OTHER_PROCESS = "of other processes"
EARLIER_RUN = "of earlier runs"


def tags_of(lines: Sequence[str], numbers: Iterable[int]) -> Dict[int, str]:
    """Return which process a line says that it is of (`[1,0]`, `0:`), by its number."""
    found = ((number, TAG.match(lines[number - 1])) for number in numbers)
    return {number: tag.group(1).rstrip(": \t") if tag else "" for number, tag in found}


def chosen_writer(tags: Mapping[int, str], options: Mapping[str, Any]) -> Optional[str]:
    """Return the tag of the process whose lines are read; None where one wrote them all.

    Raises:
        LogError: several wrote, and none is to be chosen, or one that wrote nothing.
    """
    first: Dict[str, int] = {}
    for number, tag in tags.items():
        first.setdefault(tag, number)
    wanted = options.get("writer")
    if wanted is not None:
        wanted = str(wanted).strip(": ")
        if wanted not in first:
            raise LogError(
                "no line that states a step begins with {!r}; expected one of {}".format(
                    wanted, ", ".join(repr(tag) for tag in first) or "none"
                )
            )
        return wanted
    if len(first) < 2:
        return None
    if options.get("choose"):
        counts = Counter(tags.values())
        return max(first, key=lambda tag: (counts[tag], -first[tag]))
    (one, here), (other, there) = list(first.items())[:2]
    raise LogError(
        "lines of several processes are mixed: line {} begins with {!r}, line {} with {!r}; "
        "give each process a log of its own, or let one write".format(here, one, there, other)
    )


def last_run(places: Sequence[Tuple[int, int]]) -> Tuple[List[int], str]:
    """Return the lines of the last run, or of one of several processes, and what the others are.

    A training that was started again goes back once, and then on for many lines; processes that
    write into one log go back, or state a step again, at every other line.

    Args:
        places: epoch and step of each line, in the order of the log.
    """
    begins = [n for n in range(1, len(places)) if places[n] <= places[n - 1]]
    lengths = [end - begin for begin, end in zip([0, *begins], begins)]
    if lengths and statistics.median(lengths) >= LEAST_RUN:
        return list(range(begins[-1], len(places))), EARLIER_RUN
    first = {place: n for n, place in reversed(list(enumerate(places)))}
    return sorted(first.values()), OTHER_PROCESS
