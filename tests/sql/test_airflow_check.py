"""`nightbench check` beside a real warehouse: each part is tried as it is used later."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg2.extensions
import pytest
from tests.sql.conftest import Database
from tests.unit.cli.test_command import nightbench

Check = Callable[..., dict[str, dict[str, str]]]

LOADS = "loads, by nightbench_warehouse"
PAGES = "pages, by nightbench_warehouse_reader"
ALERTS = "alerts, by nightbench_warehouse_triage"
SUITE = "suites/first.yaml"


def connection(dsn: str, **changed: object) -> str:
    parts = psycopg2.extensions.parse_dsn(dsn)
    known = {
        "conn_type": "postgres",
        "host": parts["host"],
        "port": int(parts["port"]),
        "schema": parts["dbname"],
        "login": parts["user"],
        "password": parts["password"],
    }
    return json.dumps(known | changed)


@pytest.fixture
def check(warehouse: Database, tmp_path: Path) -> Check:
    """What `nightbench check` finds by subject, in a project of its own with these variables."""
    nightbench(tmp_path, "init", "dags")
    right = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__API__PORT": "1",  # another Airflow may answer at the default
        "AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE": connection(warehouse.loader),
        "AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE_READER": connection(warehouse.reader),
        "AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE_TRIAGE": connection(warehouse.triage),
        "AIRFLOW_CONN_NIGHTBENCH_LOCAL": '{"conn_type": "ssh", "host": "127.0.0.2"}',
    }

    def found(**changed: str) -> dict[str, dict[str, str]]:
        done = nightbench(tmp_path, "check", "--json", **(right | changed))
        assert done.returncode == 1, done.stderr  # no API server and no DAGs here
        assert "Traceback" not in done.stderr
        lines: dict[str, dict[str, str]] = {}
        for each in json.loads(done.stdout):
            if each["state"] == "missing" or each["subject"] not in lines:
                lines[each["subject"]] = each
        return lines

    return found


def missing(found: dict[str, dict[str, str]]) -> set[str]:
    # What only a running Airflow has.
    return {name for name, each in found.items() if each["state"] == "missing"} - {
        "api-server",
        "DAGs",
    }


def test_what_is_right_lacks_nothing(check: Check) -> None:
    found = check()
    assert missing(found) == set()
    assert found["links"]["state"] == "note"
    assert "[api] base_url" in found["links"]["advice"]
    assert "no answer at http://localhost:1" in found["api-server"]["observed"]
    assert "airflow dags list" in found["DAGs"]["advice"]


def test_the_readers_login_cannot_load(check: Check, warehouse: Database) -> None:
    found = check(AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE=connection(warehouse.reader))
    assert missing(found) == {LOADS}
    assert "permission denied" in found[LOADS]["advice"]


def test_a_wrong_password_of_the_reader_is_that_of_the_pages(
    check: Check, warehouse: Database
) -> None:
    wrong = connection(warehouse.reader, password="guess")
    found = check(AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE_READER=wrong)
    assert missing(found) == {PAGES}
    assert "password authentication failed" in found[PAGES]["advice"]


@pytest.mark.parametrize(
    "changed", [{"port": 1}, {"login": "nightbench_reader", "password": "reader"}]
)
def test_a_connection_of_triage_that_points_elsewhere(
    check: Check, warehouse: Database, changed: dict[str, object]
) -> None:
    wrong = connection(warehouse.triage, **changed)
    assert missing(check(AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE_TRIAGE=wrong)) == {ALERTS}


def test_the_loader_is_no_reason_to_store_anything(check: Check, warehouse: Database) -> None:
    check()
    with psycopg2.connect(warehouse.owner) as opened, opened.cursor() as cursor:
        cursor.execute("select count(*) from raw.run")
        assert cursor.fetchone() == (0,)
    opened.close()


def test_a_tab_in_the_only_suite(check: Check, tmp_path: Path) -> None:
    suite = tmp_path / "dags" / SUITE
    suite.write_text(suite.read_text().replace("matrix:\n", "matrix:\n\t\n"))
    found = check()
    assert missing(found) == {"project"}
    assert "first.yaml:" in found["project"]["observed"]


def test_outside_of_a_project_no_suite_of_the_package_is_examined(
    check: Check, tmp_path: Path
) -> None:
    found = check(NIGHTBENCH_DAGS="")
    assert missing(found) == {"project"}
    assert "not of your project" in found["project"]["observed"]
    assert "NIGHTBENCH_DAGS" in found["project"]["advice"]


def test_all_mistakes_together_are_all_found(
    check: Check, warehouse: Database, tmp_path: Path
) -> None:
    (tmp_path / "dags" / SUITE).write_text("suite: first\n\tmatrix: []\n")
    found = check(
        AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE=connection(warehouse.reader),
        AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE_READER=connection(warehouse.reader, password="guess"),
        AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE_TRIAGE=connection(warehouse.triage, port=1),
    )
    assert missing(found) == {LOADS, PAGES, ALERTS, "project"}
