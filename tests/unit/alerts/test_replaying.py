"""A replay raises the alerts that the nights would have raised, and labels are counted right."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from nightbench.alerts.backtest import PastSeries, backtest
from nightbench.alerts.replay import (
    LabelledAlert,
    RaisedAlert,
    label_of,
    only_in,
    replay,
    score,
)
from nightbench.cli.grade import policy_changes
from nightbench.core.errors import UserError
from nightbench.core.model import HistoryPoint, RegressionPolicy
from nightbench.detection import ChangeDetector

FIRST = datetime(2026, 1, 1, 1, tzinfo=UTC)
SERIES = ("a", "local")
DETECTOR = ChangeDetector(with_smallest=False)
FALL = [100.0] * 40 + [90.0] * 20 + [100.0] * 30
"""Falls on night 40, recovers on night 60."""


def night(number: int) -> datetime:
    return FIRST + timedelta(days=number)


def nights(levels: Sequence[float], noise: float = 0.005, seed: int = 3) -> list[HistoryPoint]:
    rng = random.Random(seed)
    return [
        HistoryPoint(night(k), level * (1 + rng.gauss(0, noise)), f"r{k}")
        for k, level in enumerate(levels)
    ]


def raised(number: int, case_id: str = "a") -> RaisedAlert:
    return RaisedAlert(case_id, "local", night(number), None, -0.1, "")


def labelled(
    alert_id: int, opened: int, last: int, is_true: bool, case_id: str = "a"
) -> LabelledAlert:
    return LabelledAlert(alert_id, case_id, "local", night(opened), night(last), is_true)


# --- replaying --------------------------------------------------------------------------------


def test_one_fall_is_one_alert_that_ends_with_its_recovery() -> None:
    (alert,) = replay(SERIES, nights(FALL), RegressionPolicy(), DETECTOR)
    assert night(41) <= alert.at <= night(43)
    assert alert.since == night(40)
    assert alert.change == pytest.approx(-0.1, abs=0.02)
    assert alert.ended_at is not None
    assert night(60) <= alert.ended_at <= night(64)


def test_an_alert_that_goes_on_has_no_end() -> None:
    (alert,) = replay(SERIES, nights(FALL[:55]), RegressionPolicy(), DETECTOR)
    assert alert.ended_at is None


def test_each_key_of_a_policy_decides_what_is_raised() -> None:
    points = nights(FALL)
    assert replay(SERIES, points, RegressionPolicy(min_change=0.15), DETECTOR) == []
    assert replay(SERIES, points, RegressionPolicy(min_history=70), DETECTOR) == []
    wild = nights([100.0] * 60 + [60.0] * 10, noise=0.06)
    assert len(replay(SERIES, wild, RegressionPolicy(max_spread=0.5), DETECTOR)) == 1
    assert replay(SERIES, wild, RegressionPolicy(max_spread=0.01), DETECTOR) == []


def test_alerts_of_nights_before_are_not_told_again() -> None:
    points = nights(FALL)
    assert len(replay(SERIES, points, RegressionPolicy(), DETECTOR, night(39))) == 1
    assert replay(SERIES, points, RegressionPolicy(), DETECTOR, night(48)) == []


def test_a_replay_knows_nothing_of_later_nights() -> None:
    points = nights(FALL)
    (whole,) = replay(SERIES, points, RegressionPolicy(), DETECTOR)
    opened = next(k for k, point in enumerate(points) if point.at == whole.at)
    (then,) = replay(SERIES, points[: opened + 1], RegressionPolicy(), DETECTOR)
    assert (then.at, then.since, then.sentence) == (whole.at, whole.since, whole.sentence)
    assert replay(SERIES, points[:opened], RegressionPolicy(), DETECTOR) == []


# --- labels -----------------------------------------------------------------------------------


def moved(to: str, by: str = "ada", why: str = "") -> dict[str, str]:
    return {"what": "moved", "to_state": to, "by_whom": by, "why": why}


@pytest.mark.parametrize(
    ("events", "dismissed_as", "label"),
    [
        ([], None, None),
        ([{"what": "opened", "to_state": "open", "by_whom": "nightbench", "why": "x"}], None, None),
        ([moved("acknowledged")], None, True),
        ([moved("resolved", why="fixed")], None, True),
        ([moved("resolved", "nightbench")], None, None),
        ([moved("acknowledged"), moved("resolved", "nightbench")], None, True),
        ([moved("dismissed")], "false_alarm", False),
        ([moved("dismissed", why="intended")], "false_alarm", False),
        ([moved("dismissed", why="false_alarm")], "intended", True),
        ([moved("dismissed")], "wont_fix", True),
        ([moved("dismissed"), moved("open")], None, None),
        ([moved("dismissed"), moved("open", "nightbench", "worse")], None, None),
        ([moved("acknowledged"), moved("dismissed")], "false_alarm", False),
    ],
)
def test_what_people_made_of_an_alert(
    events: list[dict[str, str]], dismissed_as: str | None, label: bool | None
) -> None:
    assert label_of(events, dismissed_as) is label


def test_right_false_missed_and_silenced_are_told_apart() -> None:
    known = [
        labelled(1, 10, 20, True),
        labelled(2, 60, 61, False),
        labelled(3, 100, 130, True),
        labelled(4, 200, 201, False),
    ]
    found = score([raised(12), raised(58), raised(150), raised(10, "b")], known)
    assert found.labels == {0: True, 1: False}
    assert (found.right, found.wrong, found.unlabelled) == (1, 1, 2)
    assert [each.alert_id for each in found.missed] == [3]
    assert [each.alert_id for each in found.silenced] == [4]
    assert (found.precision, found.recall, found.worst_precision) == (0.5, 0.5, 0.25)


def test_an_alert_is_the_same_while_the_labelled_one_lasts_and_only_once() -> None:
    known = [labelled(1, 10, 50, True)]
    assert score([raised(49)], known).recall == 1.0
    assert score([raised(70)], known).recall == 0.0
    assert score([raised(-5)], known).recall == 0.0
    twice = score([raised(45), raised(11)], known)
    assert twice.labels == {1: True}
    assert twice.unlabelled == 1


def test_without_labels_nothing_is_known() -> None:
    found = score([raised(1)], [])
    assert (found.precision, found.recall) == (None, None)
    assert score([], []).worst_precision is None


def test_what_one_raises_and_the_other_does_not() -> None:
    one, other = [raised(10), raised(50), raised(90)], [raised(14), raised(91), raised(50, "b")]
    assert only_in(one, other) == [raised(50)]
    assert only_in(other, one) == [raised(50, "b")]


def test_two_policies_side_by_side_over_what_people_said() -> None:
    small = [100.0] * 40 + [96.0] * 20
    pasts = [
        PastSeries(SERIES, "s", nights(FALL)),
        PastSeries(("b", "local"), "s", nights(small, noise=0.004)),
    ]
    known = [labelled(1, 42, 58, True), labelled(2, 43, 59, False, "b"), labelled(9, 5, 5, True)]
    heard: list[tuple[int, int, str]] = []
    found = backtest(
        pasts,
        known,
        lambda suite: RegressionPolicy(),
        {"min_change": 0.06},
        since=night(20),
        progress=lambda *said: heard.append(said),
    )
    assert (found.series, found.nights, len(found.labelled)) == (2, 70 + 40, 2)
    assert (found.current.precision, found.current.recall) == (0.5, 1.0)
    assert found.proposed is not None
    assert (found.proposed.precision, found.proposed.recall) == (1.0, 1.0)
    assert [each.alert_id for each in found.proposed.silenced] == [2]
    assert heard == [(0, 2, "a"), (1, 2, "b"), (2, 2, "")]


# --- what is asked for ------------------------------------------------------------------------


def test_a_policy_is_read_as_a_suite_s_file_says_it() -> None:
    asked = "min_change=2%, min_history=14, max_spread=20%"
    assert policy_changes(asked) == {"min_change": 0.02, "min_history": 14, "max_spread": 0.2}
    assert policy_changes("min_change=auto") == {"min_change": "auto"}
    assert policy_changes("") == {}


@pytest.mark.parametrize(
    "text",
    ["urgent=5%", "min_change", "min_change=2%,min_change=3%", "min_change=lots", "min_history=1"],
)
def test_what_is_no_policy(text: str) -> None:
    with pytest.raises(UserError, match="--policy"):
        policy_changes(text)
