"""Ranks whose steps are known to the microsecond."""

from __future__ import annotations

from collections.abc import Sequence

from nightbench.core.model import Case, ClockOffset, RankResult, RepeatRecord, Strategy

COLLECTIVE = Case("net", "fake", Strategy.COLLECTIVE, nodes=2, trainers=2, batch_size_per_device=2)
ASYNC = Case(
    "net",
    "fake",
    Strategy.PARAMETER_SERVER,
    nodes=2,
    trainers=2,
    pservers=1,
    batch_size_per_device=2,
    sync="async",
)


def rank(
    number: int,
    laps: Sequence[float],
    *,
    opened: float = 100.0,
    before: Sequence[float] = (),
    after: Sequence[float] = (),
    wall: float | None = None,
    samples: float = 2.0,
) -> RankResult:
    """A trainer on node n<number> whose steps follow each other without a gap."""
    ends = []
    now = opened - sum(before)
    for lap in (*before, *laps, *after):
        now += lap
        ends.append(now)
    return RankResult(
        name=f"trainer-{number}",
        role="trainer",
        rank=number,
        node=f"n{number}",
        samples_per_step=samples,
        window_open_s=opened,
        window_close_s=opened + sum(laps),
        window_wall_s=sum(laps) if wall is None else wall,
        step_seconds=tuple(laps),
        step_end_s=tuple(ends),
        time_to_first_step_s=3.0 + number,
        loss_first=7.0,
        loss_window=tuple(6.0 for _ in laps),
        peak_resident_bytes=1000 + number,
        sent_bytes_per_step=500 + number,
        data_wait_s=0.25 * number,
        versions={"fake": "1.0"},
    )


def record(*ranks: RankResult, clocks: dict[str, float] | None = None) -> RepeatRecord:
    """A repeat that went well; `clocks` are the nodes' offsets."""
    offsets = {"n0": 0.0, "n1": 0.0} if clocks is None else clocks
    return RepeatRecord(
        repeat=1,
        status="ok",
        reasons=(),
        ranks=ranks,
        clocks={node: ClockOffset(offset, 0.001) for node, offset in offsets.items()},
        fingerprints={r.node: f"f-{r.node}" for r in ranks},
    )
