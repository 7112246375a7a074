"""How severe alerts are, and which come first."""

from __future__ import annotations

from typing import Any

import pytest

from nightbench.alerts.ranking import least_loss, ranks_of, severity_of
from nightbench.warehouse.alerts import worst_first


def fall(change: float | None, high: float | None = None, **more: Any) -> dict[str, Any]:
    return {
        "alert_id": 1,
        "group_key": None,
        "change": change,
        "change_low": None,
        "change_high": high,
        "metric": "throughput",
        "confirmation": None,
    } | more


@pytest.mark.parametrize(
    ("members", "level", "because"),
    [
        ([fall(None)], "high", "no longer yields a result"),
        ([fall(-0.15, -0.10)], "high", "loses 10.0 % at least"),
        ([fall(-0.15, -0.09)], "medium", "loses 9.0 % at least"),
        ([fall(-0.15, -0.02)], "low", "may lose less than 3 %"),
        ([fall(-0.15, -0.02, confirmation="confirmed")], "medium", "was confirmed"),
        ([fall(-0.15, -0.10, confirmation="not_confirmed")], "low", "was not confirmed"),
        ([fall(-0.15)], "medium", "loses 7.5 % at least"),
        ([fall(-0.04, -0.01)] * 2, "medium", "2 series drop together"),
        ([fall(-0.04, -0.01)] * 5, "high", "5 series drop together"),
        ([fall(0.04, 0.05)], "low", "may lose less than 3 %"),
        ([fall(0.05, metric="training")], "high", "trains differently from before"),
        # The loss before was 0: there is no relative change.
        ([fall(None, metric="training")], "high", "trains differently from before"),
        ([fall(0.05, metric="training", confirmation="not_confirmed")], "low", "was not confirmed"),
    ],
)
def test_severity_is_by_certain_size_and_number(
    members: list[dict[str, Any]], level: str, because: str
) -> None:
    found, why = severity_of(members)
    assert (found, why.startswith(because)) == (level, True)


def test_the_worst_group_and_the_worst_of_a_group_come_first() -> None:
    rows = [
        fall(-0.04, -0.035, alert_id=1),
        fall(-0.04, -0.035, alert_id=2, group_key="node"),
        fall(-0.05, -0.035, alert_id=3, group_key="node"),
        fall(None, alert_id=4),
        fall(-0.2, -0.15, alert_id=5, confirmation="not_confirmed"),
    ]
    ranks = ranks_of(rows)
    stored = {each.alert_id: vars(each) for each in ranks}
    groups = worst_first([row | stored[row["alert_id"]] for row in rows])
    assert [[row["alert_id"] for row in group] for group in groups] == [[4], [3, 2], [1], [5]]
    assert [group[0]["severity"] for group in groups] == ["high", "medium", "medium", "low"]
    # As where several read it, whatever the order of the rows.
    assert sorted(ranks_of(rows[::-1]), key=lambda each: each.alert_id) == sorted(
        ranks, key=lambda each: each.alert_id
    )


def test_groups_by_another_key_keep_the_order() -> None:
    rows = [
        {"alert_id": k, "rank": rank, "place": 1, "group_key": None, "cluster": cluster}
        for k, (rank, cluster) in enumerate([(1.5, "a"), (0.5, "b"), (0.2, "a")])
    ]
    groups = worst_first(rows, lambda row: row["cluster"])
    assert [[row["alert_id"] for row in group] for group in groups] == [[2, 0], [1]]


def test_what_is_lost_for_certain() -> None:
    assert least_loss(fall(-0.1, -0.04)) == 0.04
    assert least_loss(fall(-0.1, 0.01)) == 0.0
    assert least_loss(fall(-0.1)) == 0.05
    assert least_loss(fall(None)) == 1.0
