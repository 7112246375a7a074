"""How devices split a training between them, and what does not come out even. Pure."""

from __future__ import annotations

from nightbench.core.model import MAX_BATCH, Case, Strategy, WorkloadInfo
from nightbench.core.variants import Refusal

_TWO_STAGES = ("interleaved", "zero_bubble")
"""Schedules that give each device of a pipeline two stages."""


def parallelism_refusal(case: Case, workload: WorkloadInfo) -> Refusal | None:
    """Refuse parts that the workload has not, or that do not make up devices, matrices, layers."""
    for axis in ("tensor", "context", "expert", "pipeline"):
        number = getattr(case, axis)
        if number > 1 and not getattr(workload, axis):
            said = f"{workload.name} is never split by {axis}: found {number}; expected 1"
            return Refusal(axis, said)
    for axis in ("shard", "micro_batches"):
        if getattr(case, axis) > 1 and workload.shards is None:
            said = f"{workload.name} is never split: found {getattr(case, axis)}; expected 1"
            return Refusal(axis, said)
    if case.recompute != Case.recompute and workload.shards is None:
        said = f"{workload.name} names no layers: found {case.recompute}; expected none"
        return Refusal("recompute", said)
    # Shards may use the same devices as a context or as experts.
    return (
        _uneven_devices(case, "shard", "tensor", "pipeline")
        or _uneven_devices(case, "context", "tensor", "pipeline")
        or _uneven_devices(case, "expert", "tensor", "pipeline")
        or _uneven_experts(case, workload)
        or _uneven_parts(case, workload)
    )


def _uneven_devices(case: Case, *axes: str) -> Refusal | None:
    split = {axis: getattr(case, axis) for axis in axes if getattr(case, axis) > 1}
    if not split:
        return None
    devices, product = case.nodes * case.devices_per_node, 1
    for number in split.values():
        product *= number
    first = next(iter(split))
    if case.strategy is not Strategy.COLLECTIVE or devices % product:
        found, of = str(product), ""
        if len(split) > 1:
            of = ", the product of " + " and ".join(f"{each} {n}" for each, n in split.items())
        return Refusal(
            first,
            f"found {found}{of} with {case.strategy} on {case.nodes}x{case.devices_per_node}; "
            f"expected collective, and a divisor of the devices, of which there are {devices}",
        )
    if case.batch_size_per_device == MAX_BATCH:
        said = "one process searches the batch size max, and cannot hold a split model"
        return Refusal("batch_size_per_device", f"{said}: expected a number with `{first}`")
    return None


def _uneven_experts(case: Case, workload: WorkloadInfo) -> Refusal | None:
    """Refuse a shard that does not split each device's experts between as many devices."""
    devices, rest = divmod(case.shard, case.expert)
    if case.expert == 1 or devices == 0:
        return None
    if rest:
        said = f"found {case.shard} with expert {case.expert}; expected a multiple of it, or less"
        return Refusal("shard", said)
    params = workload.params_of(case)
    sizes = {key: params.get(key, 0) for key in ("hidden", "inner")}
    if any(size % devices for size in sizes.values()):
        of = " and ".join(f"{key} {size}" for key, size in sizes.items())
        said = f"expected {case.expert} times a divisor of {of}, the sizes of an expert's matrices"
        return Refusal("shard", f"found {case.shard} with expert {case.expert}; {said}")
    return None


def _uneven_parts(case: Case, workload: WorkloadInfo) -> Refusal | None:
    params = workload.params_of(case)
    divided = [("tensor", key) for key in (workload.tensor.divides if workload.tensor else ())]
    divided += [("pipeline", "layers"), ("expert", "experts")]
    for axis, key in divided:
        number = getattr(case, axis)
        stages = 2 if axis == "pipeline" and case.schedule in _TWO_STAGES else 1
        if number > 1 and params.get(key, 0) % (stages * number):
            half = f"a number whose double (stages of {case.schedule}) is " if stages > 1 else ""
            said = f"expected {half}a divisor of {key}, which are {params[key]} here"
            return Refusal(axis, f"found {number}; {said}")
    rounds = max(1, case.micro_batches // case.pipeline)
    if case.schedule == "interleaved" and case.micro_batches % rounds:
        said = f"expected rounds of equal size, for example a multiple of {case.pipeline}"
        return Refusal("micro_batches", f"found {case.micro_batches} with interleaved; {said}")
    length = params.get("sequence_length", 0)
    if case.context > 1 and length % (2 * case.context * case.tensor):
        said = f"expected a number whose double, times `tensor`, divides {length} tokens"
        return Refusal("context", f"found {case.context}; {said}")
    if case.pipeline > 1 and params.get("tied"):
        said = "its first and last stage would share the table of embeddings (`tied`)"
        return Refusal("pipeline", f"found {case.pipeline} at scale {case.scale}: {said}")
    if case.micro_batches == 1:
        return None
    if case.batch_size_per_device == MAX_BATCH:
        said = "expected a number with `micro_batches`"
        return Refusal("batch_size_per_device", f"found max; {said}")
    together = case.tensor * case.context * case.pipeline
    samples = case.batch_size_per_device * together
    if samples % case.micro_batches:
        of = f", of {together} devices together" if together > 1 else ""
        said = f"expected a divisor of the {samples} samples of a step{of}"
        return Refusal("micro_batches", f"found {case.micro_batches}; {said}")
    return None
