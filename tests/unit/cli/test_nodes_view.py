"""What a person sees of nodes, at 80 columns."""

from __future__ import annotations

import dataclasses
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from nightbench.cli import common, nodes
from nightbench.core.model import Cluster, Node, Reason, ReasonCode
from nightbench.night.cluster_preflight import ClusterHealth
from nightbench.nodes import Control, Finding, FindingLevel, JudgedNode, NodePreflight, NodeState
from nightbench.nodes.quarantine import QUARANTINED

AT = datetime(2026, 11, 21, 1, tzinfo=UTC)
GOLDEN = json.loads(
    (Path(__file__).parents[2] / "contract" / "golden" / "preflight.json").read_text()
)
ILL = Finding(
    FindingLevel.FAIL,
    "KillUserProcesses",
    "logind ends all processes of a login when the login ends; lingering is off",
    "a gang continues when the connection of its controller is cut",
    "as root: KillUserProcesses=no in /etc/systemd/logind.conf",
)
ODD = Finding(
    FindingLevel.WARN, "clock", "3.0 min ahead of [it]", "60.0 s at most", "switch on NTP"
)


def shown(table: object) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=80, color_system=None).print(table)
    return stream.getvalue().splitlines()


@pytest.fixture
def health() -> ClusterHealth:
    def node(number: int, *found: Finding, reachable: bool = True) -> JudgedNode:
        name = f"gpu{number:03}.example.org"
        document = GOLDEN if reachable else None
        seen = NodePreflight(name, f"{name}:22", AT.isoformat(), reachable, document)
        return JudgedNode(seen, found)

    control = Control("gpu001.example.org", "matrix_product", "cpu", "python-3.11", "GB/s", (2.0,))
    return ClusterHealth(
        "gpus",
        AT,
        (
            node(1),
            node(2, ODD, ILL),
            *(node(k, ODD) for k in range(3, 9)),
            node(9, reachable=False),
        ),
        controls=(control,),
    )


def test_tables_fit_into_80_columns(health):
    for table in (
        nodes.overview(health, {}),
        nodes.findings_table(health),
        nodes.controls_table(health, {health.controls[0].key: 4.0}),
    ):
        assert max(map(len, shown(table))) <= 80


def test_overview_says_how_each_node_is(health):
    out = NodeState("gpus", "gpu001.example.org", QUARANTINED, AT)
    text = "\n".join(shown(nodes.overview(health, {out.node: out})))
    for word in ("quarantined", "ill", "warnings", "unreachable", "yes"):
        assert word in text


def test_gravest_comes_first_and_the_same_is_said_once(health):
    text = "\n".join(shown(nodes.findings_table(health)))
    assert text.index("logind") < text.index("3.0 min ahead of [it]")
    assert text.count("switch on NTP") == 1
    assert "and 4 more" in text
    well = dataclasses.replace(health, nodes=health.nodes[:1])
    assert nodes.findings_table(well) is None


def test_controls_stand_beside_their_own_history(health):
    slow = "\n".join(shown(nodes.controls_table(health, {health.controls[0].key: 4.0})))
    assert "50.0 %" in slow
    assert "none yet" in "\n".join(shown(nodes.controls_table(health, {})))
    busy = dataclasses.replace(health, busy=("gpu001.example.org",))
    assert "(busy)" in "\n".join(shown(nodes.controls_table(busy, {})))


def test_json_holds_it_all(health):
    document = nodes.as_json(health, {health.controls[0].key: 4.0}, {})
    assert json.loads(json.dumps(document)) == document
    assert document["failed"] is True
    assert document["nodes"][1]["level"] == "fail"
    assert document["controls"][0]["ratio"] == pytest.approx(0.5)


def test_nodes_show_those_that_nobody_looked_at_and_those_that_are_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster("gpus", (Node("a", "a", "c"), Node("b", "b", "c")))
    known = {
        "node": "old",
        "state": "quarantined",
        "state_since": AT,
        "state_reasons": [Reason(ReasonCode.PERSON, observed="fans").to_json()],
        "state_by": "anna",
        "faults_in_a_row": 3,
        "last_preflight_at": AT,
        "last_level": "fail",
        "last_complaints": ["disk"],
    }
    rows = nodes.node_rows(cluster, [known, {**known, "node": "b"}])
    assert [row["node"] for row in rows] == ["a", "b", "old"]
    lines = shown(nodes.nodes_table("gpus", rows))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "anna: fans" in text
    assert "cluster's YAML" in text
    common.print_json(rows)
    assert json.loads(capsys.readouterr().out)
