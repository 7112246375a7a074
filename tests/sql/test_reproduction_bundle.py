"""A measurement as a bundle: it is unpacked, and its case measured again for real."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.integration.terminal import REPO, TRIAL
from typer.testing import CliRunner

from nightbench.cli.main import app
from nightbench.config import load_catalog, load_suite, locations
from nightbench.config.clusters import cluster_of
from nightbench.core.code_digest import code_digest
from nightbench.core.errors import UserError
from nightbench.core.model import RunKind
from nightbench.core.run_plan import make_plan
from nightbench.night.code_snapshot import keep_code
from nightbench.spool import Spool
from nightbench.spool.plans import PlannedJob, save_job, store_plan

CASE = "sleep-fake-collective-1x1-bs2-smoke"
TWO_NODES = "sleep-fake-collective-2x1-bs2-smoke"
SERVERS = "sleep-fake-ps-1ps1tr-bs2-async-smoke"


@pytest.fixture
def run(tmp_path, monkeypatch, warehouse, loader, given):
    """A run of the suite `trial` in the spool, with medians in the warehouse."""
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NIGHTBENCH_WAREHOUSE", warehouse.reader)
    suite_file = tmp_path / "trial.yaml"
    suite_file.write_text(TRIAL.replace("trainers: 2", "trainers: 1"))
    catalog = load_catalog(locations.benchmarks_folder())
    cluster = cluster_of("local", catalog)
    suite = load_suite(suite_file, catalog, cluster=cluster)
    plan = make_plan(
        suite,
        cluster,
        catalog,
        run_kind=RunKind.ON_DEMAND,
        requested_by="ada",
        started_at=datetime.now(UTC),
    )
    stored = store_plan(plan, Spool(tmp_path / "home" / "spool"))
    keep_code(stored, plan.run.code_digest)
    for job in plan.jobs:
        save_job(stored, PlannedJob.of(job, plan.cluster))
        stored.case(job.case.case_id).save_job(job.to_json())
    bundle = given.batch(plan.run, *(given.came_back(plan.run, job.case) for job in plan.jobs))
    loader.runs.load(dataclasses.replace(bundle, cluster=plan.cluster))
    return stored


def bundle(folder: Path, run_id: str, case_id: str = CASE) -> tuple[Path, str]:
    """The unpacked bundle of a case, and what the command said."""
    words = ["export", str(folder / "b.tar.gz"), "--run", run_id, "--case", case_id]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    # Python before 3.11.4 has no filter for what an archive may hold.
    subprocess.run(["tar", "-xzf", "b.tar.gz"], cwd=folder, check=True)
    return folder / f"{run_id}-{case_id}", done.output


def agent(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "code/agent.py", *words, "."]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("case_id", [CASE, SERVERS])
def test_the_case_is_measured_again_from_the_unpacked_bundle(run, tmp_path, case_id):
    folder, _ = bundle(tmp_path, run.run_id, case_id)
    assert code_digest(folder / "code") == code_digest(REPO / "benchmarks")
    assert "expected one with status ok" in json.loads(agent(folder, "compare").stdout)["error"]
    done = agent(folder, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["cases"] == {case_id: ["ok", "ok"]}
    found = json.loads(agent(folder, "compare").stdout)
    assert (found["original"], found["here"]["n"]) == ({"median": 11.0, "n": 3}, 2)
    assert found["ratio"] == found["here"]["median"] / 11.0
    assert found["here"]["median"] > 0


def test_a_bundle_says_what_was_measured_and_how_to_do_it_again(run, tmp_path):
    folder, _ = bundle(tmp_path, run.run_id)
    read = {
        name: json.loads((folder / f"{name}.json").read_text())
        for name in (
            "measurement",
            "repeats",
            "fingerprints",
            f"jobs/{CASE}/job",
        )
    }
    assert read["measurement"]["throughput"] == 11.0
    assert [row["throughput"] for row in read["repeats"]] == [10.0, 11.0, 12.0]
    assert read["fingerprints"]["n1"]["schema"] == "nightbench.fingerprint/1"
    assert read[f"jobs/{CASE}/job"]["nodes"][0]["data_address"] == "127.0.0.1"
    said = (folder / "README.md").read_text()
    assert "11 images/s, the median of 3 repeats" in said
    assert "python3 code/agent.py run .\n" in said
    assert f"nightbench run trial --case {CASE} --build fake=2.13.0 --cluster local" in said


def test_a_case_of_several_nodes_says_that_one_machine_will_not_do(run, tmp_path):
    folder, said = bundle(tmp_path, run.run_id, TWO_NODES)
    assert "the case needs 2 nodes" in said
    assert not (folder / "export.json").exists()
    assert (
        "This archive alone is not enough: the case needs 2 nodes"
        in (folder / "README.md").read_text()
    )


def test_what_has_left_the_spool_is_named_and_the_rest_is_there(run, tmp_path):
    run.remove()
    folder, said = bundle(tmp_path, run.run_id)
    assert "the job is no longer in the spool" in said
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "fingerprints.json",
        "measurement.json",
        "repeats.json",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--case: found none; expected the case to bundle"),
        (["--case", "x"], "found no measurement of x that passed its checks"),
    ],
)
def test_a_bundle_is_of_one_measured_case(run, tmp_path, words, said):
    argv = ["export", str(tmp_path / "b.tar.gz"), "--run", run.run_id, *words]
    with pytest.raises(UserError, match=said):
        CliRunner().invoke(app, argv, catch_exceptions=False)
    assert not (tmp_path / "b.tar.gz").exists()
