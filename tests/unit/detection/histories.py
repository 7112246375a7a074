"""Seeded histories: nights with normal noise around a level, and levels put one after another."""

import random
from datetime import UTC, datetime, timedelta

from nightbench.core.model import HistoryPoint

FIRST = datetime(2026, 1, 1, 1, tzinfo=UTC)


def nights(*levels, noise=0.005, seed=1, **attributes):
    """One point for each level given, with relative `noise`; point k is night k from `FIRST`."""
    rng = random.Random(seed)
    return [
        HistoryPoint(
            at=FIRST + timedelta(days=k),
            value=level * (1 + rng.gauss(0, noise)),
            run_id=f"nightly-{k}",
            **attributes,
        )
        for k, level in enumerate(levels)
    ]
