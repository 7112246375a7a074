"""`nightbench accept` over real SSH, killed and resumed, and what its results decide."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration import toy_line
from tests.integration.terminal import TRIAL, Terminal, terminal
from tests.sql.conftest import Database
from tests.sql.given import Given

from nightbench.core.model import (
    Case,
    CheckResult,
    PlannedCase,
    RunKind,
    Severity,
)
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection

RAISES = """

class Refusing(Runtime):
    def __init__(self, context):
        if context.job["case"]["compiler"] == "boom":
            raise RuntimeError("this device has no boom")
        super().__init__(context)


Runtime = Refusing
"""


def lock(benchmarks: Path, wheel: Path) -> None:
    """Let the line's lock and description name a wheel."""
    scratch = benchmarks.with_name(f"{benchmarks.name}-{wheel.name}")
    other = toy_line.make_benchmarks(scratch, wheel) / "frameworks" / toy_line.LINE
    mine = benchmarks / "frameworks" / toy_line.LINE
    (mine / "requirements-cpu.lock").write_text((other / "requirements-cpu.lock").read_text())
    described = json.loads((other / "framework.json").read_text())
    described["axes"] = {
        "strategy": {"single": True, "collective": True},
        "compiler": {"boom": True, "never": {"cpu": "it was never written", "gpu": True}},
    }
    del described["roles"]
    (mine / "framework.json").write_text(json.dumps(described))


@pytest.fixture
def here(tmp_path: Path, warehouse: Database) -> Iterator[Terminal]:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    first = toy_line.make_wheel(wheels, "1.0", 0.01)
    benchmarks = toy_line.make_benchmarks(tmp_path / "benchmarks", first)
    lock(benchmarks, first)
    with (benchmarks / "frameworks" / toy_line.LINE / "runtime.py").open("a") as runtime:
        runtime.write(RAISES)
    more = {"NIGHTBENCH_BENCHMARKS": str(benchmarks), "NIGHTBENCH_WAREHOUSE": warehouse.loader}
    place = tmp_path / "place"
    place.mkdir()
    with terminal(place, TRIAL, wheels, **more) as made:
        yield made


def modes(here: Terminal, *words: str, status: int = 0) -> dict[str, Any]:
    """The modes by name, as `accept --dry-run --json` prints them."""
    done = here.run("accept", "local", "--line", "toy", "--dry-run", "--json", *words)
    assert done.returncode == status, done.stdout + done.stderr
    return {row["mode"]: row for row in json.loads(done.stdout)}


@pytest.mark.slow
def test_killed_and_resumed_it_tries_each_mode_once_and_again_with_another_build(
    here: Terminal, tmp_path: Path, rows: Any
) -> None:
    before = modes(here)
    assert {row["outcome"] for row in before.values()} == {"due", "skipped"}

    running = here.begin("accept", "local", "--line", "toy", until="case 3 of")
    running.kill()
    running.wait()
    assert running.stdout is not None
    running.stdout.close()
    first = here.newest().run_id
    modes(here)
    assert not rows("select 1 from marts.fct_acceptance"), "a dry run writes nothing"

    done = here.run("accept", "local", "--line", "toy")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 skipped" in done.stdout
    after = modes(here, status=1)
    failed = {mode for mode, row in after.items() if row["outcome"] == "failed"}
    assert failed == {"single boom", "collective boom"}
    assert "RuntimeError: this device has no boom" in after["single boom"]["reason"]
    assert after["compiler never"]["reason"] == "it was never written"
    runs = {row["last"]["run_id"] for row in after.values() if row["last"]}
    assert first in runs, "what the first had measured is not measured again"
    assert len(runs) == 2
    kept = rows(
        "select mode, count(*) as n from marts.fct_acceptance "
        "where outcome <> 'interrupted' group by mode"
    )
    assert {row["n"] for row in kept} == {1}

    again = here.run("accept", "local", "--line", "toy")
    assert "no configuration must be retested" in again.stdout

    second = toy_line.make_wheel(tmp_path / "wheels", "2.0", 0.01)
    lock(tmp_path / "benchmarks", second)
    changed = modes(here)
    assert changed["collective"]["reason"] == "version 1.0 became 2.0"
    assert {row["outcome"] for row in changed.values()} == {"due", "skipped"}


PREFLIGHT = (
    "insert into raw.node_preflight"
    " (cluster, node, at, run_id, address, is_reachable, level, findings, document)"
    " values ('local', 'n1', %s, %s, 'a', true, 'ok', '[]', %s)"
)

NIGHTS = (
    "select extract(day from started_at - '2026-03-01 01:00Z')::int as night, untried from marts.{}"
)


def test_what_an_acceptance_passed_is_untried_no_more_there_with_its_build_and_driver(
    loader: Warehouse, given: Given, connection: Connection, rows: Any
) -> None:
    why, bf16 = "nobody had such a GPU", given.case(precision="bf16")

    def load(night: int, driver: str, case: Case = bf16, **more: Any) -> None:
        run = given.run(night, **more)
        document = json.dumps({"gpus": [{"driver": driver}, {"driver": driver}]})
        with connection, connection.cursor() as cursor:
            cursor.execute(PREFLIGHT, (run.started_at, run.run_id, document))
        planned = PlannedCase(case, given.build, "d1", "images", untried=why)
        came = given.came_back(run, case, (10.0,))
        loader.runs.load(dataclasses.replace(given.batch(run, came), planned=(planned,)))

    def marked() -> list[int]:
        """Nights whose figure is marked, in both marts."""
        found = [
            {row["night"] for row in rows(NIGHTS.format(mart)) if row["untried"] == why}
            for mart in ("fct_measurement", "fct_planned_case")
        ]
        assert found[0] == found[1]
        return sorted(found[0])

    load(1, "550.54")
    load(2, "580.65")
    load(3, "550.54", given.case(precision="fp16"))
    load(4, "550.54", cluster="other")
    assert marked() == [1, 2, 3, 4]
    tried = {"suite": "acceptance", "run_kind": RunKind.ACCEPTANCE}
    load(5, "550.54", **tried)
    assert marked() == [2, 3, 4]
    (mode,) = loader.acceptance.modes("local")
    assert (mode.mode, mode.outcome, mode.is_driver_same) == ("collective bf16", "passed", True)
    load(6, "580.65", **tried)
    assert marked() == [1, 3, 4, 5], "the newest acceptance counts"
    (mode,) = loader.acceptance.modes("local")
    assert (mode.driver, mode.is_driver_same) == ("580.65", True)
    load(7, "590.00")
    (mode,) = loader.acceptance.modes("local")
    assert not mode.is_driver_same


def test_a_mode_that_is_refused_or_that_no_trainer_tells_of_is_not_passed(
    loader: Warehouse, given: Given, connection: Connection
) -> None:
    run = given.run(1, suite="acceptance", run_kind=RunKind.ACCEPTANCE)
    with connection, connection.cursor() as cursor:
        cursor.execute(PREFLIGHT, (run.started_at, run.run_id, json.dumps({"gpus": []})))
    said = "trainer-0: compiler xla"
    untold = CheckResult(
        "repeat", 1, "mode_reported", Severity.WARN, False, said, "every trainer reports"
    )
    fell_back = "trainer-0: execution is default, not graph"
    refused = [
        CheckResult("measurement", None, "enough_repeats", Severity.FAIL, False, "0", "1 or more"),
        CheckResult("repeat", 1, "mode_used", Severity.FAIL, False, fell_back, "as the case asks"),
        untold,
    ]
    cases = [
        *(given.case(compiler=compiler) for compiler in ("xla", "inductor")),
        given.case(execution="graph"),
    ]
    came = [
        given.came_back(run, case, (10.0,), checks=checks)
        for case, checks in zip(cases, ((untold,), (), tuple(refused)), strict=True)
    ]
    loader.runs.load(given.batch(run, *came))
    found = {mode.mode: (mode.outcome, mode.reason) for mode in loader.acceptance.modes("local")}
    assert found["collective inductor"] == ("passed", None)
    outcome, reason = found["collective xla"]
    assert outcome == "not reported"
    assert said in (reason or "")
    assert found["collective graph"] == (
        "failed",
        f"mode_used: {fell_back}, expected: as the case asks",
    )
    # Loaded again it was judged anew, by other checks.
    for digest in ("c1", "c2"):
        loader.runs.load(given.batch(run, *came, checks_digest=digest))
        assert {mode.checks_digest for mode in loader.acceptance.modes("local")} == {digest}


def test_a_mode_has_a_verdict_at_each_shape_and_one_failure_keeps_it_untried(
    loader: Warehouse, given: Given, connection: Connection, rows: Any
) -> None:
    tried = {"suite": "acceptance", "run_kind": RunKind.ACCEPTANCE}
    shapes = [(1, 2), (1, 8), (2, 8)]
    pair, *wide = (
        given.case(nodes=nodes, devices_per_node=each, trainers=nodes * each)
        for nodes, each in shapes
    )

    def load(night: int, failed: tuple[Case, ...]) -> None:
        run = given.run(night, **tried)
        with connection, connection.cursor() as cursor:
            cursor.execute(PREFLIGHT, (run.started_at, run.run_id, json.dumps({"gpus": []})))
        wrong = CheckResult(
            "measurement", None, "efficiency", Severity.FAIL, False, "1.200", "1.05 or less"
        )
        came = [
            given.came_back(run, case, (10.0,), checks=(wrong,) if case in failed else ())
            for case in (pair, *wide)
        ]
        loader.runs.load(given.batch(run, *came))

    def passed() -> set[str]:
        return {row["mode"] for row in rows("select mode from staging.tried_mode")}

    load(1, (wide[1],))
    found = {mode.devices: mode.outcome for mode in loader.acceptance.modes("local")}
    assert found == {"1x2": "passed", "1x8": "passed", "2x8": "failed"}
    assert passed() == set()
    load(2, ())
    found = {mode.devices: mode.outcome for mode in loader.acceptance.modes("local")}
    assert set(found.values()) == {"passed"}
    assert passed() == {"collective"}
