"""One member of a movement alerts, the others are silent; who changed by itself is not."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from nightbench.alerts.alert_changes import LiveAlert, alerts_for
from nightbench.alerts.shared_alerts import LiveSharedChange, share_alerts
from nightbench.core.model import Verdict, VerdictKind
from nightbench.detection.factors import Factor, FactorKind, SharedChange

SINCE = datetime(2026, 3, 1, 1, tzinfo=UTC)
LINE = Factor(FactorKind.LINE, "paddle3")
MEMBERS = {"a": -0.04, "b": -0.05, "c": -0.03}
MOVEMENT = SharedChange(LINE, SINCE.date(), -0.04, -0.045, -0.035, MEMBERS, 4, (0, 2), 3.0)


def fell(case_id, catches):
    return Verdict(
        case_id,
        "lab",
        "night-1",
        VerdictKind.REGRESSED,
        "It fell.",
        value=96.0,
        baseline=100.0,
        smallest_slowdown=catches,
        since=SINCE,
    )


VERDICTS = [fell("a", 0.03), fell("b", 0.02), fell("c", 0.01), fell("other", 0.01)]


def loud(shared):
    return [v.case_id for v in shared.verdicts if v.kind is VerdictKind.REGRESSED]


def standing(case_id="b", since=date(2026, 3, 2)):
    return [LiveSharedChange(7, case_id, LINE, since, MEMBERS)]


def test_the_least_noisy_member_speaks_for_all_and_names_them():
    shared = share_alerts(VERDICTS, [MOVEMENT], [])
    assert loud(shared) == ["c", "other"]
    (told,) = [v for v in shared.verdicts if v.case_id == "c"]
    assert told.sentence.startswith(
        "line paddle3: 3 of 4 series are slower by 4.0% (90% interval 3.5% to 4.5%)"
    )
    assert "b -5.0%, a -4.0%, c -3.0%" in told.sentence


def test_a_noisy_member_and_one_that_changed_by_itself_do_not_speak_for_the_others():
    shared = share_alerts(VERDICTS, [MOVEMENT], [], own={"b"}, noisy={"c"})
    assert loud(shared) == ["a", "b", "other"]
    assert shared.lead == {0: "a"}


def test_the_member_that_has_the_alert_keeps_it():
    assert loud(share_alerts(VERDICTS, [MOVEMENT], standing())) == ["b", "other"]


def test_on_a_night_that_does_not_show_the_movement_its_members_stay_silent():
    assert loud(share_alerts(VERDICTS, [], standing())) == ["b", "other"]


def test_a_movement_of_weeks_ago_covers_no_new_fall():
    old = standing(since=date(2026, 2, 1))
    assert loud(share_alerts(VERDICTS, [MOVEMENT], old)) == ["b", "c", "other"]


ALERT = LiveAlert("b", "lab", VerdictKind.REGRESSED, 95.0, 100.0, 7)


def test_a_member_that_has_an_alert_of_the_fall_keeps_it_for_all():
    shared = share_alerts(VERDICTS, [MOVEMENT], [], alerts=[ALERT])
    assert loud(shared) == ["b", "other"]
    assert shared.adopted == [ALERT]


FURTHER = replace(ALERT, case_id="c", alert_id=8)


def test_alerts_of_further_members_that_were_told_alone_end_as_part_of_it():
    live = [ALERT, replace(ALERT, case_id="a", alert_id=6), replace(FURTHER, case_id="other")]
    shared = share_alerts(VERDICTS, [MOVEMENT], [], alerts=live)
    assert (shared.lead, shared.joined) == ({0: "b"}, {6: MOVEMENT.sentence})


def test_a_member_that_is_told_after_its_movement_is_part_of_it_too():
    shared = share_alerts(VERDICTS, [MOVEMENT], standing(), alerts=[ALERT, FURTHER])
    assert (shared.lead, shared.joined) == ({0: "b"}, {8: MOVEMENT.sentence})


@pytest.mark.parametrize("apart", ["own", "noisy", "earlier", "dismissed", "standing"])
def test_an_alert_of_something_else_is_no_part_of_it(apart):
    told = {
        "earlier": replace(FURTHER, value=110.0, baseline=120.0),
        "dismissed": replace(FURTHER, is_dismissed=True),
    }.get(apart, FURTHER)
    others = [replace(standing("c")[0], alert_id=8, factor=Factor(FactorKind.NODE, "n1"))]
    known = [*standing(), *(others if apart == "standing" else [])]
    more = {apart: {"c"}} if apart in ("own", "noisy") else {}
    shared = share_alerts(VERDICTS, [MOVEMENT], known, alerts=[ALERT, told], **more)
    assert shared.joined == {}


def test_the_alert_of_another_movement_is_not_taken_up():
    of_node = [replace(standing()[0], factor=Factor(FactorKind.NODE, "n1"), members={"b": -0.05})]
    shared = share_alerts(VERDICTS, [MOVEMENT], of_node, alerts=[ALERT])
    assert (shared.lead, shared.adopted) == ({0: "c"}, [])


def test_an_alert_of_an_earlier_fall_stays_apart():
    old = [replace(fell("b", 0.02), since=datetime(2026, 2, 1, 1, tzinfo=UTC)), *VERDICTS[2:]]
    shared = share_alerts(old, [MOVEMENT], [], alerts=[ALERT])
    assert shared.lead == {0: "c"}
    assert shared.adopted == []


def test_the_same_event_under_another_name_opens_no_second_alert():
    cluster = replace(MOVEMENT, factor=Factor(FactorKind.CLUSTER, "lab"))
    shared = share_alerts(VERDICTS, [cluster], standing(), alerts=[ALERT])
    assert (loud(shared), shared.lead) == (["b", "other"], {})


def test_an_alert_of_many_has_the_level_of_the_movement_not_of_one_night():
    lucky = [replace(fell("b", 0.02), value=104.0, baseline=96.0), *VERDICTS[2:]]
    shared = share_alerts(lucky, [MOVEMENT], standing(), alerts=[ALERT])
    (told,) = [v for v in shared.verdicts if v.case_id == "b"]
    assert (told.value, told.baseline, told.change) == (95.0, 100.0, -0.05)


@pytest.mark.parametrize(("part", "suspected"), [(0.9, []), (0.1, [(ALERT, "recovered")])])
def test_the_members_together_say_whether_it_recovered(part, suspected):
    own = {0.9: 101.0, 0.1: 95.0}[part]
    verdict = replace(fell("b", 0.02), kind=VerdictKind.OK, value=own, since=None)
    shared = share_alerts([verdict], [], standing(), alerts=[ALERT], remaining={7: part})
    assert alerts_for(shared.verdicts, [ALERT], SINCE).to_watch == suspected


def test_a_further_fall_of_the_one_that_has_the_alert_counts_as_its_own():
    further = replace(fell("b", 0.02), value=80.0, since=datetime(2026, 3, 20, 1, tzinfo=UTC))
    shared = share_alerts([further], [], standing(), alerts=[ALERT], remaining={7: 0.9})
    assert loud(shared) == ["b"]
