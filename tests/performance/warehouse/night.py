"""Times a night: loading it as the task ingest does, beside row by row, and judging it."""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

import psutil
from tests.performance.warehouse.history import (
    FACTS,
    STATEMENT_TIMEOUT_S,
    History,
    build_of,
    clusters,
    plans,
)
from tests.performance.warehouse.judging import REPEATS, in_processes, judge_runs, plan_of
from tests.performance.warehouse.reads import Figure
from tests.sql.given import Given

from nightbench.core.errors import UserError
from nightbench.core.model import (
    CaseToLoad,
    CheckResult,
    ClockOffset,
    LoadBatch,
    PlannedCase,
    RepeatRecord,
    RepeatSummary,
    RepeatToLoad,
    Run,
    RunKind,
    Severity,
    TrainingKind,
    Verdict,
)
from nightbench.core.run_plan import RunPlan
from nightbench.night import judge
from nightbench.warehouse import Warehouse, repository
from nightbench.warehouse.connection import Connection

STEPS = 100
CHECKS_OF_REPEAT = 20
CHECKS_OF_MEDIAN = 9
LOSSES: Mapping[str, tuple[float, float]] = {
    **{
        "first": (7.5, 7.5),
        "third": (7.2, 7.2),
        "early": (7.1, 7.1),
        "mean": (6.8, 6.8),
        "again": (5.2, 5.2),
    },
    "long": (6.0, 6.0),
    **{"steps": (100, 100), "mean_of": (10, 10), "conditions": (1, 1)},
}
ROUNDS = 3
"""How often the night is judged; the medians are reported."""
ROW_BY_ROW = 100
"""Medians of the night that are loaded row by row."""


def measure_night(history: History) -> Iterator[Figure]:
    """Load tonight and judge it, each once; yield the figures, with the rows that were stored.

    It is judged two runs at a time, `ROUNDS` times. `_cpu` is the time that the processors need for
    it, and `_losses_cpu` the part of it that compares the losses: other work slows both.
    Then all series have a new build, and losses that differ from all earlier ones by rounding
    (`judge_new_build`), or the build and the losses of older nights (`judge_old_build`).
    `load_night_row_by_row` loads a part of the largest run again, under another name.
    """
    with closing(history.connect()) as connection:
        warehouse = Warehouse(connection)
        nights = [
            _bundle(connection, run, planned)
            for run, planned in plans(_series(connection), history.tonight)
        ]
        yield _once("load_night", connection, nights, lambda: _load(warehouse, nights))
        whole = nights[0]
        part = _renamed(whole, whole.cases[:ROW_BY_ROW])
        with patch.object(repository, "ROWS_AT_ONCE", 1):
            yield _once(
                "load_night_row_by_row", connection, [part], lambda: _load(warehouse, [part])
            )
        warehouse.runs.refresh_statistics()
        run_plans = [
            plan_of(night.run, night.planned, clusters()[night.run.cluster]) for night in nights
        ]
    for name, version, mean in (
        ("night", None, None),
        ("new_build", "3.0", 6.8000001),
        ("old_build", "2.0", 6.8),
    ):
        name = f"judge_{name}"
        if version:
            _change_builds(history, [night.run.run_id for night in nights], version, mean)
        spent: dict[str, list[float]] = defaultdict(list)
        for _ in range(1 + ROUNDS):  # The first one reads without a cache.
            began = time.perf_counter()
            found = in_processes(partial(_judge, history), run_plans)
            spent[name].append(_since(began))
            spent[f"{name}_cpu"].append(1000 * sum(cpu_s for _, cpu_s, _ in found))
            spent[f"{name}_losses_cpu"].append(1000 * sum(cpu_s for _, _, cpu_s in found))
            _say(f"{name}: {spent[name][-1]} ms")
        verdicts = [verdict for each, _, _ in found for verdict in each]
        for figure, milliseconds in spent.items():
            yield Figure(figure, round(median(milliseconds[1:]), 3), len(verdicts), False)
    if not all(verdict.training is TrainingKind.SAME for verdict in verdicts if verdict.value):
        raise UserError("A case trains otherwise than its nights: losses were not compared.")
    if not any(verdict.baseline for verdict in verdicts):
        raise UserError("No case had enough nights like tonight: the detector had no work.")
    began = time.perf_counter()
    judge_runs([run_plans], history.dsn("nightbench_loader"), history.folder, STATEMENT_TIMEOUT_S)
    yield Figure("judge_night_with_alerts", _since(began), len(verdicts), False)


def _judge(history: History, plan: RunPlan) -> tuple[Sequence[Verdict], float, float]:
    """Judge a run; return the verdicts, and the CPU time of all of it and of its losses."""
    of_losses = 0.0
    with closing(history.connect()) as connection, ExitStack() as patched:

        def timed(call: Callable[..., Any]) -> Callable[..., Any]:
            def call_timed(*given: Any) -> Any:
                nonlocal of_losses
                began = _cpu_s(connection)
                found = call(*given)
                of_losses += _cpu_s(connection) - began
                return found

            return call_timed

        for name in ("judge_trainings", "without_changed"):
            patched.enter_context(patch.object(judge, name, timed(getattr(judge, name))))
        began = _cpu_s(connection)
        verdicts = judge.judge_and_store(Warehouse(connection), plan).verdicts
        return verdicts, _cpu_s(connection) - began, of_losses


def _change_builds(
    history: History, run_ids: Sequence[str], version: str, mean: float | None
) -> None:
    """Let runs have another version of each framework, and another mean loss."""
    statements = (
        "insert into raw.build (build_id, line, variant, source, version) "
        "select distinct line || '-cu126-index-' || %(version)s, line, 'cu126', 'index', "
        "%(version)s from raw.build on conflict do nothing",
        "update raw.measurement as m set build_key = b.build_key, framework_version = b.version, "
        "losses = jsonb_set(m.losses, '{mean}', to_jsonb(array[%(mean)s, %(mean)s])) "
        "from raw.run as r, raw.build as old, raw.build as b "
        "where m.run_key = r.run_key and m.run_at = r.started_at and r.run_id = any(%(run_ids)s) "
        "and m.build_key = old.build_key and b.line = old.line and b.version = %(version)s",
    )
    with closing(history.connect("nightbench_owner")) as connection:
        with connection.cursor() as cursor:
            for statement in statements:
                values = {"version": version, "run_ids": list(run_ids), "mean": mean}
                cursor.execute(statement, values)
        connection.commit()


def _cpu_s(connection: Connection) -> float:
    """Return the CPU time of this process, of its children and of its process of PostgreSQL."""
    own = psutil.Process()
    server = psutil.Process(connection.info.backend_pid)
    ended = own.cpu_times().children_user + own.cpu_times().children_system
    times = [each.cpu_times() for each in (own, server, *own.children(recursive=True))]
    return float(ended + sum(each.user + each.system for each in times))


def _load(warehouse: Warehouse, nights: Sequence[LoadBatch]) -> None:
    for night in nights:
        warehouse.runs.load(night)


def _once(
    name: str, connection: Connection, nights: Sequence[LoadBatch], call: Callable[[], None]
) -> Figure:
    _say(name)
    began = time.perf_counter()
    call()
    milliseconds = _since(began)
    rows = 0
    with connection.cursor() as cursor:
        for table in FACTS:
            cursor.execute(
                f"select count(*) from raw.{table} as t inner join raw.run as r "
                "on t.run_key = r.run_key and t.run_at = r.started_at where r.run_id = any(%s)",
                ([night.run.run_id for night in nights],),
            )
            rows += (cursor.fetchone() or (0,))[0]
    return Figure(name, milliseconds, rows, False)


def _since(began: float) -> float:
    return round(1000 * (time.perf_counter() - began), 3)


def _series(connection: Connection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from benchmark.series")
        (series,) = cursor.fetchone() or (0,)
    return int(series)


def _bundle(connection: Connection, run: Run, planned: Sequence[PlannedCase]) -> LoadBatch:
    """A run that brought every case, at the level of its last nights."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select s.case_id, s.node_names, m.throughput, m.framework_version, "
            "m.definition_digest, m.fingerprint_id, s.sigma "
            "from benchmark.series as s cross join lateral ("
            "select n.* from raw.measurement as n where n.series_key = s.series_key and n.is_good "
            "order by n.run_at desc limit 1) as m where s.suite = %s",
            (run.suite,),
        )
        before = {row[0]: row[1:] for row in cursor.fetchall()}
    drawn = random.Random(run.run_id)
    cluster = clusters()[run.cluster]
    planned = [
        replace(each, build=build_of(each.case, before[each.case_id][2]))
        if each.case_id in before
        else each
        for each in planned
    ]
    cases = tuple(
        _case(run, each, *before[each.case_id], drawn) for each in planned if each.case_id in before
    )
    fingerprints = {f"fp-{node.name}": {"node": node.name} for node in cluster.nodes}
    return LoadBatch(run, tuple(planned), cases, fingerprints, cluster)


def _case(
    run: Run,
    planned: PlannedCase,
    nodes: tuple[str, ...],
    level: float,
    version: str,
    definition: str,
    fingerprint: str,
    sigma: float,
    drawn: random.Random,
) -> CaseToLoad:
    middle = level * drawn.lognormvariate(0, sigma)
    figures = tuple(middle * (1 + sigma * (n - REPEATS // 2) / 3) for n in range(REPEATS))
    made = Given().measurement(run, planned.case, figures)
    measurement = replace(
        made,
        build=planned.build,
        unit=planned.unit or "",
        framework_version=version,
        definition_digest=definition,
        fingerprint_id=fingerprint,
        losses=LOSSES,
    )
    repeats = tuple(_repeat(run, n, figure, nodes) for n, figure in enumerate(figures, start=1))
    checks = [
        _check("repeat", n, k) for n in range(1, REPEATS + 1) for k in range(CHECKS_OF_REPEAT)
    ]
    checks += [_check("measurement", None, k) for k in range(CHECKS_OF_MEDIAN)]
    return replace(
        Given().came_back(run, planned.case, figures, nodes=tuple(nodes)),
        measurement=measurement,
        repeats=repeats,
        checks=tuple(checks),
    )


def _repeat(run: Run, number: int, figure: float, nodes: Sequence[str]) -> RepeatToLoad:
    step = 2.0 * len(nodes) / figure
    steps = (step,) * STEPS
    ranks = tuple(Given().rank(rank, node, steps) for rank, node in enumerate(nodes))
    record = RepeatRecord(
        number,
        "ok",
        (),
        ranks,
        clocks={node: ClockOffset(-12.5, 0.001) for node in nodes},
        fingerprints={node: f"fp-{node}" for node in nodes},
        started_at=run.started_at,
    )
    samples = 2.0 * STEPS * len(nodes)
    return RepeatToLoad(record, RepeatSummary(number, figure, STEPS * step, samples, figure))


def _check(subject: str, repeat: int | None, number: int) -> CheckResult:
    return CheckResult(
        subject,
        repeat,
        f"check_{number}",
        Severity.FAIL,
        True,
        "0.4 % apart, 100 steps on every trainer",
        "within 1 % of the independently recorded times",
    )


def _renamed(night: LoadBatch, cases: Sequence[CaseToLoad]) -> LoadBatch:
    """A part of a night as a run of its own, an hour later."""
    run = replace(
        night.run,
        run_id=f"{night.run.run_id}-part",
        run_kind=RunKind.DRILL,
        started_at=night.run.started_at + timedelta(hours=1),
    )
    kept = {case.case.case_id for case in cases}
    planned = tuple(each for each in night.planned if each.case_id in kept)
    return replace(night, run=run, planned=planned, cases=tuple(cases))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
