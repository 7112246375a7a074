"""A run that was planned earlier is still read: its plan, its cluster and its jobs in the spool.

`golden/planned-run` is what this version writes. Once a version was released, a version that writes
another form adds a folder and reads both as long as runs of the older one are kept.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nightbench.core.model import ClockOffset
from nightbench.night import cluster_preflight
from nightbench.nodes import FindingLevel
from nightbench.spool import RunSpool, Spool
from nightbench.spool.documents import DamagedDocument
from nightbench.spool.plans import (
    load_job,
    read_plan,
    save_job,
    store_plan,
)

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden" / "planned-run"
RUN = "demo-20261123T010000-0001"


@pytest.fixture
def run(tmp_path: Path) -> RunSpool:
    shutil.copytree(GOLDEN, tmp_path / "runs" / RUN)
    return Spool(tmp_path).run(RUN)


def test_its_jobs_are_sent_to_nodes_as_they_would_be_today(run: RunSpool) -> None:
    schema = json.loads((ROOT / "benchmarks/contract/job.schema.json").read_text())
    jobs = sorted(path.stem for path in (GOLDEN / "jobs").iterdir())
    assert len(jobs) == 2
    for case_id in jobs:
        planned = load_job(run, case_id, generation=1)
        assert planned.job.job_id == f"{RUN}/{case_id}/g1"
        Draft202012Validator(schema).validate(json.loads(json.dumps(planned.job.to_json())))


def test_its_plan_is_loaded_with_all_that_it_says(run: RunSpool) -> None:
    plan = read_plan(run)
    assert (plan.run.run_id, plan.run.suite, plan.owner) == (RUN, "demo", "benchmarks")
    assert len(plan.cases) == 6
    assert (plan.policy.min_change, plan.policy.reported_from) == (0.03, 0.03)
    assert {case.planned.case.framework for case in plan.cases} == {"paddle2", "paddle3", "pytorch"}


def test_its_preflight_still_leaves_nodes_out(run: RunSpool) -> None:
    known = cluster_preflight.read(run)
    assert known is not None
    assert [reason.observed for reason in known.out["n2"]] == ["no answer within 10 s"]
    assert known.policy.quarantine_after == 5
    one, two = known.health.nodes
    assert one.seen.clock == ClockOffset(1.5, 1e-5)
    assert [(f.level, f.what) for f in two.findings] == [(FindingLevel.FAIL, "node_unreachable")]
    assert known.health.controls[0].values == (1.0e9, 1.1e9)
    assert known.health.busy == ("n1",)


def test_a_plan_before_a_field_with_a_default_is_read(run: RunSpool) -> None:
    planned = run.planned()
    for case in planned:
        del case["rounding_grows"]
    (run.folder / "planned.json").write_text(json.dumps(planned))
    assert not any(case.rounding_grows for case in read_plan(run).cases)
    for case in planned:
        del case["processes"]
    (run.folder / "planned.json").write_text(json.dumps(planned))
    with pytest.raises(DamagedDocument, match="Start a new run"):
        read_plan(run)


def test_nothing_of_it_is_lost_when_it_is_written_again(run: RunSpool, tmp_path: Path) -> None:
    again = Spool(tmp_path / "again").run(RUN)
    store_plan(read_plan(run), Spool(tmp_path / "again"))
    for path in (GOLDEN / "jobs").iterdir():
        save_job(again, load_job(run, path.stem, generation=0))
    known = cluster_preflight.read(run)
    assert known is not None
    cluster_preflight.save(again, known.health, known.policy, known.out)
    for path in GOLDEN.rglob("*.json"):
        name = path.relative_to(GOLDEN)
        written = json.loads((tmp_path / "again" / "runs" / RUN / name).read_text())
        assert not list(differences(json.loads(path.read_text()), written, str(name)))


def differences(before: Any, after: Any, where: str) -> Iterator[str]:
    """What was written otherwise, or is gone; a later version may write more."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from differences(value, after.get(key, "gone"), f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif before != after:
        yield f"{where}: {before!r} became {after!r}"
