"""`nightbench compare bisect` over real SSH: wheels of a small framework, some of them slower."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.terminal import Terminal, terminal
from tests.integration.toy_line import make_benchmarks, make_wheel

from nightbench.spool import RunSpool

CASE = "sleep-toy-single-1x1-bs2-smoke"
SUITE = """\
suite: trial
owner: tests
cluster: local
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 15, repeats: 3}
matrix:
  - workload: sleep
    frameworks: toy
    strategy: single
    devices: 1x1
    batch_size_per_device: 2
"""
STEPS_S = {"1.9.0": 0.02, "1.10.0": 0.02, "1.11.0rc1": 0.02, "1.11.0": 0.03, "1.12.0": 0.03}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    place = tmp_path_factory.mktemp("bisect")
    wheels = {version: make_wheel(place / "wheels", version, s) for version, s in STEPS_S.items()}
    make_wheel(place / "wheels", "2.0.0", 0.03)
    shipped = place / "benchmarks"
    make_benchmarks(shipped, wheels["1.9.0"])
    more = {"NIGHTBENCH_BENCHMARKS": str(shipped)}
    with terminal(place, SUITE, place / "wheels", **more) as made:
        yield made


def bisects(here: Terminal) -> list[RunSpool]:
    """The bisects of this terminal, oldest first, without their comparisons."""
    folders = here.spool.comparisons()
    return [each for each in folders if (each.folder / "steps").exists()]


@pytest.mark.slow
def test_killed_in_a_test_it_goes_on_and_finds_the_version(here: Terminal) -> None:
    before = {each.run_id for each in bisects(here)}
    compared = len(here.spool.comparisons())
    words = ["--good", "1.10.0", "--bad", "1.12.0", "--case", CASE, "--rounds", "3"]
    running = here.begin("compare", "bisect", *words, until="round 2 of 3")
    running.kill()
    running.communicate()
    (folder,) = (each for each in bisects(here) if each.run_id not in before)
    begun = json.loads((folder.folder / "steps/001.json").read_text())
    assert begun["status"] == "running"

    done = here.run("compare", "bisect", "--resume", folder.run_id, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert (document["outcome"], document["first_bad"]) == ("found", "1.11.0")
    assert document["last_good"] == "1.10.0"
    # By version, not by text; a candidate is no final version, and 2.0.0 lies beyond.
    assert document["versions"] == ["1.10.0", "1.11.0", "1.12.0"]
    steps = document["steps"]
    first = steps[0]
    assert first["comparison_id"] == begun["comparison_id"]
    # On a busy machine three rounds may leave it open; then the same version has six.
    tests = [(s["kind"], s["version"], s["result"]) for s in steps if s["result"] != "unsure"]
    assert tests == [("check", "1.12.0", "bad"), ("search", "1.11.0", "bad")]
    assert {s["version"] for s in steps if s["result"] == "unsure"} <= {"1.11.0", "1.12.0"}
    # Steps of 20 ms and of 30 ms.
    assert 0.6 < first["ratio"] < 0.8
    # One comparison for each test: nothing was measured twice, and none is a run.
    assert len(here.spool.comparisons()) - compared == 1 + len(steps)
    assert here.spool.runs() == []
    again = here.run("compare", "bisect", "--resume", folder.run_id)
    assert again.returncode == 0
    assert "1.11.0 is the first bad version; 1.10.0 before it is good" in again.stdout


@pytest.mark.slow
def test_the_version_that_changes_the_training_is_found_at_equal_speed(here: Terminal) -> None:
    for version, factor in (("3.0.0", 1.0), ("3.1.0", 1.0), ("3.2.0", 1.1), ("3.3.0", 1.1)):
        body = f"VERSION = {version!r}\nSTEP_S = 0.02\nLOSS_FACTOR = {factor}\n"
        make_wheel(here.place / "wheels", version, 0.02, body=body)
    words = ["--good", "3.0.0", "--bad", "3.3.0", "--case", CASE, "--rounds", "3"]
    done = here.run("compare", "bisect", *words, "--metric", "training", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert (document["outcome"], document["first_bad"]) == ("found", "3.2.0")
    whys = [step["why"] for step in document["steps"]]
    assert whys[0].startswith("training changed from step 1 on: first loss ")
    assert "trains the same: losses of 3 launches equal those of A within rounding" in whys


@pytest.mark.slow
def test_cancelled_from_elsewhere_it_stops(here: Terminal) -> None:
    words = ["--good", "1.9.0", "--bad", "1.12.0", "--case", CASE, "--rounds", "30"]
    running = here.begin("compare", "bisect", *words, until="round 1 of 30")
    folder = bisects(here)[-1]
    ended = here.run("cancel", folder.run_id)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"compare bisect --resume {folder.run_id}" in ended.stdout
    running.communicate(timeout=300)
    assert running.returncode == 3
    again = here.run("cancel", folder.run_id)
    assert again.returncode == 0, again.stderr
    assert f"{folder.run_id} had ended at" in again.stdout
    assert "nothing was changed" in again.stdout


@pytest.mark.large
def test_what_cannot_be_tested_is_skipped_and_the_range_is_told(here: Terminal) -> None:
    make_wheel(here.place / "wheels", "1.11.1", 0.03, body="raise ImportError('broken')\n")
    # One that nobody ever published, and one that does not load.
    named = "1.10.5,1.11.1"
    words = ["--good", "1.10.0", "--bad", "1.12.0", "--case", CASE, "--rounds", "3"]
    done = here.run("compare", "bisect", *words, "--versions", named, "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["outcome"] == "range"
    assert document["suspects"] == ["1.10.5", "1.11.1", "1.12.0"]
    reasons = {step["version"]: step["why"] for step in document["steps"]}
    assert "it cannot be installed" in reasons["1.10.5"]
    assert "launches of B failed 2 times in a row" in reasons["1.11.1"]


def test_a_bad_version_that_is_not_newer_is_refused(here: Terminal) -> None:
    done = here.run("compare", "bisect", "--good", "1.12.0", "--bad", "1.9.0", "--case", CASE)
    assert done.returncode == 2
    assert "expected bad to be newer" in done.stderr
