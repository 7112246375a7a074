"""A night and its experiments while processes are killed; then the books are checked.

The scheduler starts the night, which measures its reference build as well. Its suspect is
confirmed, then a comparison and a bisect that a person has requested are measured. During each of
the four the process that measures is killed, then victims by a seed. Nobody brings anything back
but the system itself.

NIGHTBENCH_DRILL_SEED=7 NIGHTBENCH_DRILL_KILLS=2 pytest tests/drills/test_experiments_chaos.py -s
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.drills.airflow_chaos import Chaos, kill
from tests.drills.incidents import (
    BAD,
    FIRST_BAD,
    GOOD,
    LAST_GOOD,
    NIGHTLY,
    NIGHTS_BEFORE,
    SUITE,
    TOY,
    history,
    watched,
)
from tests.integration.live_airflow import Live, patiently, wait_for_dag
from tests.integration.terminal import Terminal
from tests.marks import marks
from tests.sql.nights import Inbox

from nightbench.core.model.experiments import LIVE, ExperimentKind
from nightbench.experiments.comparison import ended_launches, saved_result
from nightbench.spool import RunSpool
from nightbench.warehouse import Warehouse, connect

pytestmark = [pytest.mark.live, pytest.mark.timeout(2400)]

SEED = int(os.environ.get("NIGHTBENCH_DRILL_SEED") or time.time_ns() % 1_000_000)
KILLS = int(os.environ.get("NIGHTBENCH_DRILL_KILLS") or 1)
"""Kills by the seed during each kind, after that of the process that measures."""
SLOW_NIGHTS = 3
ROUNDS = 3
KINDS = (
    ExperimentKind.REFERENCE,
    ExperimentKind.CONFIRM,
    ExperimentKind.COMPARE,
    ExperimentKind.BISECT,
)
LEASE_S = 120.0


@pytest.fixture
def evening(tmp_path: Path) -> Iterator[tuple[Live, Inbox]]:
    began = datetime.now(UTC) - timedelta(minutes=30)
    with watched(tmp_path, began, BAD, reference={TOY.framework: {"version": GOOD}}) as made:
        yield made


def experiments(live: Live) -> list[dict[str, Any]]:
    """All rows of experiments, oldest first, as soon as the warehouse answers."""

    def read() -> list[dict[str, Any]]:
        with contextlib.closing(connect(live.stack.dsn("nightbench_reader"))) as connection:
            return list(reversed(Warehouse(connection).experiments.find()))

    return list(patiently(read))


def requested(live: Live, kind: ExperimentKind) -> str:
    """Wait until an experiment of a kind is requested; its name."""

    def found() -> str | None:
        return next((row["name"] for row in experiments(live) if row["kind"] == kind), None)

    return str(live.until(found, f"the {kind} to be requested", wait_s=900))


def folders(live: Live, name: str) -> list[RunSpool]:
    """The comparisons that an experiment consists of."""
    made = live.spool.comparisons()
    return [each for each in made if each.run_id == name or each.run_id.startswith(f"{name}-")]


def ended(folder: RunSpool) -> int:
    """How many launches of a comparison have ended."""
    return sum(len(ended_launches(folder, case_id)) for case_id in folder.case_ids())


def measuring(live: Live, name: str) -> list[int]:
    """The process that measures an experiment now: the kernel lists who has its lock."""
    locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    # Lines of processes that wait for a lock have an arrow before its kind.
    held = [words for words in map(str.split, locks) if words[1] == "FLOCK"]
    of = {words[5].rpartition(":")[2]: int(words[4]) for words in held}
    files = [Path(folder.folder.path) / "control.lock" for folder in folders(live, name)]
    found = {of.get(str(file.stat().st_ino)) for file in files if file.exists()}
    return [pid for pid in found if pid]


def next_launch(live: Live, name: str, before: int) -> int:
    """Wait until a further launch has ended while more are measured; how many, -1 if none are."""

    def found() -> int:
        (state,) = (row["state"] for row in experiments(live) if row["name"] == name)
        launches = sum(map(ended, folders(live, name)))
        if state not in LIVE:
            return -1
        return launches if launches > before and measuring(live, name) else 0

    return int(live.until(found, f"launch {before + 1} of {name}", wait_s=900))


def disturb(live: Live, rng: random.Random, kind: ExperimentKind) -> str:
    """Kill the process that measures the experiment of a kind, then others; its name."""

    name = requested(live, kind)
    chaos = Chaos(live, rng, name)
    launches = next_launch(live, name, 0)
    assert launches > 0, f"{name} has ended before the first kill"
    time.sleep(rng.uniform(0.0, 3.0))
    kill(live.until(lambda: measuring(live, name), f"the process of {name}"))
    print(f"  {time.strftime('%H:%M:%S')} {name}: killed what measures it", flush=True)
    for _ in range(KILLS):
        launches = next_launch(live, name, launches)
        if launches < 0:
            break
        time.sleep(rng.uniform(0.0, 3.0))
        chaos.strike()
    return name


def test_whatever_is_killed_every_experiment_ends_with_its_result(
    evening: tuple[Live, Inbox], tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    print(f"\nNIGHTBENCH_DRILL_SEED={SEED} NIGHTBENCH_DRILL_KILLS={KILLS}", flush=True)
    live, inbox = evening
    shell = Terminal(live.place, {"NIGHTBENCH_BENCHMARKS": str(live.place / "benchmarks")})
    done = shell.run("import", str(history(tmp_path / "history.csv", SLOW_NIGHTS)))
    assert done.returncode == 0, done.stderr
    assert f"{2 * NIGHTS_BEFORE} medians" in done.stdout
    wait_for_dag(live.api, NIGHTLY)
    night: RunSpool = live.until(
        lambda: next((run for run in live.spool.runs() if run.planned()), None), "the night"
    )
    # What a person requests waits until the night is over.
    of_case = {"suite": SUITE, "cases": [TOY.case_id], "rounds": ROUNDS, "min_effect": 0.1}
    versions = {"a": f"toy={GOOD}", "b": f"toy={LAST_GOOD}"}
    live.api.trigger("nightbench_experiments", {**of_case, **versions})
    requested(live, ExperimentKind.COMPARE)
    live.api.trigger("nightbench_experiments", {**of_case, "good": GOOD, "bad": BAD})
    requested(live, ExperimentKind.BISECT)

    names = [disturb(live, rng, kind) for kind in KINDS[:2]]
    live.until(lambda: inbox.messages, "the night's message", wait_s=900)
    live.api.trigger("nightbench_experiments", {})  # the next five minutes would do so as well
    names += [disturb(live, rng, kind) for kind in KINDS[2:]]

    def over() -> list[dict[str, Any]]:
        rows = experiments(live)
        return [] if any(row["state"] in LIVE for row in rows) else rows

    rows = {row["name"]: row for row in live.until(over, "all experiments to end", wait_s=1200)}
    assert {(row["kind"], row["state"]) for row in rows.values()} == {(k, "done") for k in KINDS}
    assert sorted(rows) == sorted(names)
    reference, confirmation, comparison, bisect = (rows[name]["result"] for name in names)
    assert reference["complete"]
    assert reference["cases"][0]["verdict"] == "slower"
    assert confirmation["outcome"] == "confirmed", confirmation
    assert comparison["cases"][0]["verdict"] == "same", comparison
    assert (bisect["last_good"], bisect["first_bad"]) == (LAST_GOOD, FIRST_BAD), bisect
    check_launches(live)
    assert live.ended((night.run() or {})["dag_run_id"], NIGHTLY) == "success"
    (message,) = inbox.messages
    assert ", confirmed" in message["title"]
    assert confirmation["sentence"] in message["message"]
    measured = [night, *live.spool.comparisons()]
    live.until(
        lambda: not any(marks(each.run_id) for each in measured),
        "the nodes to be clean",
        wait_s=LEASE_S + 60,
    )


def check_launches(live: Live) -> None:
    """Every comparison has its result, and each of its launches began once and is recorded."""
    for folder in live.spool.comparisons():
        cases = folder.case_ids()
        if not cases:  # a bisect's own folder: its comparisons have others
            continue
        result = saved_result(folder)
        assert result is not None, folder.run_id
        assert result["complete"], folder.run_id
        launches = live.launches(folder.run_id)
        assert set(launches.values()) == {1}, launches
        begun = {job.split("/")[1].removeprefix("g") for job, _, _ in launches}
        assert begun <= {str(number) for number in range(ended(folder))}, folder.run_id
