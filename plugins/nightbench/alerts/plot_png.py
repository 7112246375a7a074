"""The plot of a series as a PNG for messages: neither mail clients nor chats show SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nightbench.core.model import HistoryPoint
from nightbench.core.plots import PlotArea, series_plot

_AREA = PlotArea(880, 340, left=78, right=18, top=60, bottom=34, steps=4, text=12)

MOST_POINTS = 120
"""Largest number of plotted nights, the latest ones."""


@dataclass(frozen=True)
class Picture:
    """A picture that is attached to a message."""

    name: str
    """File name, `.png`."""
    data: bytes


def picture(
    title: str,
    points: Sequence[HistoryPoint],
    unit: str = "",
    since: datetime | None = None,
    baseline: float | None = None,
) -> Picture | None:
    """Return the plot of a series.

    Args:
        title: is shown above the plot and becomes the file's name.
        points: oldest first; the last one is tonight's.
        unit: of work; the axis is in units per second.
        since: later nights are shown as bad.
        baseline: of the verdict, shown as a line.

    Returns:
        None if there are fewer than two nights.
    """
    shown = points[-MOST_POINTS:]
    if len(shown) < 2:
        return None
    marks = [] if since is None else [(since, f"since {since:%Y-%m-%d}", "bad")]
    dates, values = [point.at for point in shown], [point.value for point in shown]
    drawing, axes = series_plot(
        _AREA, dates, values, title, baseline=baseline, marks=marks, ink="soft"
    )
    drawing.write((_AREA.left, 20), title, 15, "text")
    drawing.write((_AREA.left, 38), f"{unit}/s" if unit else "units/s", 12)
    for point in shown:
        is_bad = since is not None and point.at >= since
        at = (axes.x(point.at.timestamp()), axes.y(point.value))
        drawing.dot(at, "bad" if is_bad else "accent", 4 if point is shown[-1] else 2.5)
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in title)
    return Picture(f"{name[:120]}.png", drawing.png())
