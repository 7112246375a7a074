"""The state of nodes in a real PostgreSQL."""

import dataclasses
import json
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg2
import pytest

from nightbench.core.errors import WarehouseRefused
from nightbench.core.model import ClockOffset, Cluster, HealthPolicy, Node, Reason, ReasonCode
from nightbench.nodes import Control, JudgedNode, NodeEvent, NodePreflight, findings
from nightbench.nodes.quarantine import CLEAN, FAULT, PERSON, QUARANTINED, WORKED
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.statements import text

POLICY = HealthPolicy(quarantine_after=3)
START = datetime(2026, 11, 1, 22, 0, tzinfo=UTC)
GOLDEN = json.loads(
    (Path(__file__).parents[1] / "contract" / "golden" / "preflight.json").read_text()
)
LAB = Cluster("lab", (Node("n1", "10.0.3.17", "c"), Node("n2", "10.0.3.18", "c")))

AWAY = Reason(ReasonCode.NODE_UNREACHABLE, "n1", observed="no answer")
FANS = Reason(ReasonCode.PERSON, observed="new fans")


@pytest.fixture
def repository(connection):
    return Warehouse(connection).nodes


def event(kind: str, hour: int, node: str = "n1", subject: str = "preflight", **more) -> NodeEvent:
    at = START + timedelta(hours=hour)
    given = {
        "run_id": f"r{hour}",
        "reasons": (Reason(ReasonCode.PERSON, observed=f"{kind} {hour}"),),
    }
    return NodeEvent("lab", node, at, kind, subject=subject, **{**given, **more})


def look(hour: int = 0, node: str = "n1", **more) -> NodePreflight:
    given = {
        "at": (START + timedelta(hours=hour)).isoformat(),
        "reachable": True,
        "document": GOLDEN,
        "clock": ClockOffset(-12.5, 0.001),
        "wall": ClockOffset(90.0, 0.1),
    }
    return NodePreflight(node, f"{node}:22", **{**given, **more})


def judged(seen: NodePreflight) -> JudgedNode:
    return JudgedNode(seen, findings(seen, LAB))


def control(value: float, node: str = "n1", backend: str = "python-3.11") -> Control:
    return Control(node, "matrix_product", "cpu", backend, "GFLOP/s", (value * 0.9, value, value))


def test_faults_in_a_row_are_counted_over_runs(repository):
    assert repository.count("lab", [event(FAULT, 0)], POLICY)["n1"].faults == 1
    assert not repository.count("lab", [event(FAULT, 1)], POLICY)["n1"].quarantined
    state = repository.count("lab", [event(FAULT, 2), event(WORKED, 2, "n2")], POLICY)["n1"]
    assert state.quarantined
    assert repository.states("lab")["n1"] == dataclasses.replace(state, last_fault="")
    assert not repository.states("lab")["n2"].quarantined


def test_the_same_said_again_is_counted_once(repository):
    told = [event(FAULT, 0), event(FAULT, 0, subject="case/g0")]
    for _ in range(3):
        assert repository.count("lab", told, POLICY)["n1"].faults == 2
    assert repository.changes("lab") == []


def test_what_a_person_said_outlasts_any_number_of_looks(repository, monkeypatch):
    monkeypatch.setattr("nightbench.warehouse.nodes.EVENTS_LOOKED_AT", 3)
    out = event(QUARANTINED, 0, subject=PERSON, run_id="", by_whom="anna", reasons=(FANS,))
    repository.count("lab", [out], POLICY)
    state = repository.count("lab", [event(CLEAN, hour) for hour in range(1, 6)], POLICY)["n1"]
    assert (state.quarantined, state.by_whom) == (True, "anna")


def test_history_says_when_why_and_by_whom(repository):
    repository.count("lab", [event(FAULT, hour) for hour in range(3)], POLICY)
    repository.count("lab", [event(CLEAN, 3)], POLICY)
    out = event(QUARANTINED, 4, subject=PERSON, run_id="", by_whom="anna", reasons=(FANS,))
    repository.count("lab", [out], POLICY)
    said = [
        (row["state"], row["by_whom"], row["reasons"][-1]["observed"])
        for row in repository.changes("lab", "n1")
    ]
    assert said == [
        ("quarantined", "anna", "new fans"),
        ("ok", "nightbench", "clean 3"),
        ("quarantined", "nightbench", "fault 2"),
    ]
    assert repository.changes("lab", "n2") == []


def test_run_that_is_loaded_late_counts_at_its_own_time(repository):
    repository.count("lab", [event(FAULT, 0), event(FAULT, 1)], POLICY)
    repository.count("lab", [event(CLEAN, 5)], POLICY)
    assert not repository.count("lab", [event(FAULT, 2)], POLICY)["n1"].quarantined


def test_two_that_count_at_once_lose_nothing(warehouse):
    def count(hour: int) -> None:
        with closing(connect(warehouse.loader)) as own:
            Warehouse(own).nodes.count("lab", [event(FAULT, hour)], POLICY)

    threads = [threading.Thread(target=count, args=(hour,)) for hour in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(connect(warehouse.loader)) as own:
        assert Warehouse(own).nodes.states("lab")["n1"].faults == 8
        assert len(Warehouse(own).nodes.changes("lab")) == 1


def test_looks_are_stored_once_and_shown(repository, rows):
    ill = look(node="n2", reachable=False, document=None, clock=None, wall=None)
    away = dataclasses.replace(ill, problem=AWAY)
    for _ in range(2):
        repository.store_preflight(
            "lab", "r1", [judged(look()), judged(away)], [control(2.0)], START
        )
    assert len(rows("select * from raw.node_preflight")) == 2
    n1, n2 = repository.read("nodes", cluster="lab")
    assert (n1["state"], n1["was_reachable"], n1["last_preflight_run_id"]) == ("ok", True, "r1")
    # A neighbour and a held lock are no complaints of this cluster.
    assert set(n1["last_complaints"]) == {"clock", "orphans"}
    assert (n2["last_level"], n2["last_complaints"]) == ("fail", ["reach"])
    (kept,) = rows("select findings from raw.node_preflight where node = 'n2'")
    assert [(f["what"], f["found"]) for f in kept["findings"]] == [("reach", "no answer")]
    wall = rows("select wall_error_s from raw.node_preflight where node = 'n1'")
    assert wall[0]["wall_error_s"] == pytest.approx(89.9)


def test_state_without_a_look_is_shown(repository):
    out = event(QUARANTINED, 0, "n9", subject=PERSON, run_id="", by_whom="anna")
    repository.count("lab", [out], POLICY)
    (row,) = repository.read("nodes", cluster="lab")
    assert (row["node"], row["state"], row["last_level"]) == ("n9", "quarantined", None)


def test_controls_are_series_with_a_ratio(repository, rows):
    for night in range(12):
        at = START + timedelta(days=night)
        # A first figure that ten nights have forgotten, and a slow last one.
        value = {0: 50.0, 11: 1.0}.get(night, 2.0)
        repository.store_preflight("lab", f"r{night}", [], [control(value), control(7.0, "n2")], at)
    last = rows("select * from marts.control_history where node = 'n1' order by at desc limit 1")
    assert last[0]["median_before"] == pytest.approx(2.0)
    assert last[0]["ratio"] == pytest.approx(0.5)
    assert last[0]["nights_before"] == 10
    first = rows("select * from marts.control_history where node = 'n1' order by at limit 1")
    assert first[0]["ratio"] is None
    known = repository.control_baselines("lab")
    assert known[control(0.1).key] == pytest.approx(2.0)
    assert set(known) == {control(1.0).key, control(1.0, "n2").key}


def test_slow_controls_name_the_slow_node_first(repository, rows):
    for night in range(5):
        values = {"n1": 2.0, "n2": 1.0 if night == 4 else 2.0}
        at = START + timedelta(days=night)
        repository.store_preflight(
            "lab", f"r{night}", [], [control(v, n) for n, v in values.items()], at
        )
    found = rows(text("queries/analysts/slow_controls.sql"))
    assert [(row["node"], row["change_percent"]) for row in found] == [("n2", -50), ("n1", 0)]


def test_backends_are_not_mixed(repository):
    repository.store_preflight(
        "lab", "r0", [], [control(2.0), control(9.0, backend="python-3.12")], START
    )
    assert len(repository.control_baselines("lab")) == 2


def test_reader_may_read_and_not_write(warehouse):
    with closing(connect(warehouse.reader)) as own:
        assert Warehouse(own).nodes.states("lab") == {}
        assert Warehouse(own).nodes.read("nodes", cluster="lab") == []
        with pytest.raises(WarehouseRefused):
            Warehouse(own).nodes.count("lab", [event(FAULT, 0)], POLICY)


def test_nonsense_is_refused(repository, rows):
    with pytest.raises(WarehouseRefused):
        repository.store_preflight("lab", "r0", [], [control(float("inf"))], START)
    assert rows("select * from raw.control") == []


def test_nothing_is_half_counted(repository, connection, monkeypatch):
    def fails(*_):
        raise psycopg2.OperationalError("the server went away")

    monkeypatch.setattr("nightbench.warehouse.nodes.node_state", fails)
    with pytest.raises(Exception, match="server went away"):
        repository.count("lab", [event(FAULT, 0)], POLICY)
    monkeypatch.undo()
    assert Warehouse(connection).nodes.count("lab", [], POLICY) == {}
