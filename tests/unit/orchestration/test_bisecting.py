"""The task of a bisect beside others who measure it, and beside a warehouse that refuses it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nightbench.core.errors import UserError
from nightbench.experiments import bisect_store
from nightbench.experiments.bisect_store import Asked
from nightbench.orchestration import bisecting, connections
from nightbench.spool import RunSpool, Spool
from nightbench.warehouse import WarehouseRefused

PARAMS: dict[str, Any] = {"budget_h": 9, "most_tests": 20, "outside_hours": False, "rounds": 5}


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpool:
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(tmp_path))
    asked = Asked("some-case", "demo", "local", "fake", ("1.0", "1.1"), 3600.0, 20)
    return bisect_store.begin(Spool(tmp_path), "bisect-1", asked, "ada")


def test_what_a_terminal_measures_right_now_is_left_alone(begun: RunSpool) -> None:
    was = begun.run()
    with begun.steered(), pytest.raises(UserError, match="measured right now by another process"):
        bisecting._bisect("bisect-1", PARAMS)
    assert begun.run() == was


def test_a_warehouse_that_refuses_a_bisect_does_not_end_it(
    begun: RunSpool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> NoReturn:
        raise WarehouseRefused("the migrations have not been applied")

    monkeypatch.setattr(connections, "connect", refuse)
    with caplog.at_level(logging.WARNING):
        bisecting._store(bisect_store.document_of(begun))
    assert "the migrations have not been applied" in caplog.text
