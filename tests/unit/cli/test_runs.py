"""`nightbench runs`, from rows of the warehouse and from the spool."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from nightbench.cli.runs import newest, spooled
from nightbench.spool import Spool


def stored(run_id: str, day: int, loaded: bool = True) -> dict[str, object]:
    at = datetime(2026, 3, day, 1, tzinfo=UTC)
    return {"run_id": run_id, "suite": "demo", "cluster": "local", "run_kind": "nightly",
            "started_at": at, "requested_by": "", "loaded_at": at if loaded else None,
            "planned": 2, "measured": 1, "failed": 1, "quarantined": 0, "left_out": 0}  # fmt: skip


def test_runs_of_warehouse_and_spool_are_listed_once_newest_first(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for run_id, day, more in (
        ("old", 1, {"ended_at": "x"}),
        ("here", 4, {}),
        ("waits", 3, {"ended_at": "x"}),
        ("other", 5, {"suite": "another"}),
    ):
        document = {"suite": "demo", "cluster": "local", "run_kind": "on_demand"}
        began = f"2026-03-0{day}T01:00:00+00:00"
        spool.run(run_id).save_run({**document, "started_at": began, **more})
        spool.run(run_id).save_planned([{"case_id": "a"}])
    spool.run("old").save_loaded({"at": "x"})
    rows = [stored("old", 1), stored("here", 4, False), stored("elsewhere", 2, False)]
    found = newest(rows, spooled(spool, "demo", None), 10)
    assert [(row["run_id"], row["state"]) for row in found] == [
        ("here", "running"),
        ("waits", "ended, not loaded"),
        ("elsewhere", "planned"),
        ("old", "loaded"),
    ]
    assert found[-1]["measured"] == 1
    assert found[0]["measured"] is None
    assert newest(rows, [], 1)[0]["run_id"] == "here"
