"""Small plots of the site, as SVG without a script: a sparkline, and speed-up over devices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nightbench.report.tables import figure

_SPARK = (120, 28)
_SCALING = (340, 240)
_MARGIN = (40, 10, 10, 28)
"""Left, right, top, bottom."""


def sparkline(values: Sequence[float]) -> str:
    """Return the points of a polyline in a view box of 120 x 28."""
    width, height = _SPARK
    low, high = min(values), max(values)
    # Noise of a steady series is not blown up to the height of a fall.
    air = max(high - low, 0.04 * abs(high), 1e-9)
    middle = (low + high) / 2
    step = width / max(1, len(values) - 1)
    return " ".join(
        f"{step * i:.0f},{height / 2 - (value - middle) / air * (height - 6):.0f}"
        for i, value in enumerate(values)
    )


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


@dataclass(frozen=True)
class ScalingPlot:
    """Lines on two logarithmic axes; the diagonal is ideal."""

    lines: Sequence[ScalingLine]
    width: int = _SCALING[0]
    height: int = _SCALING[1]

    @property
    def ticks(self) -> list[tuple[int, float, float]]:
        """Numbers of devices, with their places on both axes."""
        numbers = sorted({n for line in self.lines for n, _ in line.points})
        return [(n, self._x(n), self._y(n)) for n in numbers]

    @property
    def drawn(self) -> list[tuple[str, str]]:
        """Label and points of each line."""
        return [
            (line.label, " ".join(f"{self._x(n)},{self._y(s)}" for n, s in line.speedups))
            for line in self.lines
        ]

    def _share(self, value: float) -> float:
        shown = [s for line in self.lines for point in line.speedups for s in point]
        low, high = math.log2(min(shown)), math.log2(max(shown))
        return (math.log2(value) - low) / (high - low)

    def _x(self, value: float) -> float:
        left, right, _, _ = _MARGIN
        return round(left + self._share(value) * (self.width - left - right), 1)

    def _y(self, value: float) -> float:
        _, _, top, bottom = _MARGIN
        return round(self.height - bottom - self._share(value) * (self.height - top - bottom), 1)
