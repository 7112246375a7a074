"""A night as a whole, really disturbed: on hosts of a lab, with real nights before it.

pytest tests/drills/test_night.py -s
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from tests.drills.hosts import Lab
from tests.drills.nights import STEP_S, Nights, build, install
from tests.sql.conftest import Database, Rows, connection, rows, server, shared_database, template
from tests.sql.conftest import warehouse as warehouse

from nightbench.warehouse import connect

__all__ = ["connection", "rows", "server", "shared_database", "template"]

pytestmark = pytest.mark.timeout(5400)

NIGHTS_BEFORE = 20


def test_a_slow_node_a_slow_build_and_a_slow_link_are_three_alerts(
    lab: Lab, warehouse: Database, rows: Rows, tmp_path: Path
) -> None:
    for name in ("n1", "n2", "n3", "n4"):
        host = lab.host(name)
        install(host, "1.0", STEP_S)
        install(host, "2.0", STEP_S)
        install(host, "2.1", STEP_S + 0.008)
    nights = Nights(lab, tmp_path, lambda: connect(warehouse.loader))
    slow_node = nights.cases(("n1",), "fake", 3)
    slow_link = nights.cases(("n3", "n4"), "fake", 3)
    slow_build = nights.cases(("n2",), "toy", 3)
    steady = {name: nights.cases((name,), "fake", 2) for name in ("n2", "n3", "n4")}
    # In this order three are measured at once: on n1, on n2, and on n3 and n4.
    cases = tuple(chain(*zip(slow_node, slow_build, slow_link, strict=True)))
    cases += tuple(chain(*zip(*steady.values(), strict=True)))
    before = {"fake": build("fake", "1.0"), "toy": build("toy", "2.0")}
    for night in range(NIGHTS_BEFORE):
        nights.night(cases, before, judged=night == NIGHTS_BEFORE - 1)
    assert rows("select * from marts.fct_alert") == []

    lab.hosts["n1"].limit_cpu(0.2)
    lab.hosts["n4"].limit("10mbit")
    disturbed = before | {"toy": build("toy", "2.1")}
    for _ in range(4):
        nights.night(cases, disturbed)
        alerts = rows("select * from marts.fct_alert order by alert_id")
        for alert in alerts:
            print(f"alert: {alert['sentence']}\n  {alert['cause']}: {alert['cause_sentence']}")
        if len(alerts) >= 3:
            break
    assert {alert["cause"]: alert["cause_suspect"] for alert in alerts} == {
        "node": "n1",
        "network": nights.cluster.name,
        "framework_version": "toy 2.0 -> 2.1",
    }
    assert len(alerts) == 3
