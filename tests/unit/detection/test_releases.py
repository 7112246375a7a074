"""What a new version says of a change that begins with it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from nightbench.core.model import HistoryPoint, RegressionPolicy, VerdictKind
from nightbench.detection import ChangeDetector
from nightbench.detection.detector import SHARE, release_odds

NIGHTS, FALL = 60, 0.03


def points(versions: list[str | None], fall_from: int = 10_000) -> list[HistoryPoint]:
    """Nights that vary by 0.3 %, by a rule: no two tests see other noise."""
    start = datetime(2026, 1, 1, 1, tzinfo=UTC)
    level = [100 * (1 - FALL) if k >= fall_from else 100.0 for k in range(len(versions))]
    return [
        HistoryPoint(
            at=start + timedelta(days=k),
            value=level[k] * (1 + 0.003 * math.sin(12.9898 * (k + 1))),
            run_id=f"r{k}",
            n=5,
            spread=0.004,
            framework_version=version,
        )
        for k, version in enumerate(versions)
    ]


def told_after(versions: list[str | None]) -> int | None:
    """Slow nights until a fall at `NIGHTS` is a regression."""
    nights = points(versions, NIGHTS)
    for k in range(NIGHTS, len(nights)):
        judgement = ChangeDetector().judge(nights[:k], nights[k], RegressionPolicy())
        if judgement.kind is VerdictKind.REGRESSED:
            return k - NIGHTS + 1
    return None


@pytest.mark.parametrize(
    "versions",
    [[], ["1"], ["1"] * 9, [None] * 9, ["1", None] * 5, [str(k) for k in range(9)]],
    ids=["none", "one", "the same", "unknown", "half known", "another every night"],
)
def test_nothing_is_added_where_versions_say_nothing(versions: list[str | None]) -> None:
    assert not release_odds(points(versions)).any()


def test_the_rarer_a_release_the_more_it_says() -> None:
    seldom = release_odds(points(["1"] * 30 + ["2"] * 30))
    assert np.flatnonzero(seldom).tolist() == [30]
    assert seldom[30] == pytest.approx(math.log(SHARE * 60 / 2))
    often = release_odds(points([str(k // 7) for k in range(60)]))
    assert 0 < often[7] < seldom[30]


def test_a_fall_with_a_release_is_told_on_its_second_night_and_without_it_later() -> None:
    with_release = told_after(["1"] * NIGHTS + ["2"] * 10)
    without = told_after(["1"] * (NIGHTS + 10))
    # One at another time is no reason for it.
    before = told_after(["0"] * 20 + ["1"] * (NIGHTS - 10))
    assert with_release == 2
    assert without == before
    assert without is not None
    assert without > 2


def test_the_sentence_says_what_the_release_adds() -> None:
    nights = points(["1"] * NIGHTS + ["2"] * 2, NIGHTS)
    said = ChangeDetector().judge(nights[:-1], nights[-1], RegressionPolicy()).sentence
    assert "for the new version); reported above 0." in said
    assert "On that date the framework changed from 1 to 2: suspect this first." in said
