"""Borrows the spread of a young series from its siblings: the same line and workload on a cluster.

The moderated variance of Smyth (Statistical Applications in Genetics and Molecular Biology 3,
2004): siblings' variances follow a scaled inverse chi-squared distribution. Its degrees of freedom,
from how much the siblings differ, are what it weighs beside a series' own nights. Siblings that
differ much lend nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightbench.detection.levels import estimate_level
from nightbench.detection.robust import Floats
from nightbench.detection.series import Series
from nightbench.detection.visits import Visits, earlier_visits

YOUNG = 30
"""Nights from which a series has a spread of its own."""

FEWEST, NIGHTS = 3, 90
"""Fewest siblings that lend; last nights of each whose spread is taken."""

AWAY = 4.0
"""Noise scales by which a sibling's visits lie lower: clearly another level."""

MOST = 60.0
"""Nights that siblings stand for at most."""

PER_NIGHT = 0.37
"""Degrees of freedom of a night's share in a median absolute deviation."""


@dataclass(frozen=True)
class Siblings:
    """What the siblings of a young series say of its spread."""

    noise: float
    """Relative standard deviation from night to night."""
    nights: float
    """Nights of its own that would say as much."""
    count: int
    visits: Visits
    """Those of one of them, in the mean, to a level `AWAY` lower."""

    def moderate(self, noise: float, nights: int) -> float:
        """Return a spread of so many own nights, with that of the siblings."""
        whole = self.nights * self.noise**2 + nights * noise**2
        return math.sqrt(whole / (self.nights + nights))


def siblings_of(grown: Sequence[Series]) -> Siblings | None:
    """Return what series say of another of their kind; None where they are too few."""
    if len(grown) < FEWEST:
        return None
    pasts = [estimate_level(series) for series in grown]
    logs: Floats = 2 * np.log(np.array([past.noise for past in pasts], dtype=float))
    # Of a sample as small as this one, more may be true than it shows.
    differ = float(logs.var(ddof=1)) * (len(logs) + 1) / (len(logs) - 1)
    differ -= float(np.mean([2 / (PER_NIGHT * len(series)) for series in grown]))
    freedom = min(2 / max(differ, 1e-9), PER_NIGHT * MOST)
    visits = [earlier_visits(past.distances / (-AWAY * past.noise), AWAY) for past in pasts]
    count, nights, elsewhere = (
        float(np.mean([getattr(each, name) for each in visits]))
        for name in ("count", "nights", "elsewhere")
    )
    return Siblings(
        math.exp(float(logs.mean()) / 2),
        freedom / PER_NIGHT,
        len(grown),
        Visits(count, nights, elsewhere, 0),
    )
