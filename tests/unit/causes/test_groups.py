"""One cause is one group, in whatever order its alerts are looked at."""

from dataclasses import replace
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from nightbench.causes import CauseFacts, Member, explain, grouped
from nightbench.core.model.alerts import CauseKind

NIGHT = date(2026, 3, 21)
ONE = Member(1, "lab", CauseKind.NODE, "n1", NIGHT)


def test_the_same_suspect_one_night_apart_is_one_group() -> None:
    later = replace(ONE, alert_id=2, night=NIGHT + timedelta(days=1))
    found = grouped([later, ONE])
    assert found[1] == found[2] == "lab/node/n1/2026-03-21"


def test_what_differs_is_another_group() -> None:
    others = [
        replace(ONE, alert_id=2, cluster="farm"),
        replace(ONE, alert_id=3, kind=CauseKind.THERMAL),
        replace(ONE, alert_id=4, suspect="n2"),
        replace(ONE, alert_id=5, night=NIGHT + timedelta(days=2)),
    ]
    found = grouped([ONE, *others])
    assert len(set(found.values())) == 5


def test_the_unexplained_stands_on_its_own() -> None:
    nothing = replace(ONE, kind=CauseKind.UNEXPLAINED, suspect="")
    assert grouped([nothing, replace(nothing, alert_id=2)]) == {1: "", 2: ""}


def test_what_comes_a_night_later_goes_to_the_group_that_is_there() -> None:
    known = replace(ONE, group="lab/node/n1/2026-03-21")
    late = replace(ONE, alert_id=9, night=NIGHT + timedelta(days=1))
    assert grouped([late], [known]) == {9: known.group}


members = st.builds(
    Member,
    alert_id=st.integers(1, 10_000),
    cluster=st.sampled_from(["lab", "farm"]),
    kind=st.sampled_from(list(CauseKind)),
    suspect=st.sampled_from(["", "n1", "n2", "pytorch 1 -> 2"]),
    night=st.integers(0, 6).map(lambda days: NIGHT + timedelta(days=days)),
)
many = st.lists(members, max_size=30, unique_by=lambda m: m.alert_id)


@given(many, st.randoms())
def test_the_order_of_alerts_changes_nothing(found: list[Member], random: object) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)
    assert grouped(shuffled) == grouped(found)


@given(many)
def test_a_group_has_one_suspect_and_what_was_grouped_stays(found: list[Member]) -> None:
    groups = grouped(found)
    kept = [replace(member, group=groups[member.alert_id]) for member in found]
    for one in kept:
        for other in kept:
            if one.group and one.group == other.group:
                assert (one.cluster, one.kind, one.suspect) == (
                    other.cluster,
                    other.kind,
                    other.suspect,
                )
                assert abs((one.night - other.night).days) <= 2
    assert grouped(found, kept) == groups


@given(many)
def test_the_same_facts_give_the_same_group(found: list[Member]) -> None:
    twins = [replace(member, alert_id=member.alert_id + 20_000) for member in found]
    groups = grouped([*found, *twins])
    for member in found:
        assert groups[member.alert_id] == groups[member.alert_id + 20_000]


@given(st.data())
def test_the_same_facts_give_the_same_suspect(data: st.DataObject) -> None:
    from tests.unit.causes.test_explain import CASES

    facts: CauseFacts = data.draw(st.sampled_from([given for given, _, _ in CASES.values()]))
    mixed = replace(
        facts,
        case_id="another",
        peers=tuple(data.draw(st.permutations(facts.peers))),
        controls=tuple(data.draw(st.permutations(facts.controls))),
    )
    one, other = explain(facts), explain(mixed)
    assert (one.kind, one.suspect, one.sentence) == (other.kind, other.suspect, other.sentence)
