"""The lines of a log, and tables of patterns that find steps and values in them."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Pattern, Sequence, Tuple

Fields = Dict[str, Any]
"""Values that a line states, by name; see `logs.reading.read`."""
Row = Tuple[int, Optional[Fields]]
"""Number of a line that claims to state a step, and its fields; None if it is damaged."""

NUMBER = (
    r"(?:[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![.,]?\d)"
    r"|[-+]?(?:nan|NaN|NAN|inf|INF|Infinity)\b)"
)
"""A complete number, with or without commas between thousands; not `10.3.4` or `4,33,0`."""
_NAME = r"(?!step|iter|it[-_/\d]|epoch|batch)[a-z]"
_MARKS = (
    r"\[\d+(?:,\d+)?\](?:<std\w+>)?",  # mpirun
    r"\[\d+,[\w.:,-]{1,80}\]<std\w+>",  # SageMaker
    r"\[[^\]\s]*::?(?:stdout|stderr)\]",
    r"\d+:(?!\d)",  # srun --label, and no clock
    r"\[pod/[^\]\s]{1,200}\]",  # kubectl logs --prefix
    _NAME + r"[\w.-]{0,60}/\d+(?=\s)",  # NeMo-Run
    r"\[(?:rank|default|node)[ _]?\d+\]",  # torchrun
    r"\[" + _NAME + r"\w{0,30}\d\](?=:)",  # torchrun, of a role with another name
    r"\(\w{1,60} pid=\d+(?:, ip=[\w.:]+)?\)",  # Ray
    _NAME + r"[\w.]{0,60}[_-][\w.-]{0,60} +\|(?=\s)",  # docker compose
    _NAME + r"[\w.]{0,40}-[\w.-]{0,40}\d:(?=\s)",  # pdsh, of a host whose name has a dash
)
TAG = re.compile(r"^\s*((?:(?:{})(?:\s?:)?\s?){{1,3}})".format("|".join(_MARKS)), re.IGNORECASE)
"""Text before the lines of one of several processes: `[1,0]<stdout>:`, `0: `, `[rank0]:`."""

_DRAWN_AGAIN = re.compile(r"\r|\x08+")
_COLOURS = (  # Each begins with a text that re can look for.
    re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"),
    re.compile(r"\^\[\[[0-9;?]*[A-Za-z]"),
    re.compile(r"\[\d{1,2}(?:;\d{1,3}){0,4}m"),
)
_TIME = re.compile(
    r"(\[pod/[^\]\s]{1,200}\] )?\[?\d{4}-\d\d-\d\dT[\d:]{8}(?:\.\d+)?(?:Z|[-+]\d\d:?\d\d)\]? ?"
    r"(?:std(?:out|err) [FP] )?"
)


class LogError(Exception):
    """A log from which values cannot be read without guessing."""


def without_colours(text: str) -> str:
    """Return a text without the codes that colour it in a terminal.

    This includes codes whose escape character is lost or written as `^[`.
    """
    for codes in _COLOURS:
        text = codes.sub("", text)
    return text


def number(text: Any) -> float:
    """Return a number's value; commas may separate its thousands.

    Raises:
        ValueError: the text is not a number.
    """
    if isinstance(text, str) and "," in text:
        if not re.match(NUMBER + r"\Z", text):
            raise ValueError("{!r} is no number".format(text))
        text = text.replace(",", "")
    return float(text)


def split_lines(text: str, with_times: bool = False) -> Tuple[List[str], bool]:
    """Return the lines of a log, and whether the last one is complete.

    Progress bars overwrite themselves: a carriage return or backspaces end a line too, and the
    text after it is of the same process. Colours are removed, and so are the times that
    Kubernetes writes before each line, unless `with_times` is set.
    """
    lines: List[str] = []
    text = without_colours(text.replace("\0", "")).lstrip("\ufeff").replace("\r\n", "\n")
    for line in text.split("\n"):
        time = None if with_times else _TIME.match(line)
        if time:
            line = (time.group(1) or "") + line[time.end() :]
        if "\r" in line or "\b" in line:
            first, *more = _DRAWN_AGAIN.split(line)
            tag = TAG.match(first)
            lines += [first, *((tag.group() if tag and each else "") + each for each in more)]
        else:
            lines.append(line)
    last = lines.pop()
    return (lines, True) if not last.strip() else ([*lines, last], False)


def match(patterns: Iterable[Pattern[str]], line: str) -> Optional[Mapping[str, str]]:
    """Return the named groups of the first pattern found in a line; None if none is found."""
    for pattern in patterns:
        found = pattern.search(line)
        if found:
            return {name: text for name, text in found.groupdict().items() if text is not None}
    return None


def rows(
    lines: Sequence[str], marker: Pattern[str], patterns: Sequence[Pattern[str]], **known: Any
) -> Iterator[Row]:
    """Yield the lines with a marker, and the values of the first pattern that fits each line.

    A line with two markers has pieces of two lines: it is damaged.

    Args:
        lines: of the log.
        marker: pattern in each line that states a step.
        patterns: tried in turn.
        known: values that the format defines (`time_unit`, `unit`).
    """
    for number, line in enumerate(lines, start=1):
        claims = len(marker.findall(line))
        if claims:
            found = match(patterns, line) if claims == 1 else None
            yield number, None if found is None else dict(known, **found)
