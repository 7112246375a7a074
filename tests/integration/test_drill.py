"""`nightbench drill` over real SSH: nights are measured, slowed, judged, and the alert arrives."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.terminal import REPO, Terminal, terminal

from nightbench.config import load_catalog, load_suite
from nightbench.core.run_plan import definition_digest
from nightbench.spool import Spool

CASE = "sleep-fake-single-1x1-bs2"
SUITE = """\
suite: trial
owner: tests
cluster: local
scale: full # steps of 50 ms: steady on a busy machine
protocol: {warmup_steps: 2, measured_steps: 15, repeats: 2}
policy: {min_history: 7, min_change: 5%}
matrix:
  - workload: sleep
    frameworks: fake
    strategy: single
    devices: 1x1
    batch_size_per_device: 2
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with terminal(tmp_path_factory.mktemp("drill"), SUITE) as made:
        yield made


def plan_of(place: Path) -> str:
    """The definition of the case as real nights measure it."""
    catalog = load_catalog(REPO / "benchmarks")
    suite = load_suite(place / "dags/suites/trial.yaml", catalog)
    (case,) = suite.cases
    return definition_digest(case, catalog.workloads[case.workload], suite.protocol)


@pytest.mark.slow
def test_interrupted_and_resumed_the_alert_of_a_real_slowdown_arrives(here: Terminal) -> None:
    words = ["drill", "trial", "--size", "50%", "--nights", "12"]
    running = here.begin(*words, until="night 3 of 12")
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 130, said
    (folder,) = here.spool.comparisons()

    done = here.run("drill", "--resume", folder.run_id, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["false_alarms"] == []
    # Night 8 is the first slowed one; one night never alerts.
    assert 9 <= document["found"] <= 12
    assert document["found"] == 7 + document["delay"]
    nights = document["nights"]
    usual = [night["value"] for night in nights[:7]]
    slowed = [night["value"] for night in nights[7:]]
    assert max(slowed) / max(usual) == pytest.approx(0.5, abs=0.1)
    assert [night["sleep_s"] > 0 for night in nights] == [False] * 7 + [True] * len(slowed)
    assert "Drill: Nightbench drill-trial on local" in done.stderr
    assert "Nothing is wrong" in done.stderr

    # Each night is a real run of real launches, and its sleep stands in job and result.
    last = Spool(folder.folder).run(f"{folder.run_id}-n{document['found']:02d}")
    store = last.latest(CASE)
    assert store is not None
    job, result = store.job(), store.result(1, "n1")
    assert job is not None
    assert result is not None
    said = float(job["env"]["NIGHTBENCH_DRILL_SLEEP_S"])
    assert said == nights[-1]["sleep_s"]
    assert result["processes"][0]["summary"]["drill_sleep_s"] == said
    assert (last.run() or {})["run_kind"] == "drill"
    # Nothing that loads runs finds them; what is measured is what real nights measure.
    assert here.spool.runs() == []
    assert job["definition_digest"] == plan_of(here.place)
    first = Spool(folder.folder).run(f"{folder.run_id}-n01").latest(CASE)
    assert first is not None
    assert (first.job() or {})["definition_digest"] == job["definition_digest"]
    assert "NIGHTBENCH_DRILL_SLEEP_S" not in (first.job() or {})["env"]


@pytest.mark.slow
def test_too_few_nights_are_refused_before_anything_is_measured(here: Terminal) -> None:
    before = len(here.spool.comparisons())
    few = here.run("drill", "trial", "--nights", "8")
    assert few.returncode == 1
    assert "expected at least 9" in few.stderr
    unjudged = here.run("drill", "trial", "--before", "3")
    assert unjudged.returncode == 1
    assert "before: found 3; expected at least 7" in unjudged.stderr
    assert len(here.spool.comparisons()) == before


@pytest.mark.slow
def test_a_night_that_fails_is_named_and_measured_anew(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("failing")
    broken = place / "broken"
    broken.touch()
    python = place / "prefix/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\n[ -e {broken} ] && exit 7\nexec python3 "$@"\n')
    python.chmod(0o755)
    suite = SUITE + f"builds: {{fake: {{path: {place / 'prefix'}}}}}\n"
    with terminal(place, suite) as here:
        failed = here.run("drill", "trial")
        assert failed.returncode == 1
        (folder,) = here.spool.comparisons()
        assert "night 1: sleep-fake-single-1x1-bs2 failed" in failed.stderr
        assert f"nightbench drill --resume {folder.run_id}" in failed.stderr

        broken.unlink()
        going = here.begin("drill", "--resume", folder.run_id, until="night 1 of 14")
        going.send_signal(signal.SIGINT)
        said, _ = going.communicate(timeout=300)
        assert going.returncode == 130, said
    night = Spool(folder.folder).run(f"{folder.run_id}-n01")
    assert night.generations(CASE) == [0, 1]
    assert (night.run() or {})["ended_at"]
