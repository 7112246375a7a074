"""A reference build beside the night, on a node that is throttled and has a second load at night.

pytest tests/drills/test_reference_nights.py -s
"""

from __future__ import annotations

import math
import os
import random
import signal
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.drills.hosts import Host, Lab
from tests.drills.nights import STEP_S, Nights, build, install
from tests.performance.beside import FALLS, LATEST, is_told
from tests.sql.conftest import Database, Rows, connection, rows, server, shared_database, template
from tests.sql.conftest import warehouse as warehouse

from nightbench.core.model import HistoryPoint, VerdictKind
from nightbench.night.reference_verdicts import paired_series, rebased
from nightbench.warehouse import Warehouse, connect

__all__ = ["connection", "rows", "server", "shared_database", "template"]

pytestmark = pytest.mark.timeout(5400)

NIGHTS_BEFORE, SEED = 12, 25
REFERENCE, TONIGHT = ({"fake": build("fake", version)} for version in ("1.0", "1.1"))
WORK = "while True: sum(range(9999))"


def test_the_ratio_to_a_reference_stays_where_the_node_is_disturbed(
    lab: Lab, warehouse: Database, rows: Rows, tmp_path: Path
) -> None:
    node, neighbour = lab.host("n1"), lab.host("n2")
    for version in ("1.0", "1.1"):
        install(node, version, STEP_S)
    nights = Nights(lab, tmp_path, lambda: connect(warehouse.loader), ("n1",), repeats=3)
    cases = nights.cases(("n1",), "fake", 1)
    drawn = random.Random(SEED)
    for _ in range(NIGHTS_BEFORE):
        node.limit_cpu(drawn.uniform(0.18, 0.32))
        with second_load(neighbour, drawn.random() < 0.5):
            nights.night(cases, TONIGHT, REFERENCE, judged=False)
    for case in cases:
        raw, beside = series_of(nights, warehouse, case.case_id)
        assert len(beside) == NIGHTS_BEFORE
        moved, left = spread_of(raw), spread_of(beside)
        print(f"{case.case_id}: nights vary by {moved:.1%}, beside the reference by {left:.1%}")
        found = [next((fall for fall in FALLS if told(each, fall)), None) for each in (raw, beside)]
        print(f"  smallest fall told within two nights: {found[0]} alone, {found[1]} beside it")
        assert left < moved / 2

    # The machine alone: the build is what it was.
    node.limit_cpu(0.1)
    for _ in range(2):
        verdicts = nights.night(cases, TONIGHT, REFERENCE)
    for row in rows(
        "select * from marts.fct_night_pair where run_id = (select max(run_id) from raw.run)"
    ):
        print(row["case_id"], row["ratio"], row["machine"], row["machine_sentence"])
    for verdict in verdicts.values():
        print(verdict.kind, verdict.sentence)
        assert verdict.kind is not VerdictKind.REGRESSED
    assert rows("select * from marts.fct_alert") == []


@contextmanager
def second_load(neighbour: Host, there: bool) -> Iterator[None]:
    """Work of another host on the same processors, of which the node sees nothing."""
    if not there:
        yield
        return
    neighbour.limit_cpu(0.3)
    work = [neighbour.start(["/usr/bin/python3", "-c", WORK], user="neighbour") for _ in range(2)]
    try:
        yield
    finally:
        for each in work:
            end(each)


def end(worker: subprocess.Popen[bytes]) -> None:
    """End work on a host: nsenter's child first, which would outlive it."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    with suppress(OSError):
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
    worker.kill()
    worker.wait()


def series_of(
    nights: Nights, warehouse: Database, case_id: str
) -> tuple[list[HistoryPoint], list[HistoryPoint]]:
    """The nights of a case by throughput, and beside the reference."""
    with closing(connect(warehouse.loader)) as connection:
        known = Warehouse(connection).series
        cluster, now = nights.cluster.name, nights.at(nights.count)
        raw = known.history(case_id, cluster)
        pairs = known.reference_nights(cluster, [case_id], "", now)[case_id]
    return list(raw), paired_series(raw, rebased(pairs))[0]


def spread_of(points: Sequence[HistoryPoint]) -> float:
    return statistics.stdev(math.log(point.value) for point in points)


def told(points: Sequence[HistoryPoint], fall: float) -> bool:
    """Whether a fall of the last nights' own values would have been told within two nights."""
    slower = [replace(point, value=point.value * (1 - fall)) for point in points[-LATEST:]]
    after = [*points[:-LATEST], *slower]
    return any(is_told(after[: len(after) - LATEST + k]) for k in range(1, LATEST + 1))
