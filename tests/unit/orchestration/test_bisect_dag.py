"""The task of a bisect that another process measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from nightbench.core.errors import UserError
from nightbench.experiments.bisect_request import BisectRequest, store_bisect
from nightbench.orchestration import request_dags
from nightbench.spool import RunSpool, Spool

PARAMS: dict[str, Any] = {"budget_h": 9, "most_tests": 20, "outside_hours": False, "rounds": 5}


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpool:
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(tmp_path))
    request = BisectRequest("some-case", "demo", "local", "fake", ("1.0", "1.1"), 3600.0, 20)
    return store_bisect(Spool(tmp_path), "bisect-1", request, "ada", "demo", "local")


def test_what_a_terminal_measures_right_now_is_left_alone(begun: RunSpool) -> None:
    was = begun.run()
    with begun.steered(), pytest.raises(UserError, match="measured right now by another process"):
        request_dags._bisect("bisect-1", PARAMS)
    assert begun.run() == was


def test_what_cannot_be_asked_is_not_tried_again(begun: RunSpool) -> None:
    with pytest.raises(AirflowFailException, match="expected an alert, or a good version"):
        request_dags._bisect("bisect-2", PARAMS)
