"""Regressions explained and grouped on a real PostgreSQL, by what the warehouse knows."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

import pytest
from psycopg2.extras import Json
from tests.sql.conftest import Database, Rows
from tests.sql.given import NIGHT, Given
from tests.sql.nights import FALLS, Inbox, history
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import case as sleeping

from nightbench.alerts.explain import store_causes
from nightbench.core.documents import from_document
from nightbench.core.model import (
    Case,
    Reason,
    ReasonCode,
    RegressionPolicy,
    Run,
    Verdict,
    VerdictKind,
)
from nightbench.core.model.alerts import CauseEvidence, CauseKind
from nightbench.core.sentences import evidence_sentence, sentence
from nightbench.nodes import Control, Finding, FindingLevel, JudgedNode, NodePreflight
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection

NIGHTS = 8
NIGHTS_BEFORE = 20
FELL = 6
"""The first bad night."""


@dataclasses.dataclass
class Lab:
    """A cluster with nights behind it, of which the last two are slow for some cases."""

    connection: Connection
    loader: Warehouse
    reader: Warehouse
    given: Given

    def nights(
        self,
        cases: dict[Case, bool],
        *,
        versions: dict[str, tuple[str, str]] | None = None,
        codes: tuple[str, str] = ("c1", "c1"),
        on: dict[Case, tuple[str, ...]] | None = None,
        fell_at: dict[Case, int] | None = None,
    ) -> Run:
        """Load nights and open what they say; the last run.

        Args:
            cases: case -> whether it fell.
            versions: framework -> its version before and since.
            codes: digest of the benchmarks before and since.
            on: case -> its nodes.
            fell_at: case -> first bad night.
        """
        for night in range(NIGHTS):
            run = self.given.run(night, code_digest=codes[night >= FELL])
            came = []
            for case, fell in cases.items():
                since = (fell_at or {}).get(case, FELL)
                level = 80.0 if fell and night >= since else 100.0
                version = (versions or {}).get(case.framework, ("1.0", "1.0"))[night >= FELL]
                batch = self.given.came_back(
                    run,
                    case,
                    (level * 0.99, level, level * 1.01),
                    nodes=(on or {}).get(case, ("n1",)),
                    framework_version=version,
                )
                came.append(batch)
            self.loader.runs.load(self.given.batch(run, *came))
        self.say(run, cases, fell_at or {})
        return run

    def say(self, run: Run, cases: dict[Case, bool], fell_at: dict[Case, int]) -> None:
        """Store the last night's verdicts and open its alerts."""
        verdicts = []
        for case, fell in cases.items():
            first = fell_at.get(case, FELL)
            verdict = Verdict(case.case_id, "local", run.run_id, VerdictKind.OK, "as ever", 100.0)
            if fell:
                verdict = dataclasses.replace(
                    verdict,
                    kind=VerdictKind.REGRESSED,
                    value=80.0,
                    baseline=100.0,
                    change=-0.2,
                    since=NIGHT + timedelta(days=first),
                    first_bad_run_id=self.given.run(first).run_id,
                    last_good_run_id=self.given.run(first - 1).run_id,
                )
            verdicts.append(verdict)
        self.loader.series.store_verdicts(verdicts)
        for verdict in verdicts:
            if verdict.kind is VerdictKind.REGRESSED:
                self.loader.alerts.open(verdict)

    def explained(self, run: Run) -> dict[str, dict[str, Any]]:
        """Rows of marts.fct_alert by case."""
        causes = Warehouse(self.connection).causes
        store_causes(causes, run, RegressionPolicy().min_change)
        return {row["case_id"]: row for row in self.reader.alerts.find()}

    def preflight(self, night: int, control: dict[str, float], **more: Any) -> None:
        """A look at both nodes before a night."""
        at = NIGHT + timedelta(days=night, minutes=5)
        findings: dict[str, Finding] = more.pop("findings", {})
        nodes = [
            JudgedNode(
                NodePreflight(
                    name,
                    "127.0.0.2:22",
                    at.isoformat(),
                    True,
                    document={
                        "boot_id": "b",
                        "gpus": [],
                        "cpu": {"governors": more.get("governors", ["performance"])},
                        "links": [],
                        "foreign": more.get("foreign", {"cpu_share": 0.0, "processes": []}),
                    },
                ),
                (findings[name],) if name in findings else (),
            )
            for name in ("n1", "n2")
        ]
        controls = [
            Control(name, "memory_copy", "cpu", "python-3.11", "GB/s", (value * 0.99, value))
            for name, value in control.items()
        ]
        run_id = self.given.run(night).run_id
        Warehouse(self.connection).nodes.store_preflight("local", run_id, nodes, controls, at)


@pytest.fixture
def lab(connection: Connection, loader: Warehouse, reader: Warehouse, given: Given) -> Lab:
    return Lab(connection, loader, reader, given)


def sentences_of(alert: dict[str, Any]) -> list[str]:
    return [evidence_sentence(from_document(CauseEvidence, each)) for each in alert["evidence"]]


def series(given: Given, framework: str, count: int) -> list[Case]:
    return [given.case(framework=framework, batch_size_per_device=2 + k) for k in range(count)]


def test_forty_series_of_one_release_are_one_group(lab: Lab, given: Given, rows: Rows) -> None:
    slow, steady = series(given, "pytorch", 40), series(given, "paddle3", 10)
    late = slow[7]
    run = lab.nights(
        dict.fromkeys(slow, True) | dict.fromkeys(steady, False),
        versions={"pytorch": ("2.13.0", "2.14.0")},
    )
    found = lab.explained(run)

    assert len(found) == 40
    assert {row["cause"] for row in found.values()} == {CauseKind.FRAMEWORK_VERSION}
    assert {row["cause_suspect"] for row in found.values()} == {"pytorch 2.13.0 -> 2.14.0"}
    assert len({row["group_key"] for row in found.values()}) == 1
    told = found[late.case_id]
    assert told["group_key"] == "local/framework_version/pytorch 2.13.0 -> 2.14.0/2026-03-07"
    assert "other frameworks on the same nodes were steady" in told["cause_sentence"]
    assert "39 other series of pytorch dropped too." in sentences_of(told)

    before = rows("select * from raw.alert_cause order by alert_id")
    lab.explained(run)
    assert rows("select * from raw.alert_cause order by alert_id") == before


def test_a_node_whose_controls_fell(lab: Lab, given: Given) -> None:
    one, two = series(given, "pytorch", 1)[0], series(given, "paddle3", 1)[0]
    both = given.case(nodes=2)
    other = series(given, "pytorch", 2)[1]
    run = lab.nights(
        {one: True, two: True, both: True, other: False},
        on={one: ("n1",), two: ("n1",), both: ("n1", "n2"), other: ("n2",)},
        # Slow only on the new version, were it not for the node.
        versions={"pytorch": ("2.13.0", "2.14.0")},
    )
    for night in range(NIGHTS):
        lab.preflight(night, {"n1": 2.0 if night < FELL else 1.4, "n2": 2.0})
    found = lab.explained(run)

    assert {row["cause"] for row in found.values()} == {CauseKind.NODE}
    assert {row["cause_suspect"] for row in found.values()} == {"n1"}
    assert len({row["group_key"] for row in found.values()}) == 1
    assert found[two.case_id]["cause_sentence"] == (
        "Node n1 is slow by itself: control measurements dropped too."
    )
    told = " ".join(sentences_of(found[one.case_id]))
    assert "memory_copy (cpu) of n1 to 70% of its earlier value" in told
    assert "The framework's version: the version of pytorch changed from 2.13.0 to 2.14.0" in told


def test_neighbours_that_disturbed_repeats(lab: Lab, given: Given, connection: Connection) -> None:
    case = series(given, "pytorch", 1)[0]
    run = lab.nights({case: True})
    work = "48% of the cores: make -j64 (pid 4711, user anna)"
    why = Json([Reason(ReasonCode.FOREIGN_CPU, "n1", None, work, "10% at most").to_json()])
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "update raw.repeat set status = 'disturbed', reasons = %s"
            " where repeat = 1 and run_at >= %s",
            (why, given.run(FELL).started_at),
        )
    (told,) = lab.explained(run).values()
    assert (told["cause"], told["cause_suspect"]) == (CauseKind.NEIGHBOUR, "n1")
    assert "make -j64 (pid 4711, user anna)" in " ".join(sentences_of(told))


def test_our_own_code(lab: Lab, given: Given) -> None:
    one, two = series(given, "pytorch", 1)[0], series(given, "paddle3", 1)[0]
    found = lab.explained(lab.nights({one: True, two: True}, codes=("c1", "c2")))
    assert {row["cause"] for row in found.values()} == {CauseKind.BENCHMARK_CODE}
    assert {row["cause_suspect"] for row in found.values()} == {"code c1 -> c2"}
    assert len({row["group_key"] for row in found.values()}) == 1


def test_heat_and_clocks_that_preflights_saw(lab: Lab, given: Given) -> None:
    case = series(given, "pytorch", 1)[0]
    run = lab.nights({case: True})
    hot = Finding(
        FindingLevel.FAIL, "throttle", "hw_thermal_slowdown", "none", "look at fans", "GPU 0"
    )
    for night in range(NIGHTS):
        lab.preflight(night, {"n1": 2.0}, findings={"n1": hot} if night >= FELL else {})
    (told,) = lab.explained(run).values()
    assert (told["cause"], told["cause_suspect"]) == (CauseKind.THERMAL, "n1")
    assert "Throttled before the night: n1: GPU 0: hw_thermal_slowdown." in sentences_of(told)


def test_a_governor_that_changed(lab: Lab, given: Given) -> None:
    case = series(given, "pytorch", 1)[0]
    run = lab.nights({case: True})
    for night in range(NIGHTS):
        lab.preflight(night, {}, governors=["performance" if night < FELL else "powersave"])
    (told,) = lab.explained(run).values()
    assert (told["cause"], told["cause_suspect"]) == (
        CauseKind.THERMAL,
        "governor performance -> powersave",
    )


def test_a_driver_that_changed(
    lab: Lab, given: Given, warehouse: Database, connection: Connection
) -> None:
    case = series(given, "pytorch", 1)[0]
    run = lab.nights({case: True})
    documents = {
        "old": {"kernel": "6.1", "gpus": [{"index": 0, "model": "H200", "driver": "550.1"}]},
        "new": {"kernel": "6.1", "gpus": [{"index": 0, "model": "H200", "driver": "560.2"}]},
    }
    with connection, connection.cursor() as cursor:
        for name, document in documents.items():
            cursor.execute(
                "insert into raw.fingerprint values (%s, %s)", (name, json.dumps(document))
            )
        cursor.execute(
            "update raw.measurement_node set fingerprint_id = case when run_at < %s then 'old'"
            " else 'new' end",
            (given.run(FELL).started_at,),
        )
    (told,) = lab.explained(run).values()
    assert (told["cause"], told["cause_suspect"]) == (
        CauseKind.DRIVER,
        "gpus.0.driver 550.1 -> 560.2",
    )


def test_what_nothing_explains_is_asked_again_and_stands_alone(lab: Lab, given: Given) -> None:
    one, two = series(given, "pytorch", 2)
    run = lab.nights({one: True, two: True})
    found = lab.explained(run)
    assert {row["cause"] for row in found.values()} == {CauseKind.UNEXPLAINED}
    assert {row["group_key"] for row in found.values()} == {""}
    assert found[one.case_id]["cause_sentence"] == "No examined cause changed at that time."

    for night in range(NIGHTS):
        lab.preflight(night, {"n1": 2.0 if night < FELL else 1.4})
    assert {row["cause"] for row in lab.explained(run).values()} == {CauseKind.NODE}


def test_what_fell_a_night_later_joins_and_what_fell_long_ago_does_not(
    lab: Lab, given: Given
) -> None:
    first, late, old = series(given, "pytorch", 3)
    run = lab.nights(
        {first: True, late: True, old: True},
        versions={"pytorch": ("2.13.0", "2.14.0")},
        fell_at={late: FELL + 1, old: FELL - 4},
    )
    found = lab.explained(run)
    assert found[old.case_id]["cause"] == CauseKind.UNEXPLAINED
    key = found[first.case_id]["group_key"]
    assert found[late.case_id]["group_key"] == key != ""
    told = sentences_of(found[late.case_id])
    assert "Against this cause: the last good night already had it." in told


def test_an_alert_that_is_explained_keeps_its_cause(lab: Lab, given: Given) -> None:
    case = series(given, "pytorch", 1)[0]
    run = lab.nights({case: True}, codes=("c1", "c2"))
    lab.explained(run)
    later = given.run(NIGHTS, code_digest="c2")
    lab.loader.runs.load(given.batch(later, given.came_back(later, case, (79.0, 80.0, 81.0))))
    lab.say(later, {case: True}, {})
    for night in range(NIGHTS):
        lab.preflight(night, {"n1": 2.0 if night < FELL else 1.4})
    (told,) = lab.explained(later).values()
    assert told["last_run_id"] == later.run_id
    assert told["cause"] == CauseKind.BENCHMARK_CODE


def test_what_fails_with_the_same_words_is_one_group(lab: Lab, given: Given) -> None:
    cases = series(given, "pytorch", 5)
    run = lab.nights(dict.fromkeys(cases, False))
    rebooted = Reason(ReasonCode.NODE_REBOOTED, "n1")
    reasons = [
        *(Reason(ReasonCode.PROCESS_EXITED, "n1", f"trainer-{k}", "code 1") for k in range(3)),
        Reason(ReasonCode.OUT_OF_MEMORY, "n1", "trainer-0", "cgroup"),
        rebooted,
    ]
    verdicts = [
        Verdict(each.case_id, "local", run.run_id, VerdictKind.FAILED, sentence(reason))
        for each, reason in zip(cases, reasons, strict=True)
    ]
    with lab.connection, lab.connection.cursor() as cursor:
        for each, reason in zip(cases, reasons, strict=True):
            cursor.execute(
                "update raw.measurement set status = 'failed', reasons = %s"
                " where run_key = (select r.run_key from raw.run as r where r.run_id = %s)"
                " and series_key = (select s.series_key from raw.series as s where s.case_id = %s)",
                (Json([reason.to_json()]), run.run_id, each.case_id),
            )
    lab.loader.series.store_verdicts(verdicts)
    for verdict in verdicts:
        lab.loader.alerts.open(verdict)
    with lab.connection, lab.connection.cursor() as cursor:
        cursor.execute(
            "insert into raw.node_event"
            " values ('local', 'n1', %s, %s, now(), 'fault', %s, 'nightbench')",
            (run.run_id, f"{cases[4].case_id}/g0", Json([rebooted.to_json()])),
        )
    found = lab.explained(run)
    keys = [found[each.case_id]["group_key"] for each in cases]
    assert len(set(keys[:3])) == 1
    assert len(set(keys)) == 3
    assert [found[each.case_id]["cause"] for each in cases] == ["unexplained"] * 4 + ["node"]
    assert lab.explained(run) == found


def node_with(driver: str) -> dict[str, Any]:
    """A node's fingerprint."""
    gpu = {"index": 0, "model": "H200", "driver": driver}
    return {"schema": "nightbench.fingerprint/1", "id": f"fp-{driver}", "gpus": [gpu]}


@pytest.mark.parametrize(
    ("versions", "drivers", "suspect", "said"),
    [
        (
            ("1.0", "2.0"),
            ("550.1", "550.1"),
            "fake 1.0 -> 2.0",
            "framework version: The version of fake changed from 1.0 to 2.0.",
        ),
        pytest.param(
            ("1.0", "1.0"),
            ("550.1", "560.2"),
            "gpus.0.driver 550.1 -> 560.2",
            "driver: Node n1 changed: gpus.0.driver 550.1 -> 560.2",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["release", "driver"],
)
def test_one_cause_from_its_nights_to_one_item_of_one_message(
    pipeline: Pipeline,
    lab: Lab,
    given: Given,
    inbox: Inbox,
    versions: tuple[str, str],
    drivers: tuple[str, str],
    suspect: str,
    said: str,
) -> None:
    cases = [sleeping(2**k) for k in range(3)]
    for night in range(15):
        since = night >= 12
        run = given.run(night, suite="seeded")
        level = (80.0 if since else 100.0) * (1 + 0.002 * (night % 3 - 1))
        pipeline.measure(
            run,
            dict.fromkeys(cases, level),
            version=versions[since],
            fingerprint=node_with(drivers[since]),
        )
    pipeline.judge(run)

    (alert,) = lab.reader.alerts.find()
    assert alert["cause_suspect"] == suspect
    heard = "\n".join(message["message"] for message in inbox.messages)
    assert heard.count(f"cause: {said}") == 1
    assert all(heard.count(f"  - {case.case_id}: -20.") == 1 for case in cases)


def test_a_preflight_that_cannot_be_read_silences_no_alert(
    pipeline: Pipeline,
    lab: Lab,
    given: Given,
    inbox: Inbox,
    caplog: pytest.LogCaptureFixture,
) -> None:
    history(lab.loader, given, (FALLS,))
    run = given.run(NIGHTS_BEFORE, suite="seeded")
    with lab.connection, lab.connection.cursor() as cursor:
        cursor.execute(
            "insert into raw.node_preflight (cluster, node, at, address, is_reachable, level,"
            " findings, document) values ('local', 'n1', %s, 'x', true, 'ok', '[]', %s)",
            (run.started_at, '{"gpus": 5}'),
        )
    pipeline.measure(run, {FALLS: 90.0})
    pipeline.judge(run)
    assert len(inbox.messages) == 1
    assert [row["cause"] for row in lab.reader.alerts.find()] == [None]
    assert "were not explained" in caplog.text
