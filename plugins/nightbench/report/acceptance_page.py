"""How the modes of the lines stand on a cluster, as one HTML page without scripts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from nightbench.report.run_report import templates

Mode = Mapping[str, Any]
"""A mode as `nightbench accept --json` prints it."""

CLASSES = {
    "passed": "ok",
    "failed": "failed",
    "not told": "quarantined",
    "due": "watched",
    "skipped": "soft",
}
"""Outcome -> class of the stylesheet, in the order of the counts."""


@dataclasses.dataclass(frozen=True)
class LineSection:
    """What the page shows of a line."""

    name: str
    said: str
    """Builds and drivers of its results."""
    shapes: Sequence[str]
    rows: Sequence[tuple[str, Mapping[str, Mode | None]]]
    """What a mode is beside its strategy -> shape -> how it stands."""
    open: Sequence[Mode]
    """What failed, is not told, or is due again."""
    skipped: Sequence[Mode]


def acceptance_page(cluster: str, modes: Sequence[Mode], written_at: datetime) -> str:
    """Return the page."""
    counts = Counter(mode["outcome"] for mode in modes)
    by_line = groupby(modes, key=lambda mode: mode["line"])
    return (
        templates()
        .get_template("acceptance.html")
        .render(
            cluster=cluster,
            counts=[(word, counts[word]) for word in CLASSES if counts[word]],
            classes=CLASSES,
            lines=[_section(name, list(each)) for name, each in by_line],
            written_at=written_at.astimezone(UTC),
        )
    )


def _section(name: str, modes: Sequence[Mode]) -> LineSection:
    tried = [mode for mode in modes if mode["strategy"] is not None]
    rows: dict[str, dict[str, Mode]] = {}
    for mode in tried:
        beside = mode["mode"].removeprefix(mode["strategy"]).strip() or "fp32"
        rows.setdefault(beside, {})[_shape(mode)] = mode
    shapes = list(dict.fromkeys(map(_shape, tried)))
    return LineSection(
        name,
        _said(tried),
        shapes,
        [(beside, {shape: of.get(shape) for shape in shapes}) for beside, of in rows.items()],
        [mode for mode in tried if mode["last"] and mode["outcome"] not in ("passed", "skipped")],
        [mode for mode in modes if mode["outcome"] == "skipped"],
    )


def _shape(mode: Mode) -> str:
    return f"{mode['strategy'].replace('_', ' ')} {mode['devices']}"


def _said(tried: Sequence[Mode]) -> str:
    told = {
        (each["build_id"], each["driver"], each["framework_version"])
        for mode in tried
        if (each := mode["last"])
    }
    # What failed before it told its version is no other build.
    builds = {(build, driver) for build, driver, version in told if version}
    found = {
        f"{build} {version or ''}".strip() + (f", driver {driver}" if driver else "")
        for build, driver, version in told
        if version or (build, driver) not in builds
    }
    return "; ".join(sorted(found)) or "Nothing was tried yet."
