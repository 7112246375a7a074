"""One damaged file of the spool takes nothing else with it, and is shown with its reason."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.damage import DAMAGES, NAMES
from tests.sql.spooled import case, spooled

from nightbench.cli import cancel
from nightbench.cli.runs import spooled as listed
from nightbench.core.model import CaseStatus, Run, RunKind
from nightbench.core.sentences import sentences
from nightbench.night import ingest, load_batch
from nightbench.night.load_batch import build_load_batch
from nightbench.night.staged_wheels import remove_unused_wheels
from nightbench.spool import RunSpool, Spool, SpoolError
from nightbench.web.repeat_views import RepeatFiles

NOW = datetime(2026, 11, 10, tzinfo=UTC)
RUNS = ("s-1", "s-2", "s-3")
FIRST, SECOND = case(1), case(2)


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    """Three runs that have ended, each of two cases with three repeats."""
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    # Great Expectations needs a second for a run, and no file of the spool.
    monkeypatch.setattr(load_batch, "check_repeats", lambda *_: ())
    monkeypatch.setattr(load_batch, "check_measurements", lambda pairs: [()] * len(pairs))
    spool = Spool(tmp_path / "spool")
    for number, run_id in enumerate(RUNS):
        run = Run(
            run_id,
            "s",
            "pair",
            RunKind.NIGHTLY,
            NOW - timedelta(hours=9 - number),
            dag_id="nightly_s",
            dag_run_id=f"scheduled__{number}",
        )
        spooled(spool, run, {FIRST: 100.0, SECOND: 50.0}, fingerprint={"id": "f1"})
    return spool


def file_of(run: RunSpool, name: str) -> Path:
    """Return a file of a run as a path of this machine; `g0/…` is one of its first case."""
    folder = Path(run.folder.path)
    return folder / name.replace("g0/", f"cases/{FIRST.case_id}/g0/")


def read_as_many(spool: Spool) -> None:
    """Do all that is done with all runs of a spool."""
    ingest.close_ended(spool, lambda dag_id, dag_run_id: "success", NOW)
    ingest.close_ended(spool, lambda dag_id, dag_run_id: None, NOW + timedelta(days=9))
    listed(spool, None, None)
    remove_unused_wheels(spool, NOW)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["run.json", "planned.json", "control.lock", "loaded.json"])
def test_a_damaged_file_of_a_run_leaves_the_other_runs_alone(
    spool: Spool, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = file_of(spool.run("s-2"), name)
    damaged.touch()
    DAMAGES[damage](damaged)
    with caplog.at_level(logging.WARNING):
        read_as_many(spool)
        for run in ingest.waiting_runs(spool):
            if run.run_id != "s-2":
                assert [each.status for each in build_load_batch(run).cases] == [CaseStatus.OK] * 2
    rows = {row["run_id"]: row["state"] for row in listed(spool, None, None)}
    assert {*RUNS} - {"s-2"} <= {*rows}
    if name == "run.json" or (name == "planned.json" and damage != "list"):
        assert str(damaged) in caplog.text + rows.get("s-2", "")
        with pytest.raises(SpoolError, match=name):
            build_load_batch(spool.run("s-2"))
    assert spool.expire(0, NOW) == [] or name == "loaded.json"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "name",
    [
        *("g0/outcome.json", "g0/repeat-002/n1.json", "g0/repeat-002/controller.json"),
        *("g0/fingerprint-n1.json", "g0/progress.json", "g0/job.json"),
    ],
)
def test_a_damaged_file_of_a_case_costs_the_least(
    spool: Spool, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = file_of(spool.run("s-2"), name)
    damaged.touch()
    DAMAGES[damage](damaged)
    read_as_many(spool)
    if damage == "unreadable" and name in ("g0/outcome.json", "g0/repeat-002/n1.json"):
        # What cannot be opened may be opened later: the run waits.
        with pytest.raises(SpoolError, match="cannot be read"):
            build_load_batch(spool.run("s-2"))
        return
    first, second = build_load_batch(spool.run("s-2")).cases
    assert second.status is CaseStatus.OK
    statuses = [each.record.status for each in first.repeats]
    if name == "g0/outcome.json":
        assert first.status is CaseStatus.FAILED
        assert str(damaged) in sentences(first.reasons)
    elif (name, damage) == ("g0/repeat-002/controller.json", "unreadable"):
        assert statuses == ["ok", "ok"]  # a link to nothing is no record
    elif "repeat" in name:
        assert first.status is CaseStatus.OK
        assert statuses == ["ok", "failed", "ok"]
        assert "repeat-002" in sentences(first.repeats[1].record.reasons)
    else:
        assert first.status is CaseStatus.OK
        assert statuses == ["ok"] * 3
    files = RepeatFiles(spool, "s-2", FIRST.case_id, 0, 1)
    assert files.samples() == {"n1": []}
    assert RepeatFiles(spool, "s-2", FIRST.case_id, 0, 2).samples().keys() <= {"n1"}
    if name == "g0/fingerprint-n1.json":
        assert str(damaged) in caplog.text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folder", ["runs", "runs/s-2/cases", "comparisons", "uploads", "dag_runs"])
def test_a_folder_that_is_none_of_ours_is_passed_over(spool: Spool, folder: str, name: str) -> None:
    (Path(spool.root.path) / folder / name / "g0").mkdir(parents=True)
    read_as_many(spool)
    assert [run.run_id for run in spool.runs()] == [*RUNS]
    assert spool.run("s-2").case_ids() == sorted([FIRST.case_id, SECOND.case_id])
    spool.uploads.expire(NOW)
    spool.expire(9, datetime.now(UTC) + timedelta(days=99))


def test_what_cannot_be_removed_keeps_nothing_else(spool: Spool) -> None:
    for run_id in RUNS:
        spool.run(run_id).save_loaded({"at": "now"})
    file_of(spool.run("s-2"), "control.lock").mkdir()
    assert spool.expire(1, NOW + timedelta(days=9)) == ["s-1", "s-3"]
    uploads = Path(spool.root.path) / "uploads"
    for digest in ("a" * 64, "b" * 64):
        (uploads / digest).mkdir(parents=True)
        (uploads / digest / "x-1-py3-none-any.whl").touch()
    DAMAGES["folder"](uploads / ("a" * 64) / "x-1-py3-none-any.whl")
    removed = spool.uploads.expire(datetime.now(UTC) + timedelta(days=1))
    assert [path.parent.name for path in removed] == ["b" * 64]


def test_a_damaged_run_is_not_the_one_that_goes_on(spool: Spool) -> None:
    going = spool.run("s-3")
    going.save_run({**(going.run() or {}), "ended_at": None})
    file_of(going, "g0/outcome.json").unlink()
    planned = file_of(spool.run("s-2"), "planned.json")
    spool.run("s-2").save_run({**(spool.run("s-2").run() or {}), "ended_at": None})
    planned.write_bytes(b"")
    assert cancel._find(spool, None).run_id == "s-3"
