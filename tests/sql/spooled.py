"""Runs and comparisons as files in a spool, as a controller would have written them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tests.sql.given import Given

from nightbench.core.losses import EARLY_STEPS
from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    CaseToLoad,
    Cluster,
    Node,
    PlannedCase,
    Process,
    Protocol,
    Reason,
    ReasonCode,
    RegressionPolicy,
    Run,
    Strategy,
)
from nightbench.core.model.experiments import ExperimentKind
from nightbench.core.run_plan import CasePlan, RunPlan
from nightbench.experiments import comparison
from nightbench.experiments.experiment_spool import store_request
from nightbench.experiments.rounds import Arm, Launch, LaunchOrder, progress
from nightbench.spool import CaseOutcome, RunSpool, Spool
from nightbench.spool.plans import mark_ended, store_plan

FAKE = Build(line="fake")
STEPS = 10
PROTOCOL = Protocol(warmup_steps=1, measured_steps=STEPS, repeats=3)
DIGEST = "d1"
POLICY = RegressionPolicy()

EXITED = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1", "code 0")
COMPARED_CASE = "sleep-fake-collective-1x1-bs2-smoke"
LOST = Reason(ReasonCode.CONTROLLER_ERROR, observed="lost")


def case(batch: int) -> Case:
    """One case of a lone rank; the batch size tells them apart."""
    return Case("sleep", "fake", Strategy.COLLECTIVE, batch_size_per_device=batch, scale="smoke")


def plan(
    run: Run,
    cases: Sequence[Case],
    channels: Sequence[str] = (),
    policy: RegressionPolicy = POLICY,
) -> RunPlan:
    """A plan that measures the cases on one node."""
    process = Process("trainer-0", "trainer", 0, "n1", 0)
    return RunPlan(
        run=run,
        owner="benchmarks",
        protocol=PROTOCOL,
        policy=policy,
        channels=tuple(channels),
        cluster=Cluster(run.cluster, (Node("n1", "127.0.0.2", "local"),), shared=True),
        cases=tuple(
            CasePlan(
                PlannedCase(each, FAKE, DIGEST, "samples"),
                processes=(process,),
                units_per_trainer_step=int(each.batch_size_per_device),
            )
            for each in cases
        ),
    )


def spooled(
    spool: Spool,
    run: Run,
    throughputs: Mapping[Case, float | Reason | None],
    channels: Sequence[str] = (),
    wall_factor: float = 1.0,
    version: str = "1.0",
    fingerprint: Mapping[str, Any] | None = None,
    policy: RegressionPolicy = POLICY,
    peak_bytes: int = 1_000_000,
    losses: Mapping[Case, Sequence[float]] | None = None,
) -> RunSpool:
    """A run that has ended.

    Args:
        spool: where it goes.
        run: which.
        throughputs: case -> samples per second of its repeats, a reason for which it failed, or
            None if nothing came back.
        channels: where its alerts go.
        wall_factor: how much longer the windows were than their steps add up to.
        version: of the framework.
        fingerprint: of its node, with its `id`; unknown if None.
        policy: of the suite.
        peak_bytes: resident memory of the rank.
        losses: of a case's first step and of those of its window; the same each night unless given.
    """
    folder = store_plan(plan(run, list(throughputs), channels, policy), spool)
    for each, came in throughputs.items():
        if came is None:
            continue
        store = folder.case(each.case_id)
        if fingerprint is not None:
            store.save_fingerprint("n1", fingerprint)
        ended_at = run.started_at.isoformat()
        if isinstance(came, Reason):
            failed = CaseOutcome(CaseStatus.FAILED, (came,), ended_at=ended_at)
            store.save_outcome(failed.to_json())
            continue
        for number in range(1, PROTOCOL.repeats + 1):
            result = _result(run, each, number, came, wall_factor, version)
            memory = result["processes"][0]["summary"]["peak_memory"]
            memory["resident_bytes"] = peak_bytes
            if losses and each in losses:
                first, *window = losses[each]
                told = {"first": first, "window": window, "last": window[-1]}
                told["early"] = losses[each][:EARLY_STEPS]
                result["processes"][0]["summary"]["loss"] = told
            store.save_result(number, "n1", result)
            store.save_repeat(
                number,
                {
                    "status": "ok",
                    "reasons": [],
                    "faults": [],
                    "started_at": (run.started_at - timedelta(seconds=60)).isoformat(),
                    "clocks": {"n1": {"offset_s": 0.0, "error_s": 0.001}},
                },
            )
        store.save_outcome(CaseOutcome(CaseStatus.OK, (), ended_at=ended_at).to_json())
    mark_ended(folder)
    return folder


def _result(
    run: Run, case: Case, repeat: int, throughput: float, wall_factor: float, version: str
) -> dict[str, Any]:
    # A little apart, as repeats are: the median is the figure asked for.
    lap = int(case.batch_size_per_device) / (throughput * (1 + 0.002 * (repeat - 2)))
    wall = lap * STEPS * wall_factor
    return {
        "schema": "nightbench.result/1",
        "job_id": f"{run.run_id}/{case.case_id}/g0",
        "repeat": repeat,
        "node": "n1",
        "status": "ok",
        "reasons": [],
        "log_tail": None,
        "started_s": 90.0,
        "ended_s": 120.0,
        "telemetry": {"interval_s": 1.0, "samples": []},
        "killed": [],
        "ports": {},
        "processes": [
            {
                "name": "trainer-0",
                "role": "trainer",
                "measured": True,
                "rank": 0,
                "exit_code": 0,
                "signal": None,
                "summary": {
                    "schema": "nightbench.rank/1",
                    "samples_per_step": float(case.batch_size_per_device),
                    "world_size": 1,
                    "window": {
                        "open_s": 100.0,
                        "close_s": 100.0 + wall,
                        "wall_s": wall,
                        "steps": STEPS,
                    },
                    "step_seconds": [lap] * STEPS,
                    "step_end_s": [99.0, *(100.0 + lap * (i + 1) for i in range(STEPS))],
                    "warmup_steps": 1,
                    "drain_steps": 0,
                    "time_to_first_step_s": 0.5,
                    "loss": {
                        "first": 2.0,
                        "early": [2.0] + [1.5] * 5,
                        "window": [1.5] * STEPS,
                        "last": 1.5,
                    },
                    "loss_finite": True,
                    "weights_moved": {"w": {"largest": 0.02, "limit": 0.05}},
                    "weights_digest": "ab" * 32,
                    "parameters": 1000,
                    "peak_memory": {"resident_bytes": 1_000_000, "allocator_bytes": None},
                    "precision": "fp32",
                    "transport": None,
                    "versions": {"python": "3.11.7", "fake": version},
                    "conditions": {"cpus": "2"},
                },
            }
        ],
    }


def compared(spool: Spool, name: str, ratios: list[float], by: str = "ada") -> RunSpool:
    """A comparison of one case with a disturbed first launch and then rounds of these ratios."""
    folder = spool.comparison(name)
    builds = {"a": Build("fake", version="1.0"), "b": Build("fake", version="1.1")}
    store_request(
        folder,
        ExperimentKind.COMPARE,
        {
            "a": "fake=1.0",
            "b": "fake=1.1",
            "suite": "demo",
            "cases": [COMPARED_CASE],
            "cluster": None,
        },
        {
            "builds": {arm: dataclasses.asdict(build) for arm, build in builds.items()},
            "cases": {COMPARED_CASE: {"definition_digest": "d1", "nodes": ["n1"]}},
            "code": "c1",
            "rounds": 5,
            "min_effect": 0.01,
            "seed": 1,
        },
        by,
        suite="demo",
        cluster="local",
        left_out={},
    )
    order = LaunchOrder.seeded(5, 1, COMPARED_CASE)
    why = (Reason(ReasonCode.FOREIGN_CPU, "n1", observed="31 %", expected="under 10 %"),)
    launches = [Launch(1, order.first, "disturbed", None, why)]
    for ratio in ratios:
        for _ in Arm:
            following = progress(order, launches).next
            assert following is not None
            value = 100.0 * (ratio if following[1] is Arm.B else 1.0)
            launches.append(Launch(*following, "ok", value))
    for number, launch in enumerate(launches):
        comparison.save_launch(folder.case(COMPARED_CASE, number), launch)
    return folder


def near(given: Given, run: Run, case: Case, level: float, **more: Any) -> CaseToLoad:
    """A case of the fake line as it came back: three repeats that agree about a level."""
    repeats = tuple(level * x for x in (0.998, 1.0, 1.002))
    usual = {"build": FAKE, "definition_digest": DIGEST, "fingerprint_id": "", "unit": "samples"}
    return given.came_back(run, case, repeats, **{**usual, **more})
