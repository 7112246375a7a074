from __future__ import annotations

import errno
from datetime import UTC, datetime

import pytest
from upath import UPath

from nightbench.spool import Spool, SpoolError


@pytest.fixture(params=["file", "memory"])
def spool(request, tmp_path):
    root = tmp_path / "spool" if request.param == "file" else f"memory://{tmp_path.name}"
    yield Spool(root)
    if request.param == "memory":
        UPath(root).fs.store.clear()


def test_a_case_from_its_job_to_its_outcome(spool):
    store = spool.run("run-1").case("resnet50_v1.5-pytorch-collective-2x1-bs2", 1)
    assert store.outcome() is None
    assert store.repeats() == []
    store.save_job({"schema": "nightbench.job/1"})
    store.save_result(2, "n1", {"status": "ok"})
    assert store.repeats() == [], "results alone are no record"
    store.save_repeat(2, {"status": "ok"})
    store.save_fingerprint("n1", {"cpu": "x"})
    store.save_outcome({"status": "ok"})
    run = spool.run("run-1")
    assert run.case_ids() == ["resnet50_v1.5-pytorch-collective-2x1-bs2"]
    found = run.latest(run.case_ids()[0])
    assert found.folder == store.folder
    assert found.results(2) == {"n1": {"status": "ok"}}
    assert found.repeats() == [2]
    assert found.fingerprint("n1") == {"cpu": "x"}
    assert found.outcome() == {"status": "ok"}
    store.save_progress({"state": "running"})
    assert set(found.progress()) == {"state", "at"}


def test_runs_are_listed_by_date_and_expire_when_loaded(spool):
    for run_id, day in (("b-run", 1), ("a-run", 9), ("c-run", 1)):
        run = spool.run(run_id)
        run.save_run({"started_at": f"2026-11-{day:02d}T01:00:00+00:00"})
        run.save_planned([{"case_id": "x"}])
        if run_id != "c-run":
            run.save_loaded({"at": "now"})
    assert [r.run_id for r in spool.runs()] == ["b-run", "c-run", "a-run"]
    now = datetime(2026, 11, 10, tzinfo=UTC)
    assert spool.expire(5, now) == ["b-run"]
    assert [r.run_id for r in spool.runs()] == ["c-run", "a-run"], "c-run waits for its ingest"
    assert spool.run("a-run").planned() == [{"case_id": "x"}]


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", ".hidden"])
def test_names_that_are_no_path_components_are_refused(spool, name):
    with pytest.raises(SpoolError):
        spool.run(name)


def test_a_broken_document_says_which(tmp_path):
    store = Spool(tmp_path).run("run").case("case")
    store.save_job({})
    (tmp_path / "runs/run/cases/case/g0/job.json").write_text("{")
    with pytest.raises(SpoolError, match=r"job\.json: not a JSON document"):
        store.job()


def test_nothing_half_written_is_left_on_a_local_disk(tmp_path):
    store = Spool(tmp_path).run("run").case("case")
    with pytest.raises(ValueError, match="JSON compliant"):
        store.save_job({"x": float("nan")})
    store.save_job({"x": 1})
    assert [p.name for p in (tmp_path / "runs/run/cases/case/g0").iterdir()] == ["job.json"]


def test_a_full_disk_is_named_and_leaves_what_was_there(tmp_path, monkeypatch):
    store = Spool(tmp_path).run("run-1").case("case")
    store.save_outcome({"status": "ok"})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SpoolError, match=r"outcome.json: cannot be written: No space left.*Make"):
        store.save_outcome({"status": "failed"})
    assert store.outcome() == {"status": "ok"}


def test_a_damaged_run_keeps_no_other_from_being_found(spool):
    for run_id in ("damaged", "good"):
        spool.run(run_id).save_run({"started_at": "2026-11-01T01:00:00+00:00"})
    # What a power cut leaves of a file that was never brought to the disk.
    (spool.run("damaged").folder / "run.json").write_text("")
    assert [run.run_id for run in spool.runs()] == ["good"]
    with pytest.raises(SpoolError, match=r"damaged/run\.json"):
        spool.run("damaged").run()


def test_damaged_notes_that_are_soon_written_again_count_as_none(spool):
    run, store = spool.run("run"), spool.run("run").case("case")
    run.save_loaded({"at": "now"})
    store.save_progress({"state": "running"})
    (run.folder / "loaded.json").write_text("")
    (store.folder / "progress.json").write_text("{")
    assert run.loaded() is None
    assert store.progress() is None
