"""What a pipeline would hand over to the warehouse, made for tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    CaseToLoad,
    CheckResult,
    ClockOffset,
    Cluster,
    LoadBatch,
    Measurement,
    Node,
    PlannedCase,
    RankResult,
    RepeatRecord,
    RepeatSummary,
    RepeatToLoad,
    Run,
    RunKind,
    Severity,
    Strategy,
)

NIGHT = datetime(2026, 3, 1, 1, 0, tzinfo=UTC)
PYTORCH = Build(line="pytorch", version="2.13.0")
CLUSTER = Cluster(
    name="local",
    nodes=tuple(Node(name=n, host="127.0.0.2", ssh_conn_id="local") for n in ("n1", "n2")),
    description="Two local nodes",
    shared=True,
)


class Given:
    """Makes what a pipeline would hand over."""

    cluster = CLUSTER
    build = PYTORCH

    def case(self, nodes: int = 1, **axes: Any) -> Case:
        given: dict[str, Any] = {
            "workload": "resnet50_v1.5",
            "framework": "pytorch",
            "scale": "smoke",
            "batch_size_per_device": 2,
        } | axes
        strategy = given.pop("strategy", Strategy.COLLECTIVE)
        trainers = given.pop("trainers", nodes)
        return Case(
            strategy=strategy,
            nodes=nodes,
            trainers=trainers,
            **given,
        )

    def run(self, night: int = 0, suite: str = "demo", cluster: str = "local", **more: Any) -> Run:
        at = NIGHT + timedelta(days=night)
        kind = more.pop("run_kind", RunKind.NIGHTLY)
        return Run(
            run_id=f"{suite}-{at:%Y%m%dT%H%M%S}-{more.pop('tail', '0a1b')}",
            suite=suite,
            cluster=cluster,
            run_kind=kind,
            started_at=at,
            **more,
        )

    def rank(self, rank: int, node: str, steps: tuple[float, ...]) -> RankResult:
        ends = tuple(100.0 + sum(steps[: i + 1]) for i in range(len(steps)))
        return RankResult(
            name=f"trainer-{rank}",
            role="trainer",
            rank=rank,
            node=node,
            samples_per_step=2.0,
            window_open_s=100.0,
            window_close_s=100.0 + sum(steps),
            window_wall_s=sum(steps),
            step_seconds=steps,
            step_end_s=ends,
            time_to_first_step_s=1.5,
            loss_first=6.9,
            loss_window=(6.8, 6.7),
            weights_digest="ab" * 32,
            parameters=25_557_032,
            peak_resident_bytes=512_000_000,
            precision="fp32",
            versions={"python": "3.11.7", "pytorch": "2.13.0+cpu"},
        )

    def repeat(
        self, number: int, throughput: float, nodes: tuple[str, ...] = ("n1",)
    ) -> RepeatToLoad:
        step = 2.0 * len(nodes) / throughput
        # The last rank is the slowest by a little.
        ranks = tuple(
            self.rank(i, node, (step * (1 - 0.01 * (len(nodes) - 1 - i)),) * 4)
            for i, node in enumerate(nodes)
        )
        return RepeatToLoad(
            record=RepeatRecord(
                repeat=number,
                status="ok",
                reasons=(),
                ranks=ranks,
                clocks={node: ClockOffset(-12.5, 0.001) for node in nodes},
                fingerprints={node: f"fp-{node}" for node in nodes},
                started_at=NIGHT,
            ),
            summary=RepeatSummary(
                repeat=number,
                throughput=throughput,
                window_s=4 * step,
                samples=8.0 * len(nodes),
                step_throughput=throughput,
                drift=0.0,
                time_to_first_step_s=1.5,
                peak_resident_bytes=512_000_000,
                loss_first=6.9,
                loss_median=6.75,
            ),
        )

    def measurement(self, run: Run, case: Case, throughputs: tuple[float, ...]) -> Measurement:
        middle = median(throughputs)
        return Measurement(
            run_id=run.run_id,
            case=case,
            cluster=run.cluster,
            build=PYTORCH,
            unit="images",
            repeats=(),
            n=len(throughputs),
            throughput=middle,
            minimum=min(throughputs),
            maximum=max(throughputs),
            mad=median(abs(t - middle) for t in throughputs),
            spread=(max(throughputs) - min(throughputs)) / middle,
            framework_version="2.13.0+cpu",
            definition_digest="d1",
            fingerprint_id="fp-n1",
        )

    def came_back(
        self,
        run: Run,
        case: Case,
        throughputs: tuple[float, ...] = (10.0, 11.0, 12.0),
        *,
        checks: tuple[CheckResult, ...] = (),
        nodes: tuple[str, ...] | None = None,
        generation: int = 0,
        elapsed_s: float | None = 60.0,
        **changed: Any,
    ) -> CaseToLoad:
        on = nodes or tuple(n.name for n in CLUSTER.nodes[: case.nodes])
        return CaseToLoad(
            case=case,
            generation=generation,
            status=CaseStatus.OK,
            repeats=tuple(self.repeat(i, t, on) for i, t in enumerate(throughputs, start=1)),
            measurement=replace(self.measurement(run, case, throughputs), **changed),
            checks=checks,
            elapsed_s=elapsed_s,
        )

    def failed_check(self, repeat: int | None = None) -> CheckResult:
        return CheckResult(
            subject="measurement" if repeat is None else "repeat",
            repeat=repeat,
            check="throughput_consistent",
            severity=Severity.FAIL,
            success=False,
            observed="1.7 % apart",
            expected="within 1 %",
        )

    def batch(
        self, run: Run, *cases: CaseToLoad, missing: tuple[Case, ...] = (), **more: Any
    ) -> LoadBatch:
        every = (*(c.case for c in cases), *missing)
        planned = {c.case_id: PlannedCase(c, PYTORCH, "d1", "images") for c in every}
        return LoadBatch(
            run=run,
            planned=tuple(planned.values()),
            cases=cases,
            fingerprints={
                f"fp-{n}": {"schema": "nightbench.fingerprint/1", "node": n} for n in ("n1", "n2")
            },
            cluster=CLUSTER,
            **more,
        )
