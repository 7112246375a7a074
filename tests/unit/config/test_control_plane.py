"""Whose Airflow it is: by environment and files, and what advice says then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nightbench.cli.dag_run import airflow_api, team_api
from nightbench.config import control_plane as module
from nightbench.config import locations
from nightbench.config.control_plane import (
    ControlPlane,
    airflow_command,
    control_plane,
    log_of,
    take_settings,
)
from nightbench.core.errors import UserError
from nightbench.orchestration.connections import missing


@pytest.fixture(autouse=True)
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("AIRFLOW", "NIGHTBENCH"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    (tmp_path / "state").mkdir()
    (tmp_path / "airflow").mkdir()
    return tmp_path


def started(place: Path) -> None:
    for name in ("ports.json", "secrets.json"):
        (place / "state" / name).touch()


def test_nothing_is_configured() -> None:
    assert control_plane() is ControlPlane.NONE
    assert "`nightbench up` makes it" in str(missing("nightbench_warehouse", ""))


def test_what_up_has_started_is_local_also_in_its_own_processes(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nothing / "state" / "secrets.json").touch()
    assert control_plane() is ControlPlane.NONE
    started(nothing)
    # What the stack's own environment names.
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://somewhere")
    assert control_plane() is ControlPlane.LOCAL
    monkeypatch.setenv("NIGHTBENCH_STACK", str(nothing / "state"))
    monkeypatch.setenv("AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE", "{}")
    assert control_plane() is ControlPlane.LOCAL
    assert log_of("dag-processor") == "nightbench logs dag-processor"


@pytest.mark.parametrize(
    "name",
    [
        "NIGHTBENCH_AIRFLOW",
        "AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE",
        "AIRFLOW__SECRETS__BACKEND",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    ],
)
def test_a_terminal_of_a_team_is_told_by_its_variables(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "something")
    assert control_plane() is ControlPlane.TEAM
    assert airflow_command() == "airflow"
    said = str(missing("nightbench_warehouse", ""))
    assert "`airflow connections add nightbench_warehouse …`" in said
    assert "nightbench up" not in said


def test_connections_of_a_team_come_before_a_local_stack_that_was_tried_once(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(nothing)
    monkeypatch.setenv("AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE", "postgres://a.org/warehouse")
    assert control_plane() is ControlPlane.TEAM


@pytest.mark.parametrize("checkout", [None, Path("/somewhere")])
def test_an_airflow_cfg_is_a_teams_where_the_package_was_installed(
    checkout: Path | None, nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECKOUT", checkout)
    assert control_plane() is ControlPlane.NONE
    (nothing / "airflow" / "airflow.cfg").touch()
    expected = ControlPlane.NONE if checkout else ControlPlane.TEAM
    assert control_plane() is expected


def test_a_teams_api_is_named_with_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    api = team_api("https://ada:p%40ss@a.org:8443/team/")
    assert api.base_url == "https://a.org:8443/team"
    assert api._login == {"username": "ada", "password": "p@ss"}
    monkeypatch.setenv("AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE", "{}")
    with pytest.raises(UserError, match="set NIGHTBENCH_AIRFLOW=https://USER:PASSWORD"):
        airflow_api("")
    for wrong in ("a.org", "ftp://a:b@c", "https://a.org", "https://ada@a.org"):
        monkeypatch.setenv("NIGHTBENCH_AIRFLOW", wrong)
        with pytest.raises(UserError, match="found no address with a login") as refused:
            airflow_api("")
        assert wrong not in str(refused.value)


def test_a_command_has_the_settings_of_a_teams_airflow(
    nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NIGHTBENCH_HOME")
    written = "[core]\n[nightbench]\nspool = s3://bucket/nights\ndags = /project\n"
    (nothing / "airflow" / "airflow.cfg").write_text(written)
    take_settings()
    assert "NIGHTBENCH_SPOOL" not in os.environ  # this Airflow is nobody's
    monkeypatch.setenv("AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE", "{}")
    monkeypatch.setenv("AIRFLOW__NIGHTBENCH__WHEELS", "/wheels")
    monkeypatch.setenv("NIGHTBENCH_DAGS", "/mine")
    try:
        take_settings()
        assert locations.spool_root() == "s3://bucket/nights"
        assert locations.wheels_folder() == Path("/wheels")
        assert locations.dags_folder() == Path("/mine")
    finally:
        for name in ("NIGHTBENCH_SPOOL", "NIGHTBENCH_WHEELS"):
            os.environ.pop(name, None)
