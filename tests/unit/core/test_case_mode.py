"""The words by which a case is called."""

import dataclasses

import pytest

from nightbench.core.model import LINE_AXES, Case, Strategy

MODES = {
    "sync": "async",
    "precision": "bf16",
    "compiler": "xla",
    "execution": "graph",
    "layout": "channels_last",
    "compression": "dgc",
    "shard_stage": 2,
    "tensor": 2,
    "context": 2,
    "expert": 2,
    "schedule": "1f1b",
    "micro_batches": 4,
    "recompute": "full",
    "state_precision": "bf16",
    "tuning": "ddp_static_graph",
}


WORDS = {
    **{"shard_stage": "shard2", "tensor": "tensor", "micro_batches": "micro_batches"},
    **{"context": "context", "expert": "expert", "recompute": "recompute_full"},
    "state_precision": "states_bf16",
}


@pytest.mark.parametrize("axis", ["strategy", "data", *MODES])
def test_a_mode_names_each_axis_of_a_line_that_is_not_at_its_default(axis: str) -> None:
    changed = {**MODES, "strategy": Strategy.PARAMETER_SERVER, "data": "imagenet"}[axis]
    served = {"strategy": Strategy.PARAMETER_SERVER, "pservers": 1}
    more = {"shard_stage": {"shard": 2}, "sync": served}.get(axis, {})
    case = Case("resnet50_v1.5", "pytorch", Strategy.COLLECTIVE, nodes=2, trainers=2)

    found = dataclasses.replace(case, **{axis: changed}, **more).mode

    assert {"strategy", "data", *MODES} == LINE_AXES.keys()
    assert found.split()[1:] == ([] if axis in ("strategy", "data") else [WORDS.get(axis, changed)])
