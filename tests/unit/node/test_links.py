"""The limit on a node's link: set before a case, taken away after it, whoever dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from node_driver import one_node, wait_until, why


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Writes down what it is called with, as a site's program would set it."""
    script = tmp_path / "limit-link"
    script.write_text(
        f'#!/bin/sh\n[ "$2" != 7mbit ] || {{ echo no root; exit 4; }}\n'
        f'echo "$@" >> {tmp_path}/calls\n'
    )
    script.chmod(0o755)
    return [str(script), "eth0"]


def calls(command: list[str]) -> list[str]:
    path = Path(command[0]).with_name("calls")
    return path.read_text().splitlines() if path.exists() else []


def limited(command: list[str], bandwidth: str = "100mbit") -> dict:
    document = one_node(link_command=command)
    document["case"]["link_bandwidth"] = bandwidth
    return document


def test_the_link_is_limited_for_the_case_alone(drive, command):
    node = drive(limited(command))
    node.go()
    assert node.result()["status"] == "ok"
    assert calls(command) == ["eth0 100mbit"]
    node.stop()
    wait_until(lambda: calls(command) == ["eth0 100mbit", "eth0 full"])


def test_a_killed_agent_leaves_no_limit(drive, command):
    node = drive(limited(command), params={"hang_at_step": 2})
    node.go()
    os.kill(node.agent()["pid"], signal.SIGKILL)
    wait_until(lambda: calls(command)[-1:] == ["eth0 full"])


def test_a_case_at_full_bandwidth_takes_away_what_was_left(drive, command):
    node = drive(limited(command, "full"))
    node.go()
    assert node.result()["status"] == "ok"
    assert calls(command) == ["eth0 full"]


def test_a_link_that_cannot_be_limited_fails_the_job(drive, command):
    node = drive(limited(command, "7mbit"), start=False)
    node.start()
    ended = wait_until(lambda: (a := node.agent()).get("state") == "ended" and a)
    assert "the link cannot be set to 7mbit" in why(ended)
    assert "no root (exit code 4)" in why(ended)
