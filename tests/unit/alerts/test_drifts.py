"""When a drift is another one than that which stands, and when it is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nightbench.alerts.notes import drift_notes, is_new, quiet_nights
from nightbench.core.model import HistoryPoint

AT = datetime(2026, 3, 1, 1, tzinfo=UTC)
TOLD = {"change": -0.05, "level": 95.0, "is_news": True, "seen_at": AT}
SMALL = {"change": -0.02, "level": 98.0, "is_news": False, "seen_at": AT}
RISE = {"change": 0.04, "level": 104.0, "is_news": False, "seen_at": AT}


@pytest.mark.parametrize(
    ("drift", "standing", "new"),
    [
        pytest.param(SMALL, None, True, id="none-stands"),
        pytest.param(TOLD, TOLD, False, id="the-same"),
        pytest.param(TOLD, SMALL, True, id="large-enough-now"),
        pytest.param(SMALL, TOLD, False, id="it-shrank"),
        pytest.param(TOLD | {"level": 92.2}, TOLD, False, id="hardly-further"),
        # 3 % further: whatever its size, which is of 180 nights at most.
        pytest.param(TOLD | {"level": 92.1}, TOLD, True, id="crept-on"),
        pytest.param(TOLD | {"change": -0.08}, TOLD, False, id="a-longer-stretch"),
        pytest.param(RISE, TOLD, True, id="turned-up"),
        pytest.param(TOLD, RISE, True, id="turned-down"),
        pytest.param(RISE | {"change": 0.2, "level": 120.0}, RISE, False, id="rises-on"),
        # While it was noisy nobody was told, and now it is steady.
        pytest.param(TOLD, TOLD | {"is_news": False}, True, id="steady-again"),
        pytest.param(
            TOLD | {"is_news": False, "level": 80.0}, TOLD, False, id="noisy-and-further-down"
        ),
    ],
)
def test_what_is_news(drift: dict[str, Any], standing: dict[str, Any] | None, new: bool) -> None:
    assert is_new(drift, standing, 0.03) == new


def test_nights_since_it_was_seen_are_counted_with_tonight() -> None:
    nights = [HistoryPoint(AT + timedelta(days=day), 100.0, str(day)) for day in range(-3, 4)]
    # The night that saw it, judged again without it, is the first without it.
    assert quiet_nights(nights[:3], TOLD) == 1
    assert quiet_nights(nights, TOLD) == 4


def test_a_line_says_how_much_over_how_long() -> None:
    row = {"case_id": "a", "cluster": "lab", "change": -0.0729, "error": 0.0041, "nights": 150}
    assert drift_notes([row]) == [
        "a on lab: -7.3% (± 0.8%) over its last 150 nights, and none of these nights is a "
        "regression"
    ]
