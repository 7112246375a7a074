"""Nodes whose wall clocks are off; every host's monotonic clock is its own anyway."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.drills.gangs import agent_log, check_accounts, make_job, make_store, measure
from tests.drills.hosts import Lab

from nightbench.core.model import CaseStatus
from nightbench.gang import Shipment

OFF_S = -660


async def test_a_node_is_eleven_minutes_behind(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """Durations come from monotonic clocks, dates from the controller, windows are put together."""
    n1, n2 = lab.host("n1"), lab.host("n2", wall_offset_s=OFF_S)
    job = make_job(lab, shipment, repeats=2, steps=20, step_s=0.1)
    store = make_store(tmp_path)
    before = datetime.now(UTC)
    outcome = await measure(lab, shipment, job, store)
    after = datetime.now(UTC)
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.OK
    # The node's own log shows that its clock really was off, the other's that it was not.
    off, right = (
        datetime.fromisoformat(agent_log(host, job)[0]["at"]) - before for host in (n2, n1)
    )
    assert off < timedelta(seconds=OFF_S + 120)
    assert right >= timedelta(seconds=-1)
    windows = {}
    for number in (1, 2):
        record = store.repeat(number)
        assert record is not None
        for key in ("started_at", "ended_at"):
            assert before <= datetime.fromisoformat(record[key]) <= after
        for name, result in store.results(number).items():
            clock = record["clocks"][name]
            for process in result["processes"]:
                if process["role"] != "trainer":
                    continue
                window = process["summary"]["window"]
                assert window["wall_s"] == pytest.approx(
                    sum(process["summary"]["step_seconds"]), rel=0.2
                )
                assert window["wall_s"] >= 20 * 0.1
                # On one axis, though the hosts' monotonic clocks are thousands of seconds apart.
                windows[process["name"]] = [
                    window[key] - clock["offset_s"] for key in ("open_s", "close_s")
                ]
            assert abs(clock["offset_s"]) > 5000
            assert clock["error_s"] < 1
        (a_open, a_close), (b_open, b_close) = windows["trainer-0"], windows["trainer-1"]
        assert min(a_close, b_close) > max(a_open, b_open), "the windows overlap"
