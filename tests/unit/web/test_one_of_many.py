"""One damaged file of the spool takes no route of the pages with it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.damage import DAMAGES
from tests.sql.spooled import case

from nightbench.spool import Spool
from nightbench.web.health_api import node_activity

RUNS = ("s-1", "s-2", "s-3")
CASES = (case(1).case_id, case(2).case_id)
DAMAGES = {**DAMAGES, "object": lambda path: path.write_text('{"unknown": 1}')}


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Three runs under way, each with two cases."""
    spool = Spool(tmp_path / "spool")
    for run_id in RUNS:
        for case_id in CASES:
            store = spool.run(run_id).case(case_id, 0)
            store.save_job({"nodes": [{"name": "n1"}]})
            store.save_progress({"state": "running", "repeat": 1, "repeats": 7})
    return spool


def file_of(spool: Spool, name: str) -> Path:
    return Path(spool.run("s-2").case(CASES[0], 0).folder.path) / name


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["job.json", "progress.json", "outcome.json"])
def test_cases_under_way_are_listed_without_the_damaged_one(
    spool: Spool, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = file_of(spool, name)
    damaged.touch()
    DAMAGES[damage](damaged)
    runs = [{"run_id": run_id, "cluster": "pair"} for run_id in RUNS]
    with caplog.at_level(logging.WARNING):
        found = {(each.run_id, each.case_id) for each in node_activity(spool, runs)}
    whole = {(run_id, case_id) for run_id in RUNS for case_id in CASES}
    assert found == whole - {("s-2", CASES[0])}
