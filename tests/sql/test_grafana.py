"""The Grafana dashboard: its statements run as the reader's, with Grafana's macros replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from nightbench.core.model import Verdict, VerdictKind
from nightbench.warehouse.statements import text

BOARD = json.loads(text("grafana/dashboards/nightbench.json"))
TIME = "between '2026-01-01T00:00:00Z' and '2026-12-31T00:00:00Z'"


def statements() -> Iterator[tuple[str, str]]:
    for panel in BOARD["panels"]:
        yield panel["title"], panel["targets"][0]["rawSql"]
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]
    for annotation in BOARD["annotations"]["list"]:
        yield f"annotation {annotation['name']}", annotation["target"]["rawSql"]


STATEMENTS = dict(statements())


def replaced(statement: str, chosen: dict[str, list[str]]) -> str:
    """The statement as Grafana sends it."""

    def quoted(found: re.Match[str]) -> str:
        return ",".join("'" + value.replace("'", "''") + "'" for value in chosen[found[1]])

    made = re.sub(r"\$__timeFilter\(([\w.]+)\)", rf"\1 {TIME}", statement)
    made = re.sub(r"\$\{(\w+):sqlstring\}", quoted, made)
    assert "$" not in made, "a macro that this test does not know"
    return made


@pytest.fixture
def answers(warehouse, loader, given):
    """Rows of each statement, for the case that regressed and one that was not chosen."""
    case, other = given.case(), given.case(nodes=2)
    for night in (0, 1):
        run = given.run(night)
        loader.runs.load(given.batch(run, given.came_back(run, case), given.came_back(run, other)))
    elsewhere = given.run(1, suite="other", cluster="far")
    loader.runs.load(given.batch(elsewhere, given.came_back(elsewhere, case)))
    slower = (VerdictKind.REGRESSED, "it's slower", 9.0, 10.0, -0.1)
    found = Verdict(case.case_id, "local", given.run(1).run_id, *slower)
    loader.series.store_verdicts([found])
    loader.alerts.open(found)
    chosen = {"suite": ["demo", "o'hara"], "cluster": ["local"], "case": [case.case_id]}

    def ask(name: str) -> list[dict[str, Any]]:
        with closing(psycopg2.connect(warehouse.reader)) as connection:
            cursor = connection.cursor()
            cursor.execute(replaced(STATEMENTS[name], chosen))
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    return ask


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_runs_as_the_reader(answers, name):
    answers(name)


def test_variables_list_what_there_is(answers, given):
    assert [row["suite"] for row in answers("variable suite")] == ["demo", "other"]
    assert [row["cluster"] for row in answers("variable cluster")] == ["local"]
    cases = sorted([given.case().case_id, given.case(nodes=2).case_id])
    assert [row["case_id"] for row in answers("variable case")] == cases


@pytest.mark.parametrize(
    ("title", "value"), [("Median throughput", 11.0), ("Spread of the repeats", 2 / 11)]
)
def test_series_have_a_time_a_name_and_a_value(answers, given, title, value):
    rows = answers(title)
    assert len(rows) == 2
    time, figure, name = rows[0]
    assert (time, name) == ("time", "metric")
    assert rows[0]["metric"] == f"{given.case().case_id} on local"
    assert rows[0][figure] == pytest.approx(value)


def test_changes_alerts_and_marks_are_those_of_the_chosen_case(answers, given):
    (change,) = answers("Latest changes")
    assert (change["verdict"], change["change"]) == ("regressed", -0.1)
    (alert,) = answers("Alerts")
    assert (alert["state"], alert["case_id"]) == ("open", given.case().case_id)
    assert answers("Open alerts") == [{"alerts": 1}]
    assert answers("Nodes in quarantine") == [{"nodes": 0}]
    (mark,) = answers("annotation Verdicts")
    assert mark["text"].startswith("regressed resnet50_v1.5")
    assert mark["tags"] == "regressed"


def test_every_part_reads_the_chosen_source_and_has_a_place_of_its_own():
    source = {"type": "grafana-postgresql-datasource", "uid": "${source}"}
    parts = [*BOARD["panels"], *BOARD["annotations"]["list"]]
    parts += [part for part in BOARD["templating"]["list"] if part["type"] == "query"]
    parts += [target for panel in BOARD["panels"] for target in panel["targets"]]
    assert all(part["datasource"] == source for part in parts)
    taken = [
        (x, y)
        for panel in BOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_the_dashboard_is_what_grafanas_schema_knows():
    register_default_plugins()
    known = dict(leaves(json.loads(json.dumps(Dashboard.from_json(BOARD), cls=JSONEncoder))))
    # The schema leaves open what an annotation asks its source, and has no `definition`.
    loose = re.compile(r"/annotations/list/\d+/target/.*|/templating/list/\d+/definition")
    lost = {path: value for path, value in leaves(BOARD) if known.get(path, ...) != value}
    assert {path: lost[path] for path in lost if not loose.fullmatch(path)} == {}


def leaves(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path and value of all that is no object or list; empty ones say nothing."""
    if isinstance(part, dict | list):
        items = part.items() if isinstance(part, dict) else enumerate(part)
        for name, value in items:
            yield from leaves(value, f"{path}/{name}")
    else:
        yield path, part


def test_what_is_mounted_names_the_folder_the_source_and_no_password():
    (provided,) = yaml.safe_load(text("grafana/dashboards/nightbench.yaml"))["providers"]
    assert provided["options"]["path"] == "/etc/grafana/provisioning/dashboards"
    (source,) = yaml.safe_load(text("grafana/datasources/nightbench.yaml"))["datasources"]
    assert source["type"] == BOARD["templating"]["list"][0]["query"]
    assert source["user"] == "nightbench_reader"
    assert source["secureJsonData"] == {"password": "$NIGHTBENCH_READER_PASSWORD"}
