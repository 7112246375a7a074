"""Formats that are data: `logs/formats/<name>.json` has the text before and after each value.

    {"title": "the program that writes it",
     "marker": "it {*}: took",                      in each line that claims to state a step
     "not": "validate",                             lines with a marker, but without a step
     "step": "it {}:",
     "step_time": {"ms": "took {} ms"},             by unit
     "throughput": {"tokens/s/device": "tps: {}"},  by unit; of one device if the unit says so
     "others": {"loss": "loss: {}"}}                by name

A template is text of the line: `{}` is the value, `{*}` any number, and a blank any number of
blanks, at the end at least one. A list of templates is tried in turn. Values may have thousands
separated by commas, and end with K, M or G. `interval` is the duration of all steps since `since`,
or since the line before; with `interval_rate` (steps/s), their number is the product of both.
`beside` are values on lines of their own before a step's line. `batch` is the examples of all steps
that follow. `none` gives by name the value that means none. Values are means since the line before,
unless `span` gives the number of steps. `bar` has templates of epoch, step and steps of an epoch,
for lines whose step is rounded (`1e+3`).
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, List, Mapping, Match, Optional, Sequence, Tuple, Union

from logs.lines import NUMBER, Fields, Row

Templates = Union[str, List[str]]

_ANY = r"[-+.,\deE]+"
_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
ROUNDED = 0.005
"""Relative error of a step that is rounded to three digits."""


class Template:
    """A text that contains a value; it finds its position in a line, and the value."""

    def __init__(self, text: str):
        parts = []
        for part in re.split(r"(\{\*?\}| +)", text):
            if part == "{}":
                parts.append("(?P<figure>{})(?P<scale>[kKMG](?![A-Za-z]))?".format(NUMBER))
            elif part == "{*}":
                parts.append(_ANY)
            else:
                parts.append(r"\s*" if part and part.isspace() else re.escape(part))
        if text.endswith(" "):
            parts.append(r"(?<=\s)")
        before = r"(?<![\w.])" if re.match(r"\w|\{", text) else ""
        self._pattern = re.compile(before + "".join(parts))
        self._head = re.split("[{ ]", text)[0]
        self._word = re.split("[ }]", text.split("{}")[0])[-1]

    def search(self, line: str, at: int = 0) -> Optional[Match[str]]:
        """Return the first match in a line from `at` on; None if there is none.

        Most templates begin with a known text, which is found many times faster than a pattern. So
        is the word before the value, which is always in the line.
        """
        if self._word not in line:
            return None
        if not self._head:
            return self._pattern.search(line, at)
        at = line.find(self._head, at)
        while at >= 0:
            found = self._pattern.match(line, at)
            if found:
                return found
            at = line.find(self._head, at + 1)
        return None

    def findall(self, line: str) -> List[Match[str]]:
        """Return all matches in a line."""
        places: List[Match[str]] = []
        found = self.search(line)
        while found:
            places.append(found)
            found = self.search(line, found.end())
        return places


def compiled(templates: Templates) -> List[Template]:
    """Return a list of templates that are tried in turn."""
    return [Template(text) for text in ([templates] if isinstance(templates, str) else templates)]


def figure(templates: Sequence[Template], line: str) -> Optional[float]:
    """Return the value that the first fitting template reads in a line; None if none fits."""
    for template in templates:
        found = template.search(line)
        if found:
            return _value(found)
    return None


def _value(found: Match[str]) -> float:
    return float(found.group("figure").replace(",", "")) * _SCALES[found.group("scale") or ""]


class Marker:
    """Templates, one of which is in each line that states a step; used like a pattern."""

    def __init__(self, templates: Templates):
        self._templates = compiled(templates)
        self.pattern = str(templates)

    def findall(self, line: str) -> List[Match[str]]:
        """Return all matches in a line."""
        return [found for template in self._templates for found in template.findall(line)]

    def search(self, line: str) -> bool:
        """Return whether a template is in the line."""
        return any(template.search(line) for template in self._templates)


class TemplateFormat:
    """A format that a JSON file describes, with the interface of the modules of `logs/formats`."""

    def __init__(self, path: str):
        with open(path, encoding="utf-8") as stream:
            document: Dict[str, Any] = json.load(stream)
        self.TITLE = document["title"]
        self.MARKER = Marker(document["marker"])
        self._not = compiled(document.get("not", []))
        self._steps = compiled(document["step"])
        counts = ("epoch", "steps", "since", "interval", "interval_rate")
        self._counts = [(name, compiled(document[name])) for name in counts if name in document]
        self._by_rate = "interval_rate" in document
        self._bar = [compiled(template) for template in document.get("bar", [])]
        self._batch = compiled(document.get("batch", []))
        self._span = document.get("span")
        self._by_unit = [
            (figure, unit, _by_name(document, figure))
            for figure, unit in (("step_time", "time_unit"), ("throughput", "unit"))
        ]
        self._others = _by_name(document, "others")
        self._none = document.get("none", {})
        self._beside = _by_name(document, "beside")

    def read(self, lines: Sequence[str], options: Mapping[str, Any]) -> Iterator[Row]:
        """Yield (line number, fields; None for a damaged line)."""
        before: Optional[int] = None
        beside: Fields = {}
        batch: Optional[float] = None
        for number, line in enumerate(lines, start=1):
            beside.update(_named(self._beside, line))
            batch = figure(self._batch, line) or batch
            claims = len(self.MARKER.findall(line))
            if not claims:
                continue
            if any(template.search(line) for template in self._not):
                yield number, {"skipped": "not of training"}
                continue
            fields = self._stated(line, before) if claims == 1 else None
            if fields is not None:
                fields["others"] = dict(beside, **fields["others"])
                fields["batch"] = batch
                before, beside = fields["step"], {}
            yield number, fields

    def _stated(self, line: str, before: Optional[int]) -> Optional[Fields]:
        step, counts = self._step(line), _named(self._counts, line)
        if step is None or not all(0 <= count < 1e18 for count in counts.values()):
            return None
        seconds, rate = counts.pop("interval", None), counts.pop("interval_rate", None)
        if counts.get("since", -1) >= step:
            return None
        fields: Fields = {name: int(count) for name, count in counts.items()}
        for name, name_of_unit, figures in self._by_unit:
            for unit, found in _named(figures, line).items():
                fields.setdefault(name, found)
                fields.setdefault(name_of_unit, unit)
        since = fields.get("since", before)
        steps = self._span or (0 if since is None else step - since)
        if self._by_rate and rate != 0:
            steps = round((seconds or 0) * (rate or 0))
        if seconds is not None and steps > 0:
            fields.update(step_time=seconds / steps, time_unit="s", sure=bool(rate))
        if steps > 0 and (self._span or seconds is not None):
            fields["since"] = step - steps
        others = _named(self._others, line)
        fields["others"] = {n: value for n, value in others.items() if value != self._none.get(n)}
        stated = "step_time" in fields or "throughput" in fields
        fields["step"] = step
        return fields if stated or (seconds is not None and since is None) else None

    def _step(self, line: str) -> Optional[int]:
        """Return the step of a line; None if it has no step, or more than one."""
        for template in self._steps:
            places = template.findall(line)
            if places:
                step = _value(places[0])
                if "e" in places[0].group("figure"):
                    step = self._exact(step, line)
                return int(step) if len(places) == 1 and 0 <= step < 1e18 else None
        return None

    def _exact(self, rounded: float, line: str) -> float:
        """Return the step of a progress bar; -1 if it differs from the rounded step."""
        if not self._bar:
            return -1
        epoch, count, steps = (figure(each, line) or 0 for each in self._bar)
        steps_of_bar = (epoch * steps + count, count)
        return next((n for n in steps_of_bar if abs(n - rounded) <= ROUNDED * rounded), -1)


def _by_name(document: Mapping[str, Any], key: str) -> List[Tuple[str, List[Template]]]:
    return [(name, compiled(templates)) for name, templates in document.get(key, {}).items()]


def _named(figures: Sequence[Tuple[str, List[Template]]], line: str) -> Fields:
    found: Fields = {}
    for name, templates in figures:
        value = figure(templates, line)
        if value is not None:
            found[name] = value
    return found
