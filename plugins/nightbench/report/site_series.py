"""A series of the site, and what its pages and JSON say of it. Pure."""

import json
import uuid
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

from nightbench.core.model import Suite
from nightbench.core.plots import PlotArea, scaling_plot, series_plot, sparkline
from nightbench.core.sentences import percent
from nightbench.report.tables import Row, figure


@dataclass(frozen=True)
class ScalingLine:
    """Throughput of the same work over more devices: (devices, throughput), ascending."""

    label: str
    points: tuple[tuple[int, float], ...]

    @property
    def speedups(self) -> list[tuple[int, float]]:
        """Devices, and throughput over that of the fewest, times these."""
        devices, throughput = self.points[0]
        return [(n, devices * value / throughput) for n, value in self.points]

    @property
    def cells(self) -> str:
        """Every point in words."""
        first = self.points[0]
        return "; ".join(
            f"{n}: {figure(value)} ({100 * value * first[0] / (first[1] * n):.0f} %)"
            for n, value in self.points
        )


RECENT = 30
"""Nights that a trend is of."""
ENDS = 5
"""Nights at both ends of a trend, whose medians are compared."""
SPARK = 30
"""Nights of a sparkline."""
LINES_DRAWN = 12
NEWEST_NIGHTS = 60
"""Nights of the first plot and of the table of a series' page."""
DRAWN = 730
"""Nights of its second plot; its JSON has all."""
_NEWEST = PlotArea(420, 280, left=58, right=12, top=32, bottom=28, steps=4, text=11)
_ALL = PlotArea(860, 320, left=64, right=12, top=32, bottom=28, steps=5, text=12)
_SIZE_AXES = ("nodes", "devices_per_node", "trainers")
"""Axes along which a line of a scaling plot runs."""
SITE = uuid.UUID("5d2c1a0e-7c1f-4a53-9b43-6a1d6f0c2f11")
"""Ids of the feed's entries are made from it and never change."""


@dataclass
class SiteSeries:
    """A series with what other pages show of it."""

    row: Row
    unit: str
    newest: float
    half_width: float | None
    version: str | None
    untried: str | None
    at: datetime
    trend: float | None
    recent: list[float]
    sides: list[tuple[str, float, float | None, str]]
    """Build, newest median with it, its half-width, and the definition of the work."""
    changes: Sequence[Row] = field(default_factory=list)

    @property
    def page(self) -> str:
        """Name of its page, without an ending."""
        return f"s/{self.row['cluster']}/{self.row['case_id']}"

    @property
    def label(self) -> str:
        """The case without its workload and line."""
        prefix = f"{self.row['workload']}-{self.row['framework']}-"
        return str(self.row["case_id"]).removeprefix(prefix)

    @property
    def spark(self) -> str:
        """A small plot of its newest nights."""
        return sparkline(self.recent)


def series_of(row: Row, points: Row, changes: list[dict[str, Any]]) -> SiteSeries:
    """Return a series from its nights, oldest first; changes get the builds on both sides."""
    values, versions, builds = points["median"], points["version"], points["build"]
    several: dict[str, set[str]] = defaultdict(set)
    for version, build in zip(versions, builds, strict=True):
        several[version or ""].add(build)
    sides: dict[str, tuple[str, float, float | None, str]] = {}
    nights: list[str] = []
    for i, value in enumerate(values):
        version, build = versions[i] or "", builds[i]
        # Add the build if the version does not contain it.
        side = f"{version} ({build})" if len(several[version]) > 1 or not version else version
        nights.append(side)
        sides[side] = (side, value, points["half_width"][i], points["definition"][i] or "")
    for change in changes:
        after = bisect_left(points["at"], int(change["since"].timestamp()))
        if 0 < after < len(nights) and nights[after] != nights[after - 1]:
            change["builds"] = (nights[after - 1], nights[after])
    return SiteSeries(
        row=row,
        unit=points["unit"],
        newest=values[-1],
        half_width=points["half_width"][-1],
        version=versions[-1],
        untried=row["untried"],
        at=datetime.fromtimestamp(points["at"][-1], UTC),
        trend=trend(values),
        recent=values[-SPARK:],
        sides=list(sides.values()),
        changes=changes,
    )


def trend(values: Sequence[float]) -> float | None:
    """Return the relative change over the last nights; None for a history that is too short."""
    recent = values[-RECENT:]
    if len(recent) < 2 * ENDS:
        return None
    return median(recent[-ENDS:]) / median(recent[:ENDS]) - 1


def scaling(series: Sequence[SiteSeries]) -> Iterator[tuple[str, Sequence[ScalingLine], str]]:
    """Yield lines and their plot for each cluster that measured the same work on several sizes."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    labels: dict[tuple[str, str], str] = {}
    for one in series:
        work = {k: x for k, x in one.row["axes"].items() if k not in _SIZE_AXES}
        key = (one.row["cluster"], json.dumps(work, sort_keys=True))
        found[key].append((one.row["trainers"], one.newest))
        size = f"{one.row['axes']['nodes']}x{one.row['axes']['devices_per_node']}-"
        labels.setdefault(key, one.label.replace(size, "", 1))
    plots: dict[str, list[ScalingLine]] = defaultdict(list)
    for key, points in found.items():
        best = {n: max(v for m, v in points if m == n) for n, _ in points}
        if len(best) > 1:
            plots[key[0]].append(ScalingLine(labels[key], tuple(sorted(best.items()))))
    for cluster, lines in sorted(plots.items()):
        widest = sorted(lines, key=lambda line: (-line.points[-1][0], line.label))[:LINES_DRAWN]
        yield cluster, widest, scaling_plot([(line.label, line.speedups) for line in widest])


def series_plots(one: SiteSeries, points: Row) -> list[tuple[str, str]]:
    """Return captions and plots: the newest nights, and all if there are more."""
    number = len(points["at"])
    found = [
        (
            f"The newest {min(number, NEWEST_NIGHTS)} nights",
            _plot(one, points, _NEWEST, NEWEST_NIGHTS),
        )
    ]
    if number > NEWEST_NIGHTS:
        found.append((f"{min(number, DRAWN)} nights", _plot(one, points, _ALL, DRAWN)))
    return found


def _plot(one: SiteSeries, points: Row, area: PlotArea, nights: int) -> str:
    shown = {name: list(x[-nights:]) for name, x in points.items() if isinstance(x, list)}
    dates = [datetime.fromtimestamp(at, UTC) for at in shown["at"]]
    marks = [
        (dates[i], "work" if name == "definition" else str(value), "soft")
        for name in ("version", "node_names", "definition")
        for i, value in value_starts(shown[name])
        if i
    ]
    for each in one.changes:
        said = "" if each["metric"] == "throughput" else f" {each['metric'].replace('_', ' ')}"
        if each["since"] >= dates[0]:
            marks.append((each["since"], percent(each["change"], signed=True) + said, "bad"))
    values, low, high = shown["median"], shown["low"], shown["high"]
    label = (
        f"Medians of {len(dates)} nights with the range of their repeats; the table has its values"
    )
    drawing, axes = series_plot(area, dates, values, label, ranges=(low, high), marks=marks)
    for i, (date, value) in enumerate(zip(dates, values, strict=True)):
        title = (
            f"{date:%Y-%m-%d}: {figure(value)} {one.unit}/s, {figure(low[i])} to "
            f"{figure(high[i])}, n {shown['n'][i]}, version {shown['version'][i]}"
        )
        if nights == NEWEST_NIGHTS:
            drawing.dot((axes.x(date.timestamp()), axes.y(value)), "accent", 2.5, title=title)
    return drawing.svg()


def work_digest(row: Row) -> str:
    """Return what two lines have to share to be compared, short."""
    axes = {k: x for k, x in row["axes"].items() if k != "framework"}
    return uuid.uuid5(SITE, json.dumps(axes, sort_keys=True)).hex[:12]


def value_starts(values: Sequence[Any]) -> list[list[Any]]:
    """Return from which night on each value holds."""
    return [
        [i, x] for i, x in enumerate(values) if x is not None and (i == 0 or values[i - 1] != x)
    ]


def version_key(text: str) -> list[tuple[int, int | str]]:
    """Return what versions are sorted by: numbers as numbers."""
    parts = text.replace("-", ".").replace("+", ".").split(".")
    return [(1, int(part)) if part.isdigit() else (0, part) for part in parts]


def five_digits(value: float | None) -> float | None:
    """Return a value rounded to five significant digits."""
    return None if value is None else float(f"{value:.5g}")


def series_document(one: SiteSeries) -> dict[str, Any]:
    """Return a series as JSON, without its nights."""
    return {
        "page": f"{one.page}.html",
        **{name: one.row[name] for name in ("case_id", "cluster", "workload", "framework")},
        "median": five_digits(one.newest),
        "unit": f"{one.unit}/s",
        "half_width": five_digits(one.half_width),
        "trend": None if one.trend is None else round(one.trend, 4),
        "version": one.version,
        "at": one.at.isoformat(),
        "is_synthetic": one.row["is_synthetic"],
        "untried": one.untried,
    }


_CHANGE = (
    *("alert_id", "page", "state", "opened_at", "since", "closed_at", "metric", "change"),
    *("change_low", "change_high", "confirmation", "confirmation_ratio", "confirmation_low"),
    *("confirmation_high", "confirmation_rounds", "builds", "cause", "cause_sentence"),
    *("notes", "with"),
)
_REFERENCE = (
    *("source_document", "figure", "workload", "framework_text", "published_version"),
    *("published_device", "nodes", "devices_per_node", "trainers", "batch_size_per_device"),
    *("precision", "variant_text", "unit", "published_value", "remark"),
)


def change_document(row: Row) -> dict[str, Any]:
    """Return a change as JSON."""
    return {name: row[name] for name in _CHANGE}


def reference_document(row: Row) -> dict[str, Any]:
    """Return a cell of a public table as JSON."""
    return {name: row[name] for name in _REFERENCE}


def our_figure(row: Row) -> dict[str, Any]:
    """Return the measured median that matches a published value, as JSON."""
    return {
        "page": f"s/{row['cluster']}/{row['case_id']}.html",
        "value": five_digits(row["measured_value"]),
        "is_synthetic": row["measured_is_synthetic"],
    }


def suite_document(suite: Suite) -> dict[str, Any]:
    """Return how a suite measures, as JSON."""
    publish, protocol = suite.publish, suite.protocol
    return {
        "suite": suite.name,
        "cluster": suite.cluster,
        "scale": suite.scale,
        "schedule": suite.schedule,
        "warmup_steps": protocol.warmup_steps,
        "measured_steps": protocol.measured_steps,
        "repeats": protocol.repeats,
        "min_repeats": protocol.min_repeats,
        "confidence": protocol.confidence,
        "reported_from": suite.policy.reported_from,
        "owner": suite.owner if publish and publish.owner else None,
        "description": suite.description if publish and publish.notes else None,
    }
