"""How Airflow is configured, without starting it."""

import json
from pathlib import Path

import pytest

from nightbench.config.case_checks import MOST_CASES
from nightbench.local import airflow, postgres
from nightbench.local.home import Home, Secrets
from nightbench.local.ports import Ports

PORTS = Ports(api=18080, postgres=15432, cluster=12222)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.make()
    return home


def test_everything_listens_on_loopback_and_reports_to_nobody(home: Home) -> None:
    found = airflow.settings(home, PORTS, Secrets())
    assert found["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert found["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:18080/execution/"
    assert found["AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"] == "True"
    assert found["AIRFLOW__USAGE_DATA_COLLECTION__ENABLED"] == "False"
    assert found["GX_ANALYTICS_ENABLED"] == "false"
    # What a killed scheduler had begun is taken up again soon, not after five minutes.
    assert int(found["AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL"]) <= 60
    assert len(found["AIRFLOW__API_AUTH__JWT_SECRET"]) >= 64
    # A task for each case of the largest suite.
    assert int(found["AIRFLOW__CORE__MAX_MAP_LENGTH"]) == MOST_CASES


def test_a_password_with_special_characters_survives_the_url(home: Home) -> None:
    from sqlalchemy import make_url

    found = airflow.settings(home, PORTS, Secrets(airflow="p@ss/w:rd%"))
    assert make_url(found["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]).password == "p@ss/w:rd%"


def test_the_callers_environment_does_not_leak_into_imports(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("NO_PROXY", "intranet.example")
    monkeypatch.delenv("no_proxy", raising=False)
    found = airflow.environment(home, PORTS, Secrets())
    assert "PYTHONPATH" not in found
    assert found["NO_PROXY"] == "intranet.example,127.0.0.1,localhost"


def test_connections_carry_the_clusters_keys_and_stay_private(home: Home) -> None:
    (home.cluster / "server.json").write_text(json.dumps({"port": 12222, "user": "me"}))
    secrets = Secrets()
    airflow.write_files(home, PORTS, secrets)

    assert home.connections_file.stat().st_mode & 0o777 == 0o600
    assert home.passwords_file.stat().st_mode & 0o777 == 0o600
    found = json.loads(home.connections_file.read_text())
    local = found["nightbench_local"]
    assert (local["conn_type"], local["port"], local["login"]) == ("ssh", 12222, "me")
    assert local["extra"]["known_hosts"] == str(home.cluster / "known_hosts")
    assert found["nightbench_warehouse"]["login"] == "nightbench_loader"
    assert found["nightbench_warehouse_reader"]["password"] == secrets.nightbench_reader
    triage = found["nightbench_warehouse_triage"]
    assert (triage["login"], triage["password"]) == ("nightbench_triage", secrets.nightbench_triage)


def test_the_psql_line_holds_no_password(home: Home) -> None:
    line = postgres.psql_line(home, PORTS)
    assert line.endswith("-h 127.0.0.1 -p 15432 -U nightbench_reader warehouse")
    assert (home.tools / "psql").resolve().name == "psql"
    assert "password" not in line
