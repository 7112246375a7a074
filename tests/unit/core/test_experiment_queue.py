"""The order of requested comparisons."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from nightbench.core.experiment_queue import Shares, ordered
from nightbench.core.model import ComparePolicy
from nightbench.core.model.experiments import NIGHT

BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
POLICY = ComparePolicy(person_s=3600, day_s=7200)


def waiting(
    number: int, person: str = "ada", priority: int = 0, takes_s: float = 600
) -> dict[str, Any]:
    """A row of `marts.fct_experiment`."""
    return {
        "experiment_id": number,
        "requested_by": person,
        "priority": priority,
        "kind": "compare",
        "queued_at": BEGAN + timedelta(minutes=number),
        "estimate_s": takes_s,
        "spent_s": 0.0,
    }


def order(
    *found: dict[str, Any], busy_s: float = 0.0, **spent: float
) -> list[tuple[int, float | None]]:
    planned = ordered(found, Shares(POLICY, spent), busy_s)
    return [(each.experiment_id, each.starts_in_s) for each in planned]


def test_the_oldest_goes_first_and_each_begins_when_those_before_have_ended() -> None:
    found = order(waiting(2, takes_s=60), waiting(1), waiting(3), busy_s=30)
    assert found == [(1, 30), (2, 630), (3, 690)]


def test_a_higher_priority_goes_before_an_older_request() -> None:
    found = order(waiting(1, priority=-1), waiting(2), waiting(3, priority=1))
    assert [number for number, _ in found] == [3, 2, 1]


def test_whoever_has_measured_less_goes_first_and_people_take_turns() -> None:
    queue = [waiting(1), waiting(2), waiting(3), waiting(4, "bob"), waiting(5, "bob")]
    assert [number for number, _ in order(*queue)] == [1, 4, 2, 5, 3]
    assert [number for number, _ in order(*queue, ada=700.0)] == [4, 5, 1, 2, 3]


def test_who_has_used_up_a_budget_waits_and_is_told_so() -> None:
    (bob, ada) = ordered([waiting(1), waiting(2, "bob")], Shares(POLICY, {"ada": 3600.0}))
    assert (bob.experiment_id, bob.place, bob.why) == (2, 1, "")
    assert (ada.experiment_id, ada.place, ada.starts_in_s) == (1, None, None)
    assert "the requester has measured 1 h" in ada.why
    assert "compare.person" in ada.why


def test_what_all_people_have_measured_is_limited_too() -> None:
    spent = {"ada": 3000.0, "eve": 3000.0, "cy": 1200.0}
    (bob,) = ordered([waiting(1, "bob")], Shares(POLICY, spent))
    assert (bob.place, "compare.day" in bob.why) == (None, True)


def test_a_queue_that_would_exceed_a_budget_is_cut_where_it_does() -> None:
    found = ordered([waiting(n, takes_s=1800) for n in (1, 2, 3)], Shares(POLICY))
    assert [each.place for each in found] == [1, 2, None]


def test_what_a_night_requests_goes_first_and_knows_no_budget() -> None:
    night = waiting(9, "nightbench", priority=NIGHT)
    spent = {"ada": 3600.0, "nightbench": 9e9}
    found = ordered([waiting(1, priority=1), night], Shares(POLICY, spent))
    assert [(each.experiment_id, each.place) for each in found] == [(9, 1), (1, None)]


def test_a_profile_follows_its_comparison_at_once() -> None:
    profile = {**waiting(3), "kind": "profile"}
    assert order(waiting(1, "bob"), waiting(2), profile, ada=60.0)[0] == (3, 0.0)
