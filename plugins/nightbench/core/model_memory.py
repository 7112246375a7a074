"""Minimum memory of a device for a training: weights, states, values that layers keep. Pure."""

from nightbench.core.model import Case, Cluster, FrameworkInfo, Strategy, WorkloadInfo
from nightbench.core.model_flops import evaluate

FLOAT32 = 4
"""Bytes: all lines keep weights and gradients in float32, whatever products are computed in."""

_MOMENTS = {"momentum": 1, "adam": 2, "adamw": 2}
"""Optimizer -> states of a parameter; none of others."""


def device_bytes(
    case: Case,
    workload: WorkloadInfo,
    *,
    shares_ends: bool = False,
    whole_weights: bool = False,
    keeps_casts: bool = False,
) -> dict[str, float] | None:
    """Return the bytes on one device by what they are; None if parameters are not counted.

    `shares_ends`, `whole_weights` and `keeps_casts` are the line's (`FrameworkInfo`). Buffers of
    exchanges, layers gathered one by one and gradients of activations come on top.
    """
    params = workload.params_of(case)
    parameters = params.get("parameters", workload.parameters)
    if parameters is None:
        return None
    own = 0.0  # Experts: a `shard` splits them only between devices with the same experts.
    if workload.expert and case.expert > 1:
        parameters -= (experts := evaluate(workload.expert.parameters, params))
        own = FLOAT32 * experts / case.expert
        own /= case.tensor * case.pipeline
    if workload.pipeline and case.pipeline > 1 and not shares_ends:
        # The first and the last stage have an end besides their layers; a device may have both.
        end = evaluate(workload.pipeline.parameters, params)
        ends = 2 if case.schedule == "zero_bubble" else 1
        parameters += end * (ends * case.pipeline - 2)
    # Every device has all norms, so this is a lower bound.
    whole = FLOAT32 * parameters / (case.tensor * case.pipeline)
    parts = ((whole, case.shard), (own, max(1, case.shard // case.expert)))

    def least(is_split: bool) -> float:
        return sum(size / (devices if is_split else 1) for size, devices in parts)

    stage = case.shard_stage or 0
    moments = _MOMENTS.get(params.get("optimizer", ""), 0)
    if case.strategy is Strategy.PARAMETER_SERVER:
        moments = 0
    width = moments / 2 if case.state_precision == "bf16" else moments
    held = {
        "weights": least(stage == 3),
        "gradients": least(stage >= 2),
        "optimizer states": width * least(stage >= 1),
    }
    if stage == 2 and not whole_weights:
        # Weights split between steps, plus the weights gathered for a step.
        half = 2 if case.precision in ("bf16", "fp16") else 1
        held["weights"] = least(True) + sum(size / half for size, devices in parts if devices > 1)
    kept = kept_bytes(case, workload, shares_ends=shares_ends, keeps_casts=keeps_casts)
    return {**held, "activations": kept}


def kept_bytes(
    case: Case, workload: WorkloadInfo, *, shares_ends: bool = False, keeps_casts: bool = False
) -> float:
    """Return the bytes that layers keep for the backward pass; 0 if the workload states none.

    Devices that split matrices, sequences or layers compute the batches of all of them together,
    so that each keeps its share of these (Korthikanti et al. 2022, arXiv:2205.05198, counts alike),
    but for inputs of split matrices, which it has of all of them.
    """
    if workload.cost is None or workload.cost.kept is None:
        return 0.0
    params = workload.params_of(case)
    values = dict.fromkeys(("gathered", "cast", "matrices"), 0.0)
    values |= {
        name: evaluate(formula, params) for name, formula in workload.cost.kept.formulas().items()
    }
    # A compiler computes fused values again.
    what = {"full": "input", "selective": "products"}.get(
        case.recompute, "layer" if case.compiler == "none" else "products"
    )
    size = FLOAT32 / 2 if case.precision in ("bf16", "fp16") else FLOAT32
    samples = 1 if case.batch_size_per_device == "max" else case.batch_size_per_device
    tokens = float(samples * params["sequence_length"])
    of_token, matrices = values[what], 0.0
    if what == "layer":
        of_token += (case.tensor - 1) * values["gathered"]
        # Split weights are cast when they are gathered, not by autocast.
        is_whole = case.shard_stage in (None, 1) and case.tensor * case.context * case.pipeline == 1
        if keeps_casts and size < FLOAT32 and is_whole:
            of_token += values["cast"]
            matrices = float(params["layers"]) * values["matrices"] * size
    layers = tokens * float(params["layers"]) * of_token * size
    logits = tokens * case.pipeline * values["logits"] * FLOAT32
    parts = case.micro_batches
    if case.pipeline > 1 and shares_ends:  # A waiting stage also keeps its values.
        return layers * (parts + case.pipeline - 1) / parts + logits / case.pipeline
    if case.schedule == "gpipe":
        return layers + logits
    # Number of parts in progress on the device with the most parts, and on the one with logits,
    # in halves: some schedules give a device two stages.
    most, last = 2 * case.pipeline, 2
    if case.schedule == "interleaved":
        in_turn = parts // max(1, parts // case.pipeline)
        most, last = in_turn + 2 * case.pipeline - 1, in_turn + 1
    elif case.schedule == "zero_bubble":  # The first device also has the last stage.
        last = min(2 * case.pipeline - 1, parts) + 1
    under_way = layers / (2 * parts)
    at_most, at_last = (under_way * min(halves, 2 * parts) for halves in (most, last))
    return matrices + max(at_most, at_last + logits / parts)


def does_not_fit(
    case: Case, workload: WorkloadInfo, cluster: Cluster, framework: FrameworkInfo
) -> str | None:
    """Say what a case needs on a device and its cluster has not; None if it may fit."""
    held = device_bytes(
        case,
        workload,
        shares_ends=framework.shares_ends,
        whole_weights=framework.whole_weights,
        keeps_casts=framework.keeps_casts,
    )
    limits = [cluster.device_memory_bytes]
    if cluster.device_kind == "cpu" and case.memory_mb is not None:
        limits.append(case.memory_mb * 10**6)
    limit = min((each for each in limits if each is not None), default=None)
    if held is None or limit is None:
        return None
    needed, replaced = sum(held.values()), ""
    if case.compiler != "none" and case.micro_batches == case.pipeline == 1:
        # A compiled step frees a layer's activations when its gradients appear. With several parts,
        # the gradients of the first part exist when the second part is computed.
        needed -= min(held["gradients"], held["activations"])
        replaced = "; gradients appear as activations go"
    if needed <= limit:
        return None
    parts = ", ".join(f"{what} {_gb(size)}" for what, size in held.items() if size)
    return (
        f"{case.case_id} needs at least {_gb(needed)} on each device ({parts}{replaced}); "
        f"cluster {cluster.name} has {_gb(limit)}: expected more `shard`, `tensor` or "
        "`pipeline`, `recompute`, `state_precision: bf16`, a smaller batch or scale"
    )


def _gb(size: float) -> str:
    return f"{size / 1e9:,.3g} GB" if size < 1e11 else f"{size / 1e9:,.0f} GB"
