"""A requested comparison over real SSH: a slower build, an equal one, one that is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.integration.openssh import local_nodes
from tests.shipped import shipped

from nightbench.config import load_catalog
from nightbench.core.model import Case, Cluster, Protocol, Strategy, Suite
from nightbench.experiments.compare_measuring import NotMeasured, measure_request, outcome
from nightbench.experiments.engine import ExperimentContext
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.gang import Shipment
from nightbench.spool import Spool
from nightbench.web.compare_answer import comment, conclusion

CASE = Case("sleep", "fake", Strategy.SINGLE, batch_size_per_device=2, scale="smoke")
PROTOCOL = Protocol(warmup_steps=1, measured_steps=12, repeats=3)
MIN_EFFECT = 0.3
"""Far beyond what a busy machine adds: by chance three rounds of equal builds differ by less."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExperimentContext]:
    copy = shipped(tmp_path_factory.mktemp("shipped"))
    with local_nodes(tmp_path_factory.mktemp("compare")) as nodes:
        cluster = Cluster("local", nodes.nodes, shared=True, environments=nodes.environments)
        yield ExperimentContext(
            Suite("trial", "tests", "local", (CASE,), protocol=PROTOCOL),
            cluster,
            load_catalog(copy),
            targets=nodes.targets,
            shipment=Shipment(copy),
        )


@pytest.fixture
def compared(context: ExperimentContext, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Measure two builds whose steps take so long; returns the row as the queue keeps it."""

    def prefix(name: str, step_s: float) -> str:
        python = tmp_path / name / "bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nFAKE_STEP_S={step_s} exec python3 "$@"\n')
        python.chmod(0o755)
        return f"fake={tmp_path / name}"

    def measure(
        a_s: float,
        b_s: float,
        cancelled_by: Callable[[], str | None] = lambda: None,
        *,
        profiled: bool = False,
    ) -> dict[str, Any]:
        # A name of its own: nodes keep the results of a job for whoever names it again.
        name = f"compare-{tmp_path.name}"
        row = {
            **{"request_id": 1, "comparison_id": name, "requested_by": "ada"},
            **{"a": prefix("a", a_s), "b": prefix("b", b_s), "suite": "trial", "cluster": "local"},
            **{"cases": [CASE.case_id], "rounds": 3, "min_effect": MIN_EFFECT, "budget_s": None},
            **{"change_commit": "c1", "spent_s": 0.0, "replaced_by": None, "cancelled_by": None},
            **{"profile": None, "queued_at": datetime.now(UTC)},
        }
        spool = Spool(tmp_path / "spool")

        def once(deadline: datetime | None = None, **changed: Any) -> dict[str, Any]:
            where = replace(context, deadline=deadline)
            work = measure_request(
                {**row, **changed}, spool, where, ComparisonReporter(print), cancelled_by
            )
            return asyncio.run(work)

        document = once()
        state, why = outcome(row, document, spool, 1.0)
        if state == "done":
            launches = sorted(spool.comparison(name).folder.glob("cases/*/g*"))
            # What a retry finds is what was measured: nothing is launched again.
            assert once() == document
            assert sorted(spool.comparison(name).folder.glob("cases/*/g*")) == launches
            if profiled:
                turn = {"profile": "after", "result": document}
                with pytest.raises(NotMeasured, match="gap ended before its profile"):
                    once(datetime.now(UTC), **turn)
                document = once(**turn)
                assert once(**turn) == document
                assert outcome({**row, **turn}, document, spool, 1.0) == ("done", "")
        return {**row, "state": state, "why": why, "result": document}

    return measure


def test_a_slower_build_fails_the_change(compared: Callable[..., dict[str, Any]]) -> None:
    row = compared(0.1, 0.2, profiled=True)
    assert (row["state"], conclusion(row)) == ("done", "failure")
    assert "B is slower beside A" in comment(row)
    (case,) = row["result"]["cases"]
    assert case["ratio"] == pytest.approx(0.1 / 0.2, abs=0.15)
    # The profile names what was slowed.
    (profiled,) = row["result"]["profile"]["cases"]
    assert profiled["why"] is None
    first = profiled["operators"][0]
    assert first["name"] == "time.sleep"
    assert first["difference_s"] == pytest.approx(0.1, abs=0.05)
    assert "| time.sleep |" in comment(row)


@pytest.mark.large
def test_an_equal_build_does_not(compared: Callable[..., dict[str, Any]]) -> None:
    row = compared(0.1, 0.1)
    assert row["state"] == "done"
    assert conclusion(row) in ("success", "neutral")


def test_one_that_is_cancelled_ends_with_its_launch(
    compared: Callable[..., dict[str, Any]],
) -> None:
    row = compared(0.1, 0.1, lambda: "bob")
    assert (row["state"], row["why"]) == ("cancelled", "")
    (case,) = row["result"]["cases"]
    assert (case["n"], case["verdict"]) == (0, "inconclusive")
