"""`nightbench cancel` with the ids of what is more than one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightbench.cli.cancel import cancel
from nightbench.core.errors import UserError
from nightbench.core.model.experiments import ExperimentKind
from nightbench.experiments.bisect_request import save_step
from nightbench.experiments.comparison import save_result
from nightbench.experiments.experiment_spool import (
    DRILL,
    MeasurementStopped,
    check_cancel,
    request_cancel,
    schema_of,
    store_request,
    withdraw_cancel,
)
from nightbench.spool import RunSpool, Spool


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(tmp_path))
    return Spool(tmp_path)


def test_a_drill_says_how_it_is_ended(spool: Spool) -> None:
    document = {"schema": schema_of(DRILL), "started_at": "2026-11-01T00:00:00+00:00"}
    spool.comparison("drill-1").save_run(document)
    with pytest.raises(UserError, match="Ctrl-C in its terminal"):
        cancel("drill-1")


def test_an_experiment_of_several_comparisons_that_has_ended_is_left_as_it_is(
    spool: Spool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = spool.comparison("bisect-1")
    store_request(folder, ExperimentKind.BISECT, {"suite": "demo"}, {}, "ada")
    save_step(folder, {"number": 1, "comparison_id": "bisect-1-1"})
    at = "2026-11-01T00:00:00+00:00"
    save_result(spool.comparison("bisect-1-1"), {"complete": False, "ended_at": at})
    store_request(spool.comparison("bisect-1-1"), ExperimentKind.BISECT, {}, {}, "bisect-1")
    before = files(folder)
    cancel("bisect-1")
    assert capsys.readouterr().out == f"bisect-1 had ended at {at}: nothing was changed\n"
    assert files(folder) == before


@pytest.mark.parametrize("complete", [True, False])
def test_a_comparison_that_has_ended_is_left_as_it_is(
    spool: Spool, capsys: pytest.CaptureFixture[str], complete: bool
) -> None:
    folder = spool.comparison("ab-1")
    store_request(folder, ExperimentKind.COMPARE, {"a": "fake=1", "b": "fake=2"}, {}, "ada")
    with folder.controlled():
        pass  # Its process has ended.
    save_result(folder, {"complete": complete, "ended_at": "2026-11-01T00:00:00+00:00"})
    before = files(folder)
    cancel("ab-1")
    said = "ab-1 had ended at 2026-11-01T00:00:00+00:00: nothing was changed\n"
    assert capsys.readouterr().out == said
    assert files(folder) == before


def files(folder: RunSpool) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.folder.iterdir() if path.is_file()}


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
