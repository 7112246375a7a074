"""The conversation with a controller, against the real agent.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

AGENT = Path(__file__).resolve().parents[3] / "benchmarks" / "agent.py"


class Follower:
    """`agent.py follow` in a process of its own."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(AGENT), "follow"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def send(self, *requests: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(json.dumps(r).encode() + b"\n" for r in requests))

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        document: dict[str, Any] = json.loads(self.process.stdout.readline())
        return document

    def ask(self, **request: Any) -> dict[str, Any]:
        self.send({"id": 1, "repeat": None, "epoch": 1, "lease": None, **request})
        return self.hear()


@pytest.fixture
def follower() -> Iterator[Follower]:
    made = Follower()
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(10) == 0
    assert made.process.stdout is not None
    made.process.stdout.close()


def test_a_users_pythonpath_hides_no_module(tmp_path: Path) -> None:
    for module in ("json", "argparse", "typing"):
        (tmp_path / f"{module}.py").write_text("raise RuntimeError('of the user')")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{tmp_path / 'none'}"}
    words = [sys.executable, str(AGENT), "follow"]
    done = subprocess.run(words, input=b"", env=env, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "control" / "epoch-0001").mkdir(parents=True)
    (tmp_path / "repeats" / "001").mkdir(parents=True)
    return tmp_path


def show(job: Path, name: str, document: dict[str, Any]) -> None:
    beside = job / "beside"
    beside.write_text(json.dumps(document))
    beside.rename(job / name)


def test_it_shows_agent_state_and_epoch(follower: Follower, job: Path) -> None:
    empty = follower.ask(jobdir=str(job), repeat=1)
    assert (empty["agent"], empty["state"], empty["epoch"]) == (None, None, 1)
    show(job, "agent.json", {"state": "idle"})
    show(job, "repeats/001/state.json", {"state": "ready", "processes": {}})
    (job / "control" / "epoch-0012").mkdir()
    seen = follower.ask(jobdir=str(job), repeat=1)
    assert (seen["agent"]["state"], seen["state"]["state"], seen["epoch"]) == ("idle", "ready", 12)
    assert follower.ask(jobdir=str(job))["state"] is None


def test_a_lease_is_renewed_only_below_no_higher_epoch(follower: Follower, job: Path) -> None:
    assert follower.ask(jobdir=str(job), lease="1 1\n")["renewed"] is True
    assert (job / "control" / "lease").read_text() == "1 1\n"
    (job / "control" / "epoch-0002").mkdir()
    refused = follower.ask(jobdir=str(job), lease="1 2\n")
    assert (refused["renewed"], refused["epoch"]) == (False, 2)
    assert (job / "control" / "lease").read_text() == "1 1\n"
    assert follower.ask(jobdir=str(job), epoch=2, lease="2 1\n")["renewed"] is True


@pytest.mark.timeout(60)
def test_steps_are_kept_back_and_what_matters_is_told_at_once(
    follower: Follower, job: Path
) -> None:
    def state(step: int, code: int | None) -> dict[str, Any]:
        process = {"phase": "window", "step": step, "exit_code": code}
        return {"state": "running", "t_s": step, "processes": {"trainer-0": process}}

    show(job, "repeats/001/state.json", state(1, None))
    digest = follower.ask(jobdir=str(job), repeat=1, seen=None, wait_s=30)["digest"]
    show(job, "repeats/001/state.json", state(2, None))
    later = follower.ask(jobdir=str(job), repeat=1, seen=digest, wait_s=0.3)
    assert (later["digest"], later["state"]["t_s"]) == (digest, 2)

    patient = {"id": 7, "jobdir": str(job), "repeat": 1, "epoch": 1, "seen": digest, "wait_s": 6000}
    follower.send(patient)
    show(job, "repeats/001/state.json", state(2, 1))
    told = follower.hear()
    assert told["id"] == 7
    assert told["state"]["processes"]["trainer-0"]["exit_code"] == 1


def test_one_waiting_gang_does_not_hold_up_another_or_the_clock(
    follower: Follower, job: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "control").mkdir(parents=True)
    digest = follower.ask(jobdir=str(job))["digest"]
    wait = {"id": 1, "jobdir": str(job), "epoch": 1, "repeat": None, "seen": digest, "wait_s": 60}
    quick = {"id": 2, "jobdir": str(other), "epoch": 1, "repeat": None}
    follower.send(wait, quick, {"id": 3, "clock": True})
    answers = {answer["id"]: answer for answer in (follower.hear(), follower.hear())}
    assert sorted(answers) == [2, 3]
    assert abs(answers[3]["monotonic_s"] - time.monotonic()) < 60


def test_what_cannot_be_written_is_said(follower: Follower, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    said = follower.ask(jobdir=str(gone), lease="1 1\n")["error"]
    assert str(gone) in said
