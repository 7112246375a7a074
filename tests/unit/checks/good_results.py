"""A case that was measured well; tests spoil one thing at a time."""

from dataclasses import replace

from nightbench.checks import CheckContext
from nightbench.core.model import (
    Build,
    Case,
    Measurement,
    Process,
    Protocol,
    RankResult,
    RepeatRecord,
    RepeatSummary,
    Strategy,
)
from nightbench.core.model.results import Movement

CONTEXT = CheckContext(
    units_per_trainer_step=2,
    case=Case("resnet50_v1.5", "pytorch", Strategy.COLLECTIVE, nodes=2, trainers=2,
              batch_size_per_device=2, scale="smoke"),
    protocol=Protocol(warmup_steps=2, measured_steps=4, repeats=3),
    processes=(
        Process("trainer-0", "trainer", 0, "n1", 0),
        Process("trainer-1", "trainer", 1, "n2", 0),
    ),
    unit="images",
    parameters=25_557_032,
    converges=True,
    power_limit_w=400.0,
    requested_version="2.13.0",
)  # fmt: skip

ASYNC = replace(
    CONTEXT,
    case=Case("ctr_dnn", "paddle1", Strategy.PARAMETER_SERVER, trainers=2, pservers=1,
              batch_size_per_device=2, sync="async", scale="smoke"),
    processes=(*CONTEXT.processes, Process("pserver-0", "pserver", 0, "n1", 0, measured=False)),
    unit="samples",
    parameters=None,
    converges=False,
    requested_version=None,
)  # fmt: skip

STEPS = (0.10, 0.11, 0.10, 0.09)
RANK = RankResult(
    name="trainer-0",
    role="trainer",
    rank=0,
    node="n1",
    samples_per_step=2.0,
    window_open_s=100.2,
    window_close_s=100.6,
    window_wall_s=0.4001,
    step_seconds=STEPS,
    step_end_s=(100.1, 100.2, 100.3, 100.41, 100.51, 100.6),
    time_to_first_step_s=3.0,
    loss_first=7.0,
    loss_window=(6.5, 6.4, 6.3, 6.2),
    loss_again=6.1,
    weights_moved={"w": Movement(0.02, 0.05), "b": Movement(0.01, None)},
    weights_digest="ab" * 32,
    parameters=25_557_032,
    peak_resident_bytes=10**9,
    precision="fp32",
    versions={"pytorch": "2.13.0+cpu"},
)
RANKS = (RANK, replace(RANK, name="trainer-1", rank=1, node="n2"))
PSERVER = RankResult("pserver-0", "pserver", 0, "n1", measured=False)

RECORD = RepeatRecord(repeat=1, status="ok", reasons=(), ranks=RANKS)
SUMMARY = RepeatSummary(
    repeat=1,
    throughput=40.0,
    window_s=0.4,
    samples=16.0,
    step_throughput=40.1,
    drift=0.02,
    loss_first=7.0,
    loss_median=6.35,
)
ASYNC_RECORD = replace(
    RECORD,
    ranks=(
        *(
            replace(r, parameters=None, weights_digest=w, gradients_arrive=True)
            for r, w in zip(RANKS, "xy", strict=True)
        ),
        PSERVER,
    ),
)
ASYNC_SUMMARY = replace(SUMMARY, overlap=0.95)

MEASUREMENT = Measurement(
    run_id="demo-20260101T000000-0000",
    case=CONTEXT.case,
    cluster="local",
    build=Build("pytorch", version="2.13.0"),
    unit="images",
    repeats=tuple(replace(SUMMARY, repeat=k) for k in (1, 2, 3)),
    n=3,
    throughput=40.0,
    minimum=39.0,
    maximum=41.0,
    spread=0.05,
    efficiency=0.97,
    framework_version="2.13.0+cpu",
)
