"""The process that wrote a line of a log."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence

from logs.lines import TAG, LogError

OTHER_PROCESS = "of other processes"


def tags_of(lines: Sequence[str], numbers: Iterable[int]) -> Dict[int, str]:
    """Return line number -> tag of the process that wrote the line (`[1,0]`, `0:`)."""
    found = ((number, TAG.match(lines[number - 1])) for number in numbers)
    return {number: tag.group(1).rstrip(": \t") if tag else "" for number, tag in found}


def chosen_writer(tags: Mapping[int, str], options: Mapping[str, Any]) -> Optional[str]:
    """Return the tag of the process whose lines are read; None if one process wrote all lines.

    Raises:
        LogError: several processes wrote and none may be chosen, or the chosen one wrote nothing.
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
