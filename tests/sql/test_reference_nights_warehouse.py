"""A case beside a reference build: what the warehouse keeps of it, and the verdict by the ratio."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import pytest
from tests.sql.conftest import Rows
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import FAKE, case, near

from nightbench.core.model import Build, MeasuredPair, Pair, Run, RunKind, Verdict, VerdictKind
from nightbench.nodes import Control
from nightbench.warehouse import Warehouse

OLD, NEW = (replace(FAKE, version=version) for version in ("1.0", "2.0"))
NIGHTS = 40
CASE = case(2)
NOISE = 0.002


@dataclass
class Lab(Pipeline):
    """Nights of a case on a machine that drifts by 3 % from night to night."""

    rng: random.Random = field(default_factory=lambda: random.Random(5))

    def night(
        self,
        number: int,
        *references: Build,
        build: float = 1.0,
        machine: float = 1.0,
        kind: RunKind = RunKind.NIGHTLY,
    ) -> Run:
        """Load a night whose build and machine are so fast; the second reference is the bridge."""
        run = self.given.run(number, suite="paired", run_kind=kind)
        level = 100 * machine * math.exp(self.rng.gauss(0, 0.03))
        batch = self.given.batch(run, near(self.given, run, CASE, level * build))
        # The new reference is a quarter faster than the old one.
        pairs = tuple(
            MeasuredPair(
                CASE.case_id,
                reference,
                reference is not references[0],
                tuple(self._pair(level, build, 1.25 if reference is NEW else 1.0) for _ in "AAA"),
            )
            for reference in references
        )
        assert self.loader.runs.load(replace(batch, pairs=pairs))
        assert not self.loader.runs.load(replace(batch, pairs=pairs))
        control = Control("n1", "memory_copy", "cpu", "python-3.11", "GB/s", (level / 10,))
        self.loader.nodes.store_preflight("local", run.run_id, [], [control], run.started_at)
        return self.planned(run, [CASE])

    def verdict(self, run: Run) -> Verdict:
        (verdict,) = self.judge(run).verdicts
        return verdict

    def _pair(self, level: float, build: float, faster: float) -> Pair:
        night, reference = (math.exp(self.rng.gauss(0, NOISE)) for _ in "AB")
        return Pair(level * build * night, level * faster * reference, "AB")


@pytest.fixture
def lab(pipeline: Pipeline) -> Lab:
    return Lab(**vars(pipeline))


def test_a_fall_below_the_machines_noise_is_told(lab: Lab) -> None:
    for number in range(NIGHTS):
        quiet = lab.night(number, OLD)
    assert lab.verdict(quiet).kind is VerdictKind.OK
    for number in range(NIGHTS, NIGHTS + 5):
        slow = lab.night(number, OLD, build=0.95)
    fallen = lab.verdict(slow)
    assert fallen.kind is VerdictKind.REGRESSED
    assert fallen.level_change == pytest.approx(-0.05, abs=0.01)
    assert "based on the ratio to the reference build fake-cpu-index-1.0: 0.9" in fallen.sentence
    assert "The reference build itself changed" not in fallen.sentence


def test_a_machine_that_slows_is_not_taken_for_the_framework(lab: Lab, rows: Rows) -> None:
    for number in range(NIGHTS):
        lab.night(number, OLD)
    for number in range(NIGHTS, NIGHTS + 4):
        slow = lab.night(number, OLD, machine=0.7)
        verdict = lab.verdict(slow)
    assert verdict.kind is VerdictKind.OK
    assert "The reference build itself changed by -" in verdict.sentence
    (row,) = rows("select * from marts.fct_night_pair where run_id = %s", slow.run_id)
    assert (row["machine"], row["n"], row["is_bridge"]) == ("regressed", 3, False)
    assert "Control measurements of the same nights changed by -" in row["machine_sentence"]
    assert row["ratio"] == pytest.approx(1.0, abs=0.01)
    assert len(row["pairs"]) == 3
    # The reference is no result of the night.
    assert rows("select count(*) as n from marts.fct_measurement")[0]["n"] == NIGHTS + 4
    # Another case without a reference that night is judged by its own nights.
    assert lab.verdict(lab.night(NIGHTS + 4, machine=0.7)).kind is VerdictKind.REGRESSED


def test_a_change_of_the_reference_is_no_change_of_the_build(lab: Lab, loader: Warehouse) -> None:
    for number in range(NIGHTS):
        lab.night(number, OLD)
    assert loader.runs.case_past("local")[CASE.case_id].reference == OLD
    bridge = lab.night(NIGHTS, NEW, OLD)
    assert lab.verdict(bridge).kind is VerdictKind.OK
    assert loader.runs.case_past("local")[CASE.case_id].reference == NEW
    assert lab.verdict(lab.night(NIGHTS + 1, NEW)).kind is VerdictKind.OK
    for number in range(NIGHTS + 2, NIGHTS + 7):
        slow = lab.night(number, NEW, build=0.95)
    assert lab.verdict(slow).kind is VerdictKind.REGRESSED


def test_a_run_by_hand_is_judged_by_the_ratio_of_nights_as_well(lab: Lab) -> None:
    for number in range(NIGHTS):
        lab.night(number, OLD)
    for number in range(NIGHTS, NIGHTS + 5):
        lab.night(number, OLD, build=0.95)
    by_hand = lab.night(NIGHTS + 5, OLD, build=0.95, kind=RunKind.ON_DEMAND)
    assert lab.verdict(by_hand).kind is VerdictKind.REGRESSED


def test_noise_is_known_to_the_plan_of_a_night(lab: Lab, loader: Warehouse) -> None:
    for number in range(10):
        lab.night(number)
    known = loader.runs.case_past("local")[CASE.case_id]
    assert 0.01 < (known.noise or 0) < 0.08
    assert known.reference is None
