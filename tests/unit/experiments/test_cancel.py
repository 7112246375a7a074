"""`nightbench cancel` with the ids of what is more than one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightbench.cli.run import cancel
from nightbench.core.errors import UserError
from nightbench.experiments.bisect_request import BisectRequest, store_bisect
from nightbench.experiments.experiment_spool import (
    MeasurementStopped,
    check_cancel,
    request_cancel,
    withdraw_cancel,
)
from nightbench.spool import Spool


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(tmp_path))
    return Spool(tmp_path)


def test_a_drill_says_how_it_is_ended(spool: Spool) -> None:
    spool.drill("drill-1").save_run({"started_at": "2026-11-01T00:00:00+00:00"})
    with pytest.raises(UserError, match="Ctrl-C where it runs"):
        cancel("drill-1")


def test_a_bisect_that_has_ended_is_not_ended_again(spool: Spool) -> None:
    request = BisectRequest("some-case", "demo", "local", "fake", ("1.0", "1.1"), 3600.0, 20)
    folder = store_bisect(spool, "bisect-1", request, "ada", "demo", "local")
    folder.save_run({**(folder.run() or {}), "state": "ended"})
    with pytest.raises(UserError, match="found it ended"):
        cancel("bisect-1")


def test_an_id_that_nobody_knows_is_refused(spool: Spool) -> None:
    with pytest.raises(UserError, match="which is not in"):
        cancel("bisect-2")


def test_whoever_measures_stops_before_its_next_launch_until_it_is_resumed(spool: Spool) -> None:
    folder = spool.comparison("ab-1")
    check_cancel(folder)
    request_cancel(folder, "cancelled by the user")
    with pytest.raises(MeasurementStopped, match="ab-1: cancelled by the user"):
        check_cancel(folder)
    withdraw_cancel(folder)
    check_cancel(folder)
