"""`nightbench compare` over real SSH: two builds, one slower, by wrappers of a Python."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.terminal import Terminal, marked, terminal, wait_for_a_launch

CASE = "sleep-fake-single-1x1-bs2-smoke"
SUITE = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 10, repeats: 7}
matrix:
  - workload: sleep
    frameworks: fake
    strategy: single
    devices: 1x1
    batch_size_per_device: 2
"""


def prefix(folder: Path, **knobs: str) -> Path:
    """A build of the line fake: a prefix whose python sets the knobs of a rank."""
    python = folder / "bin/python"
    python.parent.mkdir(parents=True)
    words = " ".join(f"FAKE_{name.upper()}={value}" for name, value in knobs.items())
    python.write_text(f'#!/bin/sh\n{words} exec python3 "$@"\n')
    python.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal with some builds."""
    place = tmp_path_factory.mktemp("ab")
    prefix(place / "usual", step_s="0.06")
    prefix(place / "slower", step_s="0.09")
    prefix(place / "broken", die_at_step="3")
    with terminal(place, SUITE) as made:
        yield made


def builds(here: Terminal, a: str, b: str) -> list[str]:
    return [f"fake={here.place / a}", f"fake={here.place / b}"]


@pytest.mark.slow
def test_a_slower_build_is_reported_with_its_ratio(here: Terminal) -> None:
    words = [*builds(here, "usual", "slower"), "--case", CASE, "--rounds", "4", "--json"]
    done = here.run("compare", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    (row,) = document["cases"]
    assert (document["verdict"], row["verdict"], row["n"]) == ("slower", "slower", 4)
    # Half as much sleep again, less what a step costs: clear on a busy machine too.
    assert row["low"] < row["ratio"] < row["high"] < 0.99
    assert row["ratio"] == pytest.approx(1 / 1.5, abs=0.1)
    orders = row["order"]
    assert {*orders} == {"AB", "BA"}
    assert all(one != next_one for one, next_one in itertools.pairwise(orders))
    # The figures are those of the steps: the same rules as for every other run.
    launches = here.spool.comparison(document["id"])
    sides = {"a": [], "b": []}  # type: dict[str, list[float]]
    for number in range(8):
        store = launches.case(CASE, number)
        result, job = store.result(1, "n1"), store.job()
        assert result is not None
        assert job is not None
        assert job["job_id"] == f"{document['id']}/{CASE}/g{number}"
        summary = result["processes"][0]["summary"]
        samples = summary["samples_per_step"] * len(summary["step_seconds"])
        side = "a" if job["framework"]["build_id"] == document["a"]["build_id"] else "b"
        sides[side].append(samples / summary["window"]["wall_s"])
    assert [each["a"] for each in row["rounds"]] == pytest.approx(sides["a"])
    assert [each["b"] for each in row["rounds"]] == pytest.approx(sides["b"])
    assert here.spool.runs() == []  # no history, no baseline knows of it
    assert marked(document["id"]) == []

    page = here.place / "profile.html"
    done = here.run(
        "compare", "profile", document["id"], "--steps", "20", "--html", str(page), "--json"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["of"] == document["id"]
    (case,) = found["cases"]
    first = case["operators"][0]
    # The slower build sleeps 30 ms longer in the one sleep of each step.
    assert (first["name"], first["a_calls"], first["b_calls"]) == ("time.sleep", 1, 1)
    assert first["difference_s"] > 0.01
    assert any(stack.endswith(";time.sleep") for stack in case["b_stacks"])
    assert "time.sleep" in page.read_text()
    assert marked(found["id"]) == []
    other = here.place / "new" / "page.html"
    again = here.run("compare", "profile", found["id"], "--html", str(other))
    assert again.returncode == 0, again.stdout + again.stderr
    assert "time.sleep" in again.stdout
    assert here.spool.comparisons()[-1].run_id == found["id"]  # nothing was launched for it
    assert "time.sleep" in other.read_text()


@pytest.mark.slow
def test_interrupted_killed_and_resumed_a_build_beside_itself_is_never_slower(
    here: Terminal,
) -> None:
    words = [*builds(here, "usual", "usual"), "--suite", "trial", "--rounds", "3"]
    running = here.begin("compare", *words, until="round 1 of 3")
    comparison_id = here.spool.comparisons()[-1].run_id
    wait_for_a_launch(comparison_id, running)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 130, said
    assert f"nightbench compare --resume {comparison_id}" in said
    assert marked(comparison_id) == []

    running = here.begin("compare", "--resume", comparison_id, until="round 1 of 3")
    wait_for_a_launch(comparison_id, running)
    running.kill()
    running.communicate()

    done = here.run("compare", "--resume", comparison_id, "--json")
    assert done.returncode in (0, 3), done.stdout + done.stderr
    document = json.loads(done.stdout)
    (row,) = document["cases"]
    assert row["verdict"] == ("same" if done.returncode == 0 else "inconclusive")
    assert (row["n"], row["stopped"]) == (3, None)
    assert row["dropped"][0]["status"] == "interrupted"
    assert marked(comparison_id) == []
    again = here.run("compare", "--resume", comparison_id)
    assert again.returncode == done.returncode
    assert f"{row['ratio']:.4f}" in again.stdout


@pytest.mark.slow
def test_cancelled_from_elsewhere_it_ends_without_a_verdict(here: Terminal) -> None:
    words = [*builds(here, "usual", "usual"), "--suite", "trial", "--rounds", "3"]
    running = here.begin("compare", *words, until="3 rounds on local")
    comparison_id = here.spool.comparisons()[-1].run_id
    wait_for_a_launch(comparison_id, running)
    told = here.run("cancel", comparison_id)
    assert told.returncode == 0, told.stdout + told.stderr
    assert f"nightbench compare --resume {comparison_id}" in told.stdout
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 3, said
    assert "cancelled by the user" in said
    assert marked(comparison_id) == []


@pytest.mark.large
def test_a_build_that_breaks_gives_no_verdict_and_is_named(here: Terminal) -> None:
    done = here.run("compare", *builds(here, "usual", "broken"), "--case", CASE)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "launches of B failed 2 times in a row" in done.stdout
    assert "trainer-0 exited with code 1" in done.stdout


def test_a_prefix_that_is_not_there_is_told_before_anything_is_measured(here: Terminal) -> None:
    done = here.run("compare", *builds(here, "usual", "nowhere"), "--case", CASE)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "bin/python is not there" in done.stderr
    comparison = here.spool.comparisons()[-1]
    assert comparison.case_ids() == []
