"""`nightbench alert test`, and the commands that messages name: on the real command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from tests.sql.nights import receiving
from tests.unit.cli.test_command import CLUSTER, SUITE, nightbench

from nightbench.core.reproduce import command_of

CASE = "sleep-fake-collective-1x1-bs2-smoke"
STATE = {"line": "fake", "source": "index", "build_version": "1.0"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for folder in ("clusters", "suites"):
        (tmp_path / "dags" / folder).mkdir(parents=True)
    (tmp_path / "dags/clusters/pair.yaml").write_text(CLUSTER)
    (tmp_path / "dags/suites/trial.yaml").write_text(SUITE)
    return tmp_path


def test_each_channel_gets_one_and_one_that_fails_is_said(place: Path) -> None:
    with receiving() as one, receiving() as other:
        routes = f"[{{owner: ops, alerts: ['{other.url}', '{one.url}', 'json://127.0.0.1:1']}}]"
        text = f"{SUITE}alerts: ['{one.url}']\nroutes: {routes}\n"
        (place / "dags/suites/trial.yaml").write_text(text)
        done = nightbench(place, "alert", "test", "trial", "--json")
    assert done.returncode == 1, done.stderr
    found = [(each["channel"], each["sent"]) for each in json.loads(done.stdout)]
    assert found == [
        ("alerts[0] json", True),
        ("routes[0].alerts[0] json", True),
        ("routes[0].alerts[2] json", False),
    ]
    for inbox in (one, other):
        (said,) = inbox.messages
        assert said["title"] == "Nightbench trial: a test message"
        assert [a["mimetype"] for a in said["attachments"]] == ["image/png"]


def test_a_suite_without_a_channel_is_told_so(place: Path) -> None:
    done = nightbench(place, "alert", "test", "trial")
    assert done.returncode == 1
    assert "trial.yaml: found no channel" in done.stderr


def test_the_command_in_a_message_goes_as_far_as_the_node(place: Path) -> None:
    words = shlex.split(command_of("trial", CASE, STATE, STATE))
    done = nightbench(place, *words[1:])
    assert "Airflow does not run" in done.stderr
    other = shlex.split(command_of("trial", CASE, STATE, STATE | {"build_version": "2.0"}))
    assert other[:2] == ["nightbench", "compare"]
    done = nightbench(place, *other[1:])
    # All of the command line is understood: what is missing is a way to the nodes.
    assert "connection" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
