"""Judges runs by the project's own code: verdicts, alerts and their causes, without the grading."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from unittest.mock import patch

from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, PlannedCase, Process, Protocol, RegressionPolicy, Run
from nightbench.core.run_plan import CasePlan, RunPlan
from nightbench.night import detector_grade
from nightbench.night.judge import judge_run
from nightbench.spool import Spool
from nightbench.spool.plans import store_plan
from nightbench.warehouse import connect

Item = TypeVar("Item")
Result = TypeVar("Result")

TASKS = 2
REPEATS = 7


def plan_of(run: Run, planned: Sequence[PlannedCase], cluster: Cluster) -> RunPlan:
    """Return a plan with the default policy and no channels."""
    return RunPlan(
        run=run,
        owner="benchmarks",
        protocol=Protocol(repeats=REPEATS),
        policy=RegressionPolicy(),
        channels=(),
        cluster=cluster,
        cases=tuple(
            CasePlan(
                each,
                processes=(Process("trainer-0", "trainer", 0, "n1", 0),),
                units_per_trainer_step=None,
            )
            for each in planned
        ),
    )


def judge_runs(
    nights: Sequence[Sequence[RunPlan]], dsn: str, folder: Path, timeout_s: float
) -> None:
    """Judge loaded runs with their alerts, a night after another and two runs at a time."""
    with (
        TemporaryDirectory(dir=folder) as place,
        ProcessPoolExecutor(TASKS, get_context("spawn")) as pool,
    ):
        for plans in nights:
            for plan in plans:
                store_plan(plan, Spool(Path(place)))
            judge = partial(_judge_with_alerts, dsn, timeout_s, Path(place))
            list(pool.map(judge, [plan.run.run_id for plan in plans]))


def in_processes(call: Callable[[Item], Result], each: Sequence[Item]) -> list[Result]:
    """Results of a call for each item, two at a time, as a scheduler runs tasks on two cores."""
    with ProcessPoolExecutor(TASKS, get_context("spawn")) as pool:
        return list(pool.map(call, each))


def _judge_with_alerts(dsn: str, timeout_s: float, spool: Path, run_id: str) -> None:
    # A grade takes a minute once a week, after everything else.
    with patch.object(detector_grade, "SERIES", 0), _without_errors():
        judge_run(Spool(spool), run_id, lambda: connect(dsn, statement_timeout_s=timeout_s))


class _Errors(logging.Handler):
    """Keeps the errors that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}")


@contextmanager
def _without_errors() -> Iterator[None]:
    """Raise where judging logged an error: what it left out would make the figure too good."""
    errors, logger = _Errors(), logging.getLogger("nightbench")
    logger.addHandler(errors)
    try:
        yield
    finally:
        logger.removeHandler(errors)
    if errors.messages:
        raise UserError(f"The night was not judged whole: {errors.messages[0]}")
