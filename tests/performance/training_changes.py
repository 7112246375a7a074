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

# Of the data: while a static graph is built, the number of samples is unknown.
_HALVE = """
_whole_batch = batch
def batch(*given):
    return {name: x[: max(1, len(x) // 2)] for name, x in _whole_batch(*given).items()}
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

# Values of the loss stay as they are.
_SHARE = """
_whole_loss = loss
def loss(model, batch):
    found = _whole_loss(model, batch)
    {kept}
    return kept + {share} * (found - kept)
"""
_KEPT = {
    "": ("kept = found.detach()", 'batch["share"].mean()'),
    "fluid": (
        "kept = layers.assign(found)\n    kept.stop_gradient = True",
        'layers.mean(batch["share"])',
    ),
    "tensorflow": ("kept = tf.stop_gradient(found)", 'tf.reduce_mean(batch["share"])'),
    "jax": ("import jax\n    kept = jax.lax.stop_gradient(found)", 'batch["share"].mean()'),
}
_SHARES = """
import itertools
import numpy
_whole_batch, _shares = batch, itertools.cycle([1, 0, 0, 0])
def batch(params, batch_size, random):
    made = _whole_batch(params, batch_size, random)
    made["share"] = numpy.full(batch_size, next(_shares), "float32")
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
    "half a batch": Change(data={"": _HALVE}),
    "3 of 4 updates skipped": Change(trainer=_SKIP),
    # With SGD, such gradients skip updates and sum gradients over ranks: with servers, too.
    "3 of 4 gradients are 0": Change(
        network={
            api: _SHARE.format(kept=kept, share=share) for api, (kept, share) in _KEPT.items()
        },
        data={"": _SHARES},
    ),
    "gradients twice as large": Change(
        network={api: _SHARE.format(kept=kept, share=2.0) for api, (kept, _) in _KEPT.items()}
    ),
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
