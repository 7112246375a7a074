"""The suite `short`: two cases of the fake framework, with the hours that a test gives them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nightbench.config import load_catalog
from nightbench.config.run_request import RunRequest
from nightbench.night.planning import plan_run
from nightbench.spool import RunSpool, Spool
from nightbench.warehouse import connect
from nightbench.warehouse.connection import Connect, Connection

NOW = datetime.now(UTC)
RUN = "short-20261121T010203-9f3a"
SINGLE, PAIR = (f"sleep-fake-collective-{size}-bs2-smoke" for size in ("1x1", "2x1"))
NOBODY = "postgresql://nobody:x@127.0.0.1:1/none"
"""A warehouse that does not answer: plans wait in the spool."""

CLUSTER = """\
cluster: pair
{limits}
nodes:
  - hosts: 127.0.0.[2-3]
    name: n[1-2]
    ssh_conn_id: nightbench_pair
"""
SUITE = """\
suite: short
owner: tests
cluster: pair
scale: smoke
schedule: "0 1 * * *"
{night}
timeouts: {{repeat: 10m}}
matrix:
  - workload: sleep
    frameworks: [fake]
    strategy: collective
    devices: [1x1, 2x1]
    batch_size_per_device: 2
"""


def clock(after: timedelta) -> str:
    return f"{NOW + after:%H:%M}"


def hours(start: timedelta, end: timedelta) -> str:
    return f"{clock(start)}-{clock(end)} UTC"


OPEN = hours(timedelta(hours=-1), timedelta(hours=8))
LATER = hours(timedelta(hours=2), timedelta(hours=10))


def short_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    """An empty spool; suite and cluster are written, without hours."""
    monkeypatch.setenv("NIGHTBENCH_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(tmp_path / "dags"))
    monkeypatch.setenv("AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE", NOBODY)
    files(tmp_path)
    return Spool(tmp_path / "spool")


def files(tmp_path: Path, night: str = "", limits: str = "") -> None:
    for name, text in (
        ("clusters/pair", CLUSTER.format(limits=f"limits: {{{limits}}}" if limits else "")),
        ("suites/short", SUITE.format(night=f"night: {{{night}}}" if night else "")),
    ):
        path = tmp_path / "dags" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def nobody() -> Connection:
    return connect(NOBODY)


def plan(
    spool: Spool, at: datetime = NOW, open_warehouse: Connect = nobody, **request: Any
) -> tuple[list[str], RunSpool]:
    """Plan a run; the cases that are measured, and its files."""
    cases = plan_run(RunRequest("short", **request), RUN, at, spool, open_warehouse, load_catalog())
    return cases, spool.run(RUN)
