"""Two controllers, a colleague, and a person want the same nodes."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.drills.gangs import (
    REPO,
    Controller,
    agent_log,
    check_accounts,
    eventually,
    in_phase,
    left,
    make_job,
    make_store,
    measure,
    with_plugins,
)
from tests.drills.hosts import Lab, marked

from nightbench.core.model import CaseStatus, JobSpec
from nightbench.gang import Shipment
from nightbench.spool import CaseOutcome, Spool

SUITE = """\
suite: mine
owner: a person
cluster: lab
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 20, repeats: 1}
matrix:
  - workload: sleep
    frameworks: fake
    strategy: collective
    devices: 2x1
    batch_size_per_device: 2
"""


def held(lab: Lab, job: JobSpec, node: str, user: str = "bench") -> tuple[datetime, datetime]:
    """From when to when a job had a node's lock, by its agent's log."""
    at = {
        entry["event"]: datetime.fromisoformat(entry["at"])
        for entry in agent_log(lab.hosts[node], job, user)
    }
    return at["lock"], at["end"]


def check_disjoint(spans: list[tuple[datetime, datetime]]) -> None:
    """No two of them overlap."""
    for (_, first_end), (second_start, _) in itertools.pairwise(sorted(spans)):
        assert first_end <= second_start, spans


async def test_two_controllers_want_the_same_nodes_in_opposite_order(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """No deadlock, no sharing; who waits says for whom."""
    for name in ("n1", "n2"):
        lab.host(name)
    jobs = [
        make_job(lab, shipment, nodes=order, repeats=1, steps=30)
        for order in (("n1", "n2"), ("n2", "n1"), ("n1", "n2"), ("n2", "n1"))
    ]
    stores = [make_store(tmp_path, f"run-{k}") for k in range(len(jobs))]
    users = ["bench", "person", "person", "bench"]
    controllers = [
        Controller(tmp_path / f"c{k}", shipment, job, store, lab.targets(user))
        for k, (job, store, user) in enumerate(zip(jobs, stores, users, strict=True))
    ]
    for controller in controllers:
        assert await controller.end(240) == 0, controller.log.read_text()
    for job, store, user in zip(jobs, stores, users, strict=True):
        outcome = CaseOutcome.from_json(store.outcome() or {})
        assert outcome.status is CaseStatus.OK
        check_accounts(lab, job, store, outcome, user)
    for node in ("n1", "n2"):
        check_disjoint([held(lab, job, node, user) for job, user in zip(jobs, users, strict=True)])
    logs = "".join(controller.log.read_text() for controller in controllers)
    assert "waiting" in logs
    holders = [f"{job.job_id} of user {user}" for job, user in zip(jobs, users, strict=True)]
    assert any(f"{holder} has locked it since" in logs for holder in holders)


async def test_a_person_runs_a_suite_while_the_night_measures(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """`nightbench run --direct` as another user waits, shows for whom, and then measures."""
    for name in ("n1", "n2"):
        lab.host(name)
    place = tmp_path / "place"
    for name, text in (
        ("dags/suites/mine.yaml", SUITE),
        ("dags/clusters/lab.yaml", lab.cluster_yaml(more="shared: true\n")),
        ("home/connections.json", json.dumps({"lab": lab.connection("person")})),
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    job = make_job(lab, shipment, repeats=1, steps=400, step_s=0.3, limits={"repeat_s": 300})
    store = make_store(tmp_path)
    night = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window"))
    log = tmp_path / "person.log"
    with log.open("wb") as out:
        person = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from nightbench.cli.entry import main; main()",
                "run",
                "mine",
                "--direct",
            ],
            cwd=REPO,
            env={
                **with_plugins(),
                "NIGHTBENCH_HOME": str(place / "home"),
                "NIGHTBENCH_DAGS": str(place / "dags"),
            },
            stdout=out,
            stderr=out,
        )
    try:
        await eventually(lambda: job.job_id in log.read_text(), 120, "who holds the node: not said")
        assert person.poll() is None
        outcome = await night
        check_night(lab, job, outcome)
        await eventually(lambda: person.poll() is not None, 120)
    finally:
        person.kill()
        person.wait()
    assert person.returncode == 0, log.read_text()
    [run] = Spool(place / "home/spool").runs()
    [case_id] = run.case_ids()
    assert (run.case(case_id).outcome() or {})["status"] == "ok"
    assert marked(run.run_id) == []


def check_night(lab: Lab, job: JobSpec, outcome: CaseOutcome) -> None:
    """The night's case did not suffer."""
    assert outcome.status is CaseStatus.OK
    assert left(job) == []


async def test_a_controller_is_killed_again_and_again(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """Wherever it was: one launch of each repeat, finished ones kept."""
    for name in ("n1", "n2"):
        lab.host(name)
    job = make_job(lab, shipment, repeats=3, steps=15, step_s=0.1, limits={"lease_s": 40})
    store = make_store(tmp_path)
    lives: list[Any] = []
    # Each lives a little longer than the one before: some die while they claim, prepare, collect.
    for number in range(1, 40):
        controller = Controller(tmp_path / "c", shipment, job, store, lab.targets())
        lives.append(controller)
        try:
            await asyncio.wait_for(controller.end(), 1.0 + 0.45 * number)
        except TimeoutError:
            controller.kill()
            continue
        break
    assert len(lives) > 4, "it was never killed"
    assert controller.process.returncode == 0, controller.log.read_text()
    outcome = CaseOutcome.from_json(store.outcome() or {})
    check_accounts(lab, job, store, outcome)
    assert [(r.repeat, r.status) for r in outcome.repeats] == [(k, "ok") for k in (1, 2, 3)]
