"""Ways to change a training: what leaves it the same, and faults. For `training.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Code = Mapping[str, str]
"""API of a line ("" for all others) -> what is appended to a file."""


@dataclass(frozen=True)
class Change:
    """The difference from the plain training."""

    env: Mapping[str, str] = field(default_factory=dict)
    cpus: int | None = None
    """CPUs that the process may use."""
    params: Mapping[str, float] = field(default_factory=dict)
    """Factors of the workload's values; 0 for `dropout` and others that must exist."""
    network: Code = field(default_factory=dict)
    """Appended to the model file."""
    data: Code = field(default_factory=dict)
    """Appended to data.py."""
    trainer: Code = field(default_factory=dict)
    """Appended to the line's trainer."""
    base: Code = field(default_factory=dict)
    """Appended to base_trainer.py."""
    ranks: int = 1
    precision: str = "fp32"


def _threads(count: int) -> dict[str, str]:
    # On a busy machine threads that wait actively may need minutes for a step.
    return {"OMP_NUM_THREADS": str(count), "OMP_WAIT_POLICY": "passive"}


ISA = {
    "no AVX": ("default", "SSE41", "SSE4_2"),
    "AVX2": ("avx2", "AVX2", "AVX2"),
}
"""Values for PyTorch, oneDNN and XLA."""

CONDITIONS = {
    "again": Change(),
    "1 CPU": Change(cpus=1),
    "2 threads": Change(_threads(2)),
    "2 threads, again": Change(_threads(2)),
    "4 threads": Change(_threads(4)),
    **{
        name: Change(
            {
                "ATEN_CPU_CAPABILITY": aten,
                "ONEDNN_MAX_CPU_ISA": onednn,
                "XLA_FLAGS": f"--xla_cpu_max_isa={xla}",
                "TF_ENABLE_ONEDNN_OPTS": "1" if name == "AVX2" else "0",
            }
        )
        for name, (aten, onednn, xla) in ISA.items()
    },
}
"""Nights may differ by these although the version is the same."""

_HALVE = """
_whole_loss = loss
def loss(model, batch):
    return _whole_loss(model, {name: x[: max(1, x.shape[0] // 2)] for name, x in batch.items()})
"""
_SHIFT = """
import numpy
_batch = batch
def batch(*given):
    made = _batch(*given)
    for name in ("labels", "label", "answer", "masked_tokens", "neighbour"):
        if name in made:
            made[name] = numpy.roll(made[name], 1, axis=0)
    return made
"""

_EAGER_SKIP = """
_init = {trainer}.__init__
def _skipping(self, *given):
    _init(self, *given)
    update, steps = self.scaler.step, iter(range(10**6))
    self.scaler.step = lambda optimizer: None if next(steps) % 4 else update(optimizer)
{trainer}.__init__ = _skipping
"""
_JAX_RULE = """
def _changed(rule):
    def update(params, step, weight, gradient, *slots):
        found = rule(params, step, weight, gradient, *slots)
        return [jnp.where(step % 4 == 1, new, old) for new, old in zip(found, [weight, *slots])]
    return update
OPTIMIZERS = {name: (_changed(rule), slots) for name, (rule, slots) in OPTIMIZERS.items()}
"""
_TENSORFLOW_RULE = """
def _changed(rule):
    def update(params, step, *more):
        def made():
            rule(params, step, *more)
            return tf.constant(0)
        return tf.cond(tf.equal(step % 4, 1), made, lambda: tf.constant(0))
    return update
OPTIMIZERS = {name: (_changed(rule), slots) for name, (rule, slots) in OPTIMIZERS.items()}
"""
_SKIP = {
    "pytorch": _EAGER_SKIP.format(trainer="Trainer"),
    "paddle": _EAGER_SKIP.format(trainer="EagerTrainer"),
    "jax": _JAX_RULE,
    "tensorflow": _TENSORFLOW_RULE,
}

_SUM = {
    "pytorch": """
_init = Trainer.__init__
def _summing(self, context, *given):
    _init(self, context, *given)
    update = self.scaler.step
    def scaled(optimizer):
        for weight in self.model.parameters():
            if weight.grad is not None:
                weight.grad.mul_(context.world_size)
        update(optimizer)
    self.scaler.step = scaled
Trainer.__init__ = _summing
""",
    # Its gradients of embeddings cannot be set.
    "paddle": """
_init = EagerTrainer.__init__
def _summing(self, context, *given):
    _init(self, context, *given)
    self.scaler.scale = lambda loss: loss * context.world_size
EagerTrainer.__init__ = _summing
""",
    "jax": """
_mean = Trainer._mean
Trainer._mean = lambda self, *given: _mean(self, *given) * self.context.world_size
""",
    "tensorflow": """
_reduce = RankTrainer._all_reduce
RankTrainer._all_reduce = lambda self, operation, tensors: _reduce(self, "SUM", tensors)
""",
}

_NARROW_LOSS = """
_plain_loss = loss
def loss(model, batch):
    {narrow}
"""
_NARROW = {
    "pytorch": _NARROW_LOSS.format(
        narrow="""with torch.autocast("cpu", torch.bfloat16):
        return _plain_loss(model, batch)
import torch"""
    ),
    "jax": _NARROW_LOSS.format(
        narrow="""narrow = {n: x.astype("bfloat16") if x.dtype.kind == "f" else x
              for n, x in batch.items()}
    return _plain_loss(model, narrow)"""
    ),
    "tensorflow": _NARROW_LOSS.format(
        narrow="""narrow = {n: tf.cast(x, tf.bfloat16) if x.dtype.is_floating else x
              for n, x in batch.items()}
    return _plain_loss(model, narrow)
import tensorflow as tf"""
    ),
}
_NARROW_WEIGHTS = {
    "pytorch": "",
    "jax": """
_Sharded = Sharded
def Sharded(weights, *more):
    return _Sharded({name: w.astype(jnp.bfloat16) for name, w in weights.items()}, *more)
""",
    "tensorflow": """
_Scope = Scope
Scope = lambda dtype: _Scope(tf.bfloat16)
""",
}

_NORM_LAYERS = """
_plain_model = model
def model(params):
    made = _plain_model(params)
    for layer in made.{layers}():
        for name in ("eps", "epsilon", "_epsilon"):
            if isinstance(getattr(layer, name, None), float):
                setattr(layer, name, getattr(layer, name) * 10)
    return made
"""
_NORM = {
    "pytorch": _NORM_LAYERS.format(layers="modules"),
    "paddle": _NORM_LAYERS.format(layers="sublayers"),
    "jax": """
import types
if "EPSILON" in globals():
    EPSILON *= 10
else:
    _rsqrt = lax.rsqrt
    lax = types.SimpleNamespace(**{**vars(lax), "rsqrt": lambda x: _rsqrt(x + 9e-5)})
""",
    "tensorflow": """
if "EPSILON" in globals():
    EPSILON *= 10
else:
    _plain_norm = tf.compat.v1.nn.fused_batch_norm
    tf.compat.v1.nn.fused_batch_norm = lambda *given, epsilon: _plain_norm(*given, epsilon=1e-4)
""",
}

_STUCK = {
    "pytorch": """
_init = Trainer.__init__
def _stuck(self, *given):
    _init(self, *given)
    self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, growth_interval=10**6)
Trainer.__init__ = _stuck
""",
    "jax": "FIRST_SCALE = 2.0**100\n",
    "tensorflow": "FIRST_SCALE = 2.0**100\n",
}

FAULTS = {
    "half a batch": Change(network={"": _HALVE}),
    "3 of 4 updates skipped": Change(trainer=_SKIP),
    "learning rate +10 %": Change(params={"learning_rate": 1.1}),
    "no momentum": Change(params={"momentum": 0.0}),
    "no weight decay": Change(params={"weight_decay": 0.0}),
    "shifted labels": Change(data={"": _SHIFT}),
    "bf16 in an fp32 case": Change(network=_NARROW, trainer=_NARROW_WEIGHTS),
    "no dropout": Change(params={"dropout": 0.0}),
    "epsilon of norms x 10": Change(network=_NORM),
    "epsilon of Adam x 100": Change(params={"epsilon": 100.0}),
    "gradients summed": Change(trainer=_SUM, ranks=2),
    "rank 1 has rank 0's data": Change(
        base={
            "": "Base._new_random = lambda self: numpy.random.RandomState([self.context.seed, 1])\n"
        },
        ranks=2,
    ),
    "loss scale is stuck": Change(trainer=_STUCK, precision="fp16"),
}

_OTHER_SEED = """
import numpy
_weights = weights
def weights(params, random):
    return _weights(params, numpy.random.RandomState(7))
"""
_EQUAL_LAYERS = """
import numpy
_weights = weights
def weights(params, random):
    made, seen = dict(_weights(params, random)), {}
    for name, value in made.items():
        if numpy.ndim(value) > 1:
            made[name] = seen.setdefault(numpy.shape(value), value)
    return made
"""
_BRIGHT = """
_batch = batch
def batch(*given):
    made = _batch(*given)
    for name in made:
        if name == "images":
            made[name] += made[name].dtype.type(0.01)
    return made
"""
_REPEATED = "Base._placed = lambda self, place: itertools.repeat(place(self.example()))\n"
_ORDER = """
_placed = Base._placed
def _second_first(self, place):
    made = _placed(self, place)
    next(made)
    return made
Base._placed = _second_first
"""
_SUMMED_LOSS = """
_mean_loss = loss
def loss(model, batch):
    return 4 * _mean_loss(model, batch)
"""

_LAYERS = """
_plain_model = model
def model(params):
    made = _plain_model(params)
    {change}
    return made
"""
_FROZEN = {
    "pytorch": _LAYERS.format(
        change="next(x for x in made.parameters() if x.dim() > 1).requires_grad_(False)"
    )
}
_EVALUATES = dict.fromkeys(("pytorch", "paddle"), _LAYERS.format(change="made.eval()"))
_COARSE_LAYER = {
    "pytorch": _LAYERS.format(
        change="""layer = [x for x in made.modules() if hasattr(x, "weight")][-2]
    layer.register_forward_hook(lambda layer, given, out: out.bfloat16().float())"""
    ),
    "paddle": _LAYERS.format(
        change="""layer = [x for x in made.sublayers() if hasattr(x, "weight")][-2]
    layer.register_forward_post_hook(
        lambda layer, given, out: out.astype("bfloat16").astype("float32"))"""
    ),
}

_FUNCTIONS = """
import types
_plain = functional
functional = types.SimpleNamespace(**{{**vars(functional), {changed}}})
"""
_EXACT_GELU = {
    "pytorch": _FUNCTIONS.format(changed='"gelu": lambda x, approximate: _plain.gelu(x)')
}
_NO_MASK = {
    "pytorch": _FUNCTIONS.format(
        changed='"scaled_dot_product_attention": lambda query, key, value, is_causal: '
        "_plain.scaled_dot_product_attention(query, key, value)"
    )
}

_EAGER_UPDATE = """
_init = {trainer}.__init__
def _changing(self, *given):
    _init(self, *given)
    update, steps = self.scaler.step, iter(range(10**6))
    def changed(optimizer):
        {change}
        update(optimizer)
    self.scaler.step = changed
{trainer}.__init__ = _changing
"""
_CLIPPED = {
    "pytorch": _EAGER_UPDATE.format(
        trainer="Trainer",
        change="""for weight in self.model.parameters():
            if weight.grad is not None and not weight.grad.is_sparse:
                torch.nn.utils.clip_grad_norm_([weight], 0.05)""",
    ),
    "jax": """
def _clipped(rule):
    def update(params, step, weight, gradient, *slots):
        norm = jnp.linalg.norm(gradient)
        return rule(params, step, weight, gradient * jnp.minimum(1, 0.05 / norm), *slots)
    return update
OPTIMIZERS = {name: (_clipped(rule), slots) for name, (rule, slots) in OPTIMIZERS.items()}
""",
    "tensorflow": """
def _clipped(rule):
    def update(params, step, weight, gradient, *slots):
        return rule(params, step, weight, tf.clip_by_norm(gradient, 0.05), *slots)
    return update
OPTIMIZERS = {name: (_clipped(rule), slots) for name, (rule, slots) in OPTIMIZERS.items()}
""",
}
_KEPT_GRADIENTS = {
    "pytorch": _EAGER_UPDATE.format(
        trainer="Trainer",
        change="""optimizer.zero_grad = (
            (lambda *given, **named: None) if next(steps) % 2
            else lambda *given, **named: type(optimizer).zero_grad(optimizer, *given, **named))""",
    ),
    "paddle": _EAGER_UPDATE.format(
        trainer="EagerTrainer",
        change="""optimizer.clear_grad = (
            (lambda: None) if next(steps) % 2
            else lambda: type(optimizer).clear_grad(optimizer))""",
    ),
}
_SECOND_REDUCE = {
    "pytorch": """
_step = Trainer.step
def _sometimes(self):
    with self.forward.no_sync() if len(self.kept) % 2 else contextlib.nullcontext():
        _step(self)
Trainer.step = _sometimes
"""
}

UNLISTED = {
    "other initial weights": Change(data={"": _OTHER_SEED}),
    "layers of one shape start equal": Change(data={"": _EQUAL_LAYERS}),
    "images + 0.01": Change(data={"": _BRIGHT}),
    "one batch in every step": Change(base={"": _REPEATED}),
    "batches in another order": Change(base={"": _ORDER}),
    "loss is a sum": Change(network={"": _SUMMED_LOSS}),
    "first matrix is frozen": Change(network=_FROZEN),
    "evaluation mode": Change(network=_EVALUATES),
    "one layer's result in bf16": Change(network=_COARSE_LAYER),
    "exact GELU": Change(network=_EXACT_GELU),
    "no causal mask": Change(network=_NO_MASK),
    "gradients clipped": Change(trainer=_CLIPPED),
    "every second gradient is kept": Change(trainer=_KEPT_GRADIENTS),
    "learning rate +1 %": Change(params={"learning_rate": 1.01}),
    "beta2 of Adam +1 %": Change(params={"beta2": 1.01}),
    "all-reduce in every second step": Change(trainer=_SECOND_REDUCE, ranks=2),
}
"""Faults that nobody listed before the tolerances were set."""
