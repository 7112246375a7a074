"""What many series of a night share is one verdict and one alert, on a real PostgreSQL."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.sql.conftest import Rows
from tests.sql.nights import Inbox
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import case as sleeping
from tests.sql.spooled import near

from nightbench.core.model import Case, Run, VerdictKind
from nightbench.warehouse import Triage, Warehouse

ON_N1 = tuple(sleeping(batch) for batch in (1, 2, 3, 4, 5, 6))
ON_N2 = tuple(sleeping(batch) for batch in (11, 12, 13, 14, 15, 16))
FINGERPRINT = "nightbench.fingerprint/1"
FELL = 40
"""The first slow night, from 0."""


@dataclass
class Lab(Pipeline):
    """Nights of twelve cases; those of n1 become slower."""

    rng: random.Random = field(default_factory=lambda: random.Random(7))
    wanderers: tuple[Case, ...] = ()
    """So many nights on their node, as many on n1, which is slower by 6 %."""
    stay: int = 6

    def load(
        self,
        until: int,
        since: int = 0,
        fall: float = 0.04,
        noise: float = 0.004,
        early: tuple[int, ...] = (),
    ) -> Run:
        """Load nights; return the last one. The first fell so many nights `early`."""
        for night in range(since, until):
            run = self.given.run(night, suite="seeded")
            ahead = dict(zip(ON_N1, early, strict=False))
            came = [
                self._came(run, case, night + ahead.get(case, 0), fall, noise)
                for case in (*ON_N1, *ON_N2)
            ]
            self.loader.runs.load(self.given.batch(run, *came))
        return self.planned(run, [*ON_N1, *ON_N2])

    def _came(self, run, case: Case, night: int, fall: float, noise: float):
        is_slow = case in ON_N1 and night >= FELL
        place = "n1" if case in ON_N1 else "n2"
        if case in self.wanderers and night // self.stay % 2:
            place, fall, is_slow = "n1", 0.06, True
        level = 100 * (1 - fall if is_slow else 1) * math.exp(self.rng.gauss(0, noise))
        return near(self.given, run, case, level, nodes=(place,))

    def load_disturbed(
        self, until: int = 25, first: int = 0, since: int = 22, noise: float = 0.004
    ) -> Run:
        """Load nights of which the last have a slow node, a slow link and a slow build at once."""
        alone, toy = sleeping(1), replace(sleeping(1), framework="toy")
        groups = [
            (alone, ("n1",), 0.30, 3),
            (replace(alone, nodes=2, trainers=2), ("n3", "n4"), 0.23, 3),
            (toy, ("n2",), 0.20, 3),
            *((alone, (name,), 0.0, 2) for name in ("n2", "n3", "n4")),
        ]
        cases = [
            (replace(case, batch_size_per_device=10 * group + k), nodes, fall)
            for group, (case, nodes, fall, count) in enumerate(groups, start=1)
            for k in range(count)
        ]
        for night in range(first, until):
            run = self.given.run(night, suite="seeded")
            is_slow = night >= since
            came = []
            for case, nodes, fall in cases:
                level = 100 * (1 - fall * is_slow) * math.exp(self.rng.gauss(0, noise))
                changed: dict[str, Any] = {}
                if case.framework == "toy":
                    changed["framework_version"] = "2.1" if is_slow else "2.0"
                came.append(near(self.given, run, case, level, nodes=nodes, **changed))
            known = {f"fp-n{n}": {"schema": FINGERPRINT, "node": f"n{n}"} for n in range(1, 5)}
            self.loader.runs.load(replace(self.given.batch(run, *came), fingerprints=known))
        return self.planned(run, [case for case, _, _ in cases])


@pytest.fixture
def lab(pipeline: Pipeline) -> Lab:
    return Lab(**vars(pipeline))


def test_six_series_of_a_slow_node_are_one_alert_that_names_them(
    lab: Lab, reader: Warehouse, inbox: Inbox, rows: Rows
) -> None:
    result = lab.judge(lab.load(FELL + 3))

    fallen = {v.case_id for v in result.verdicts if v.kind is VerdictKind.REGRESSED}
    assert fallen == {case.case_id for case in ON_N1}
    (alert,) = reader.alerts.find()
    assert alert["sentence"].startswith("node n1: 6 of 6 series are slower by ")
    (message,) = inbox.messages
    assert "node n1: 6 of 6 series are slower by" in message["title"]
    assert all(case.case_id in message["message"] for case in ON_N1)
    (movement,) = rows("select * from marts.fct_shared_change")
    assert (movement["factor"], movement["name"]) == ("node", "n1")
    assert movement["low"] < -0.04 < movement["high"]
    assert movement["alert_id"] == alert["alert_id"]


def test_the_next_nights_and_a_second_judging_open_no_other(lab: Lab, reader: Warehouse) -> None:
    for night in range(FELL + 3, FELL + 8):
        run = lab.load(night, since=0 if night == FELL + 3 else night - 1)
        lab.judge(run)
        lab.judge(run)
    assert len(reader.alerts.find()) == 1


def test_a_movement_that_was_dismissed_stays_silent_for_all_its_series(
    lab: Lab, reader: Warehouse, triage: Triage
) -> None:
    lab.judge(lab.load(FELL + 3))
    (alert,) = reader.alerts.find()
    triage.move(alert["alert_id"], "dismissed", "the new power limit", "intended")
    lab.judge(lab.load(FELL + 4, since=FELL + 3))
    assert reader.alerts.find() == []


def test_a_fall_that_no_series_shows_alone_is_told(lab: Lab, reader: Warehouse) -> None:
    result = lab.judge(lab.load(FELL + 6, fall=0.015, noise=0.006))
    assert sum("clear only together with other series" in v.sentence for v in result.verdicts) >= 2
    (alert,) = reader.alerts.find()
    assert alert["sentence"].startswith("node n1: ")


def test_the_alert_of_a_series_that_fell_first_becomes_that_of_all_and_is_sent_again(
    lab: Lab, reader: Warehouse, inbox: Inbox
) -> None:
    lab.judge(lab.load(FELL, fall=0.08, early=(3,)))
    (first,) = reader.alerts.find()
    lab.judge(lab.load(FELL + 3, since=FELL, fall=0.08))
    (alert,) = reader.alerts.find()
    assert (alert["alert_id"], alert["case_id"]) == (first["alert_id"], ON_N1[0].case_id)
    assert alert["sentence"].startswith("node n1: 6 of 6 series are slower by ")
    alone, shared = inbox.messages
    assert "node n1" not in alone["title"]
    assert "node n1: 6 of 6 series are slower by" in shared["title"]


def test_alerts_of_two_series_that_fell_first_become_one_and_the_message_says_so(
    lab: Lab, reader: Warehouse, inbox: Inbox, rows: Rows
) -> None:
    lab.judge(lab.load(FELL, fall=0.08, early=(3, 3)))
    assert len(reader.alerts.find()) == 2
    result = lab.judge(lab.load(FELL + 3, since=FELL, fall=0.08))
    (alert,) = reader.alerts.find()
    assert alert["sentence"].startswith("node n1: 6 of 6 series are slower by ")
    (ended,) = {case.case_id for case in ON_N1[:2]} - {alert["case_id"]}
    assert result.resolved == (ended,)
    (move,) = rows("select * from marts.fct_alert_event where to_state = 'resolved'")
    assert move["why"].startswith("joined another alert: node n1: 6 of 6 series are slower by ")
    said = inbox.messages[-1]["message"]
    assert f"Resolved:\n- {ended}: now part of one alert: " in said
    lab.judge(lab.load(FELL + 4, since=FELL + 3, fall=0.08))
    assert [each["alert_id"] for each in reader.alerts.find()] == [alert["alert_id"]]


def test_a_series_that_changes_nodes_is_judged_by_node(lab: Lab, rows: Rows) -> None:
    lab.wanderers = ON_N2[:1]
    # The third stay on n1 begins.
    result = lab.judge(lab.load(32))
    (verdict,) = (v for v in result.verdicts if v.case_id == ON_N2[0].case_id)
    assert verdict.kind is VerdictKind.OK
    said = re.search(r"Levels by node: (\S+) on n1, (\S+) on n2\.$", verdict.sentence)
    assert said is not None, verdict.sentence
    assert [float(each) for each in said.groups()] == pytest.approx([94, 100], rel=0.01)
    assert abs(verdict.change or 0) < 0.02
    (stored,) = rows("select sentence from marts.fct_verdict where case_id = %s", verdict.case_id)
    assert stored["sentence"] == verdict.sentence


def test_what_a_series_shows_since_it_went_to_another_node_is_held(
    lab: Lab, reader: Warehouse
) -> None:
    lab.wanderers, lab.stay = ON_N2[:1], 30
    result = lab.judge(lab.load(34))
    (verdict,) = (v for v in result.verdicts if v.case_id == ON_N2[0].case_id)
    assert verdict.kind is VerdictKind.WATCHED
    said = r"change of -\d\.\d% started on \S+, when the series changed from n2 to n1\..+ night 4\."
    assert re.search(said, verdict.sentence)
    assert reader.alerts.find() == []


def test_a_slow_node_link_and_build_at_once_are_three_alerts_each_with_its_cause(
    lab: Lab, reader: Warehouse
) -> None:
    result = lab.judge(lab.load_disturbed())

    found = {alert["cause"]: alert for alert in reader.alerts.find()}
    assert {cause: alert["cause_suspect"] for cause, alert in found.items()} == {
        "node": "n1",
        "network": "local",
        "framework_version": "toy 2.0 -> 2.1",
    }
    assert len(reader.alerts.find()) == 3
    assert sum(verdict.kind is VerdictKind.REGRESSED for verdict in result.verdicts) == 9
    said = found["network"]["sentence"]
    assert said.startswith("the network of local: 3 of 3 series are slower by "), said


def test_they_are_where_nights_vary_by_three_percent_too(lab: Lab, reader: Warehouse) -> None:
    since = 20
    for until in range(since, since + 4):
        lab.judge(lab.load_disturbed(until + 1, until if until > since else 0, since, noise=0.03))
    assert {alert["cause"]: alert["cause_suspect"] for alert in reader.alerts.find()} == {
        "node": "n1",
        "network": "local",
        "framework_version": "toy 2.0 -> 2.1",
    }
    assert len(reader.alerts.find()) == 3
