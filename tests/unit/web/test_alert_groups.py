"""How severe alerts are, and what hangs together."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.web.rows import alert

from nightbench.web.alert_groups import AlertGroup, group_alerts, least_loss


def fall(change: float | None, high: float | None = None, **more: Any) -> dict[str, Any]:
    return alert(change=change, change_high=high, **more)


@pytest.mark.parametrize(
    ("members", "level", "because"),
    [
        ([fall(None)], "high", "brings no figure any more"),
        ([fall(-0.15, -0.10)], "high", "loses 10.0 % at least"),
        ([fall(-0.15, -0.09)], "medium", "loses 9.0 % at least"),
        ([fall(-0.15, -0.02)], "low", "may lose less than 3 %"),
        ([fall(-0.15, -0.02, confirmation="confirmed")], "medium", "was confirmed"),
        ([fall(-0.15, -0.10, confirmation="not_confirmed")], "low", "was not confirmed"),
        ([fall(-0.15)], "medium", "loses 7.5 % at least"),
        ([fall(-0.04, -0.01)] * 2, "medium", "2 series fall together"),
        ([fall(-0.04, -0.01)] * 5, "high", "5 series fall together"),
        ([fall(0.04, 0.05)], "low", "may lose less than 3 %"),
    ],
)
def test_severity_is_by_certain_size_and_number(
    members: list[dict[str, Any]], level: str, because: str
) -> None:
    found = AlertGroup(tuple(members)).severity
    assert found.level == level
    assert found.because.startswith(because)


def test_the_worst_comes_first() -> None:
    rows = [
        fall(-0.04, -0.035, alert_id=1),
        fall(-0.04, -0.035, alert_id=2, group_key="node"),
        fall(-0.05, -0.035, alert_id=3, group_key="node"),
        fall(None, alert_id=4),
    ]
    groups = group_alerts(rows)
    assert [group.head["alert_id"] for group in groups] == [4, 3, 1]
    assert groups[1].loss == pytest.approx(0.07)
    onset = group_alerts(rows, "onset")
    assert [len(group.members) for group in onset] == [4]
    assert [len(group.members) for group in group_alerts(rows, "nothing")] == [1] * 4


def test_what_is_lost_for_certain() -> None:
    assert least_loss(fall(-0.1, -0.04)) == 0.04
    assert least_loss(fall(-0.1, 0.01)) == 0.0
    assert least_loss(fall(-0.1)) == 0.05
    assert least_loss(fall(None)) == 1.0
