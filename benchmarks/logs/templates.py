"""Formats that are data: `logs/formats/<name>.json` says what stands before and behind each figure.

    {"title": "what writes it",
     "marker": "it {*}: took",                      each line that claims to state a step
     "not": "validate",                             lines with a marker that state none
     "step": "it {}:",
     "step_time": {"ms": "took {} ms"},             by unit
     "throughput": {"tokens/s/device": "tps: {}"},  by unit; of one device where the unit says so
     "others": {"loss": "loss: {}"}}                by name, as printed

A template is text that stands in the line: `{}` is the figure, `{*}` any number, and a blank is
any number of them, at the end at least one. A list of templates is tried in turn. Figures may have
thousands parted by commas, and end with K, M or G. `interval` is the duration of all steps since
`since`, of as many as `interval_rate` (steps/s) makes of it, or since the line before. `beside` are
others that stand on lines of their own, before a step's line. `none` says by name which figure
stands for none.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Pattern, Sequence, Tuple, Union

from logs.lines import NUMBER, Fields, Row

Templates = Union[str, List[str]]

_FIGURE = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!,?\d)|" + NUMBER + r"(?!,\d))"
_ANY = r"[-+.,\deE]+"
_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}


def compiled(templates: Templates) -> List[Pattern[str]]:
    """Return a pattern for each template; the group `figure` is its `{}`, `scale` what follows."""
    found = []
    for template in [templates] if isinstance(templates, str) else templates:
        parts = []
        for part in re.split(r"(\{\*?\}| +)", template):
            if part == "{}":
                parts.append("(?P<figure>{})(?P<scale>[kKMG](?![A-Za-z]))?".format(_FIGURE))
            elif part == "{*}":
                parts.append(_ANY)
            else:
                parts.append(r"\s*" if part and part.isspace() else re.escape(part))
        if template.endswith(" "):
            parts.append(r"(?<=\s)")
        before = r"(?<![\w.])" if re.match(r"\w|\{", template) else ""
        found.append(re.compile(before + "".join(parts)))
    return found


def figure(patterns: Sequence[Pattern[str]], line: str) -> Optional[float]:
    """Return the figure that the first fitting template reads in a line; None where none fits."""
    for pattern in patterns:
        found = pattern.search(line)
        if found:
            number = found.group("figure").replace(",", "")
            return float(number) * _SCALES[found.group("scale") or ""]
    return None


class TemplateFormat:
    """A format that a JSON file describes; it reads as a module of `logs/formats` does."""

    def __init__(self, path: str):
        with open(path, encoding="utf-8") as stream:
            document: Dict[str, Any] = json.load(stream)
        markers = document["marker"]
        self.TITLE = document["title"]
        self.MARKER = re.compile(
            "|".join(
                pattern.pattern
                for pattern in compiled([markers] if isinstance(markers, str) else markers)
            )
        )
        self._not = compiled(document.get("not", []))
        self._whole = {
            name: compiled(document.get(name, [])) for name in ("epoch", "step", "steps", "since")
        }
        self._interval = compiled(document.get("interval", []))
        self._interval_rate = compiled(document.get("interval_rate", []))
        self._step_time = _by_name(document, "step_time")
        self._throughput = _by_name(document, "throughput")
        self._others = _by_name(document, "others")
        self._none = document.get("none", {})
        self._beside = _by_name(document, "beside")

    def read(self, lines: Sequence[str], options: Mapping[str, Any]) -> Iterator[Row]:
        """Yields (line number, what it states or None where it is damaged)."""
        before: Optional[int] = None
        beside: Fields = {}
        for number, line in enumerate(lines, start=1):
            beside.update(_named(self._beside, line))
            claims = len(self.MARKER.findall(line))
            if not claims:
                continue
            if any(pattern.search(line) for pattern in self._not):
                yield number, {"skipped": "not of training"}
                continue
            fields = self._stated(line, before) if claims == 1 else None
            if fields is not None:
                fields["others"] = dict(beside, **fields["others"])
                before, beside = fields.get("step"), {}
            yield number, fields

    def _stated(self, line: str, before: Optional[int]) -> Optional[Fields]:
        fields: Fields = {}
        if any(len(pattern.findall(line)) > 1 for pattern in self._whole["step"]):
            return None  # The begin of one line, and another.
        for name, patterns in self._whole.items():
            found = figure(patterns, line)
            if found is not None:
                if not 0 <= found < 1e18:
                    return None
                fields[name] = int(found)
        if self._whole["step"] and "step" not in fields:
            return None
        for unit, patterns in self._step_time:
            found = figure(patterns, line)
            if found is not None:
                fields.update(step_time=found, time_unit=unit)
        for unit, patterns in self._throughput:
            found = figure(patterns, line)
            if found is not None and "throughput" not in fields:
                fields.update(throughput=found, unit=unit)
        if "since" in fields and fields["step"] <= fields["since"]:
            return None
        seconds, since = figure(self._interval, line), fields.pop("since", before)
        rate = figure(self._interval_rate, line)
        steps = 0 if since is None else fields["step"] - since
        if self._interval_rate and rate != 0:
            steps = round((seconds or 0) * (rate or 0))
        if seconds is not None and steps > 0:
            fields.update(step_time=seconds / steps, time_unit="s")
        others = _named(self._others, line)
        fields["others"] = {n: value for n, value in others.items() if value != self._none.get(n)}
        stated = {"step_time", "throughput"} & set(fields)
        return fields if stated or (seconds is not None and since is None) else None


def _by_name(document: Mapping[str, Any], key: str) -> List[Tuple[str, List[Pattern[str]]]]:
    return [(name, compiled(templates)) for name, templates in document.get(key, {}).items()]


def _named(figures: Sequence[Tuple[str, List[Pattern[str]]]], line: str) -> Fields:
    found = ((name, figure(patterns, line)) for name, patterns in figures)
    return {name: value for name, value in found if value is not None}
