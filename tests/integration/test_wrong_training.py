"""Real trainings in six nights; in the sixth, two of three cases train differently.

Each night is planned, measured on local nodes over SSH, loaded into PostgreSQL and judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.integration.openssh import SshNodes, local_nodes
from tests.performance.training import change_code
from tests.performance.training_changes import FAULTS
from tests.shipped import shipped
from tests.sql.conftest import Database, Rows, connection, rows, server, shared_database, template
from tests.sql.conftest import warehouse as warehouse

from nightbench.config import load_catalog
from nightbench.core.model import (
    Build,
    Case,
    Cluster,
    Protocol,
    RegressionPolicy,
    RunKind,
    Strategy,
    Suite,
    TrainingKind,
)
from nightbench.core.run_plan import make_plan
from nightbench.gang import Shipment, case_runner
from nightbench.gang.progress import ignore
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import JudgeResult, judge_run
from nightbench.spool import Spool
from nightbench.spool.plans import mark_ended, store_plan
from nightbench.warehouse import connect

__all__ = ["connection", "rows", "server", "shared_database", "template"]

pytestmark = [pytest.mark.framework, pytest.mark.large, pytest.mark.timeout(3600)]

START = datetime(2026, 3, 1, 1, tzinfo=UTC)
GOOD_NIGHTS = 5
FAULT = "3 of 4 gradients are 0"
ALONE = Case("gpt2", "pytorch", Strategy.SINGLE, batch_size_per_device=2, scale="smoke")
SOUND = replace(ALONE, workload="word2vec")
SERVED = Case(
    *("ctr_dnn", "paddle2", Strategy.PARAMETER_SERVER),
    nodes=2,
    trainers=2,
    pservers=1,
    sync="geo",
    batch_size_per_device=64,
    scale="smoke",
)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[SshNodes]:
    with local_nodes(tmp_path / "nodes") as found:
        yield found


def test_a_fault_of_the_sixth_night_is_an_alert(
    nodes: SshNodes,
    interpreter: Callable[[str], str],
    warehouse: Database,
    rows: Rows,
    tmp_path: Path,
) -> None:
    benchmarks, spool = shipped(tmp_path / "shipped"), Spool(tmp_path / "spool")
    cluster = Cluster("local", nodes.nodes, shared=True, environments=nodes.environments)
    suite = Suite(
        *("trains", "tests", "local", (ALONE, SOUND, SERVED)),
        # A window of milliseconds says how busy this machine is.
        protocol=Protocol(warmup_steps=2, measured_steps=100, min_seconds=2, repeats=1),
        policy=RegressionPolicy(confirm_s=0),
        builds={
            line: Build(line, "cpu", "path", None, str(Path(interpreter(line)).parents[1]))
            for line in ("pytorch", "paddle2")
        },
    )

    def night(number: int) -> JudgeResult:
        plan = make_plan(
            suite,
            cluster,
            load_catalog(benchmarks),
            run_kind=RunKind.NIGHTLY,
            started_at=START + timedelta(days=number),
        )
        folder = store_plan(plan, spool)
        ends = case_runner.measure_cases(
            plan.jobs,
            folder,
            nodes.targets,
            Shipment(benchmarks),
            on_event=ignore,
            refresh=lambda: None,
        )
        assert {end.status for end in ends} == {"ok"}, ends
        mark_ended(folder)
        ingest_run(spool, plan.run.run_id, lambda: connect(warehouse.loader))
        judged = judge_run(spool, plan.run.run_id, lambda: connect(warehouse.loader))
        for verdict in judged.verdicts:
            words = verdict.kind, verdict.sentence, verdict.training_sentence
            print(f"{plan.run.run_id} {verdict.case_id}:", *words, flush=True)
        return judged

    for number in range(GOOD_NIGHTS):
        good = night(number)
        assert TrainingKind.CHANGED not in [each.training for each in good.verdicts], good
    assert rows("select * from marts.fct_alert") == []
    for case in (ALONE, SERVED):
        change_code(benchmarks, case, FAULTS[FAULT])
    wrong = night(GOOD_NIGHTS)
    assert {each.case_id: each.training for each in wrong.verdicts} == {
        ALONE.case_id: TrainingKind.CHANGED,
        SOUND.case_id: TrainingKind.SAME,
        SERVED.case_id: TrainingKind.CHANGED,
    }
    alerts = rows("select * from marts.fct_alert")
    for alert in alerts:
        print(f"alert: {alert['sentence']}\n  {alert['cause']}: {alert['cause_sentence']}")
    assert {alert["case_id"] for alert in alerts} == {ALONE.case_id, SERVED.case_id}
    assert {alert["verdict"] for alert in alerts} == {"training_changed"}
