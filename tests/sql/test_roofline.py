"""What a step is bound by, from the controls of the same night, on a real PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sql.conftest import Database
from tests.sql.given import NIGHT, Given
from tests.sql.page_client import page_client

from nightbench.core.model import CaseToLoad
from nightbench.nodes import Control
from nightbench.spool import Spool
from nightbench.warehouse import Warehouse

GPU = {"matrix_product": 40_000.0, "memory_copy": 1_000.0}
"""GFLOP/s and GB/s. Ranks have 25.6 million parameters; two ranks take 2 images each in a step."""


def over_sockets(back: CaseToLoad) -> CaseToLoad:
    def spoke(rank: Any) -> Any:
        return replace(rank, transport="nccl/socket")

    return replace(
        back,
        repeats=tuple(
            replace(e, record=replace(e.record, ranks=tuple(map(spoke, e.record.ranks))))
            for e in back.repeats
        ),
    )


@pytest.mark.parametrize(
    ("rate", "tflops", "wait_s", "device", "all_reduce", "bound", "shares"),
    [
        # 20 steps/s of 5 TFLOP/s by 40: 0.125; 6 x 4 B x 25.6e6 / 2e12 B/s x 20/s: 0.006.
        (80.0, 30.0, 0.0, "gpu-0", 10.0, "compute", (0.0, 0.75, 0.006, 0.204)),
        (80.0, 5.0, 0.0, "gpu-0", 2.5, "network", (0.0, 0.125, 0.006, 0.818)),
        (80.0, 30.0, 0.01, "gpu-0", 10.0, "input", (0.2, 0.75, 0.006, 0.204)),
        (8000.0, 5.0, 0.0, "gpu-0", None, "memory", (0.0, 0.125, 0.613, None)),
        (80.0, 5.0, 0.0, "gpu-0", 10.0, None, (0.0, 0.125, 0.006, 0.204)),
        (80.0, 30.0, 0.0, "cpu", None, None, (0.0, None, None, None)),
    ],
)
def test_the_bound_of_a_step(
    warehouse: Database,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    loader: Warehouse,
    given: Given,
    rows: Any,
    rate: float,
    tflops: float,
    wait_s: float,
    device: str,
    all_reduce: float | None,
    bound: str | None,
    shares: tuple[float | None, ...],
) -> None:
    case, run = given.case(nodes=2, data="imagenet" if wait_s else "synthetic"), given.run()
    back = given.came_back(
        run, case, (rate,) * 3, data_wait_s=wait_s, model_flops_per_s=tflops * 1e12 * case.trainers
    )
    loader.runs.load(given.batch(run, over_sockets(back)))
    controls = [
        Control(node, metric, device, "torch-2.13", "x", (value * more,))
        for node, more in (("n1", 1.0), ("n2", 1.1), ("n3", 0.1))
        for metric, value in GPU.items()
    ]
    if all_reduce is not None:
        controls.append(Control("n1+n2+n3", "all_reduce", "network", "tcp", "GB/s", (all_reduce,)))
    loader.nodes.store_preflight(run.cluster, run.run_id, [], controls, NIGHT)
    app = page_client(warehouse, Spool(tmp_path), monkeypatch)
    shown = app.get(f"/api/series/local/{case.case_id}").json()["roofline"]
    assert shown["bound"] == bound
    names = ("input_share", "compute_share", "memory_share", "network_share")
    found = tuple(value if (value := shown[name]) is None else round(value, 3) for name in names)
    assert found == shares
    if bound is None and device == "cpu":
        assert shown["absent"] == "no control measurement of its devices in this run"
    elif bound is None:
        assert shown["absent"] == "no share that is known takes half of a step"
    (row,) = rows(
        "select case_id, run_id, bound, round(step_s::numeric, 4) as s from marts.roofline"
    )
    assert (row["case_id"], row["run_id"], row["bound"]) == (case.case_id, run.run_id, bound)
    assert float(row["s"]) == round(4 / rate, 4)
