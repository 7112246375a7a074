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
from tests.recording import Unrecorded
from tests.shipped import shipped

from nightbench.config import load_catalog
from nightbench.core.model import Case, Cluster, Protocol, Strategy, Suite
from nightbench.core.model.experiments import Experiment, ExperimentKind
from nightbench.experiments.engine import ExperimentContext
from nightbench.experiments.measuring import MEASURES
from nightbench.experiments.record import Ended
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
        name, where = f"compare-{tmp_path.name}", ("trial", "local", "ada")
        request = {"a": prefix("a", a_s), "b": prefix("b", b_s), "suite": "trial", "rounds": 3}
        request |= {"cases": [CASE.case_id], "min_effect": MIN_EFFECT, "change_commit": "c1"}
        asked = Experiment(name, ExperimentKind.COMPARE, request, *where, dag_run_id="run-1")
        spool = Spool(tmp_path / "spool")

        def once(asked: Experiment, deadline: datetime | None = None) -> Ended:
            place, record = replace(context, deadline=deadline), Unrecorded(asked, cancelled_by)
            work = MEASURES[asked.kind](asked, spool, place, ComparisonReporter(print), record)
            return asyncio.run(work)

        ended = once(asked)
        profile = None
        if ended.state == "done":
            launches = sorted(spool.comparison(name).folder.glob("cases/*/g*"))
            # What a retry finds is what was measured: nothing is launched again.
            assert once(asked) == ended
            assert sorted(spool.comparison(name).folder.glob("cases/*/g*")) == launches
            if profiled:
                again = replace(asked, name=f"profile-{name}", kind=ExperimentKind.PROFILE)
                again = replace(again, request={"of": name})
                late = once(again, datetime.now(UTC))
                assert (late.state, late.result) == ("queued", None)
                profile = once(again)
                assert (profile.state, profile.why) == ("done", "")
                assert once(again) == profile
        result = ended.result and {**ended.result, "profile": profile and profile.result}
        nothing = dict.fromkeys(("replaced_by", "cancelled_by", "profile", "profile_why"))
        return {
            **nothing,
            **request,
            **{"experiment_id": 1, "kind": "compare", "cluster": "local", "request": request},
            **{"state": ended.state, "why": ended.why, "result": result},
        }

    return measure


def test_a_slower_build_fails_the_change(compared: Callable[..., dict[str, Any]]) -> None:
    row = compared(0.1, 0.2, profiled=True)
    assert (row["state"], conclusion(row)) == ("done", "failure")
    assert "B is slower than A" in comment(row)
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
    assert (row["state"], row["why"].rpartition(": ")[2]) == ("cancelled", "cancelled by bob")
    (case,) = row["result"]["cases"]
    assert (case["n"], case["verdict"]) == (0, "inconclusive")
