"""A suite whose framework gets slower with a version: its releases, its nights, its history."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from tests.integration.live_airflow import CLUSTER, Live, live_airflow
from tests.integration.toy_line import installing_from, make_benchmarks, make_wheel
from tests.sql.nights import Inbox, receiving

from nightbench.core.model import Case, Strategy

SUITE = "incident"
NIGHTLY = f"nightly_{SUITE}"
STEP_S, SLOW_S = 0.1, 0.2
"""Far apart: what other work on this machine adds to a sleep is small beside it."""
MIN_CHANGE, NOISE = 0.2, 0.02
GOOD, LAST_GOOD, FIRST_BAD, BAD, FIXED = "1.10.0", "1.11.0", "1.12.0", "1.13.0", "1.14.0"
RELEASES = {
    GOOD: STEP_S,
    LAST_GOOD: STEP_S,
    FIRST_BAD: SLOW_S,
    "1.12.1": SLOW_S,
    BAD: SLOW_S,
    FIXED: STEP_S,
}
BATCH = 2
TOY, FAKE = (
    Case("sleep", line, Strategy.COLLECTIVE, batch_size_per_device=BATCH, scale="smoke")
    for line in ("toy", "fake")
)
"""The one that falls, and another framework on the same node that does not."""
NIGHTS_BEFORE = 30
SEED = 7


def suite(inbox: Inbox, version: str, zone: str, at: datetime, **more: Any) -> dict[str, Any]:
    """What of the suite's file is its own: a version, a clock, and when its night begins.

    A DAG whose schedule says another minute, one that has just gone by, gets its next run at once.
    """
    fields = {
        "builds": {TOY.framework: {"version": version}},
        # The drop is large, and still waits for the night's message.
        "policy": {"min_change": f"{MIN_CHANGE:.0%}", "max_spread": "30%", "urgent": "90%"},
        "schedule": f"{at.minute} {at.hour} * * *",
        "night": {"window": f"12:00-11:59 {zone}"},
        "alerts": [inbox.url],
        **more,
    }
    env = f'{{FAKE_STEP_S: "{STEP_S}"}}\n{yaml.safe_dump(fields)}'
    return {"framework": "toy, fake", "devices": "1x1", "steps": 10, "repeats": 3, "env": env}


def history(path: Path, slow_nights: int = 0) -> Path:
    """A site's older results: nights of both frameworks, the last one yesterday."""
    rng, now = random.Random(SEED), datetime.now(UTC)
    with path.open("w", newline="", encoding="utf-8") as handle:
        table = csv.writer(handle)
        axes = ["cluster", "workload", "framework", "strategy", "batch_size_per_device", "scale"]
        table.writerow(["at", *axes, "throughput", "unit", "suite", "framework_version", "n"])
        for age in range(NIGHTS_BEFORE, 0, -1):
            at = (now - timedelta(days=age)).isoformat(timespec="seconds")
            of_toy = BAD if age <= slow_nights else GOOD
            for case, version, step_s in ((TOY, of_toy, RELEASES[of_toy]), (FAKE, "1.0", STEP_S)):
                value = BATCH / step_s * (1 + rng.gauss(0, NOISE))
                named = ["local", case.workload, case.framework, case.strategy, BATCH, case.scale]
                table.writerow([at, *named, value, "samples", SUITE, version, 3])
    return path


@contextmanager
def watched(
    folder: Path, began: datetime, version: str, **more: Any
) -> Iterator[tuple[Live, Inbox]]:
    """A stack with the suite, whose nodes can install all releases, and a webhook."""
    wheels = folder / "wheels"
    made = {each: make_wheel(wheels, each, step_s) for each, step_s in RELEASES.items()}
    benchmarks = make_benchmarks(folder / "benchmarks", made[GOOD])
    with receiving() as inbox:
        first: Mapping[str, Any] = {SUITE: suite(inbox, version, "UTC", began, **more)}
        with live_airflow(first, installing_from(CLUSTER, wheels), benchmarks) as live:
            yield live, inbox
