"""Faults that nobody listed before the tolerances were set. For `training.py`."""

from __future__ import annotations

from tests.performance.training_changes import Change

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
    made["images"] += made["images"].dtype.type(0.01)
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
_FUNCTIONAL_LAYERS = """
_plain_model = model
def model(params):
    plain, first = _plain_model(params), []
    def changed(scope, *given):
        parameter = scope.parameter
        def stopped(name, *shape):
            if len(shape) > 1:
                first.append(name)
            found = parameter(name, *shape)
            return {stop}(found) if name in first[:1] else found
        scope.parameter = stopped
        made = plain(scope, *given)
        scope.parameter = parameter
        return made
    return changed
"""
_FROZEN = {
    "pytorch": _LAYERS.format(
        change="next(x for x in made.parameters() if x.dim() > 1).requires_grad_(False)"
    ),
    "paddle": _LAYERS.format(
        change="next(x for x in made.parameters() if len(x.shape) > 1).stop_gradient = True"
    ),
    "jax": _FUNCTIONAL_LAYERS.format(stop="lax.stop_gradient"),
    "tensorflow": _FUNCTIONAL_LAYERS.format(stop="tf.stop_gradient"),
}

_NO_BATCH_NORM = """
_plain_norm = batch_norm
def batch_norm(scope, name, x):
    _plain_norm(scope, name, x)
    scale, bias = (scope.parameter(name + part, x.shape[-1]) for part in (".weight", ".bias"))
    return x * (1 + 1e-5) ** -0.5 * scale + bias
"""
_RUNNING_MEANS = _LAYERS.format(
    change="""norms = [x for x in made.{layers}() if type(x).__name__.startswith("BatchNorm")]
    assert norms
    made.eval()"""
)
_EVALUATES = {
    "pytorch": _RUNNING_MEANS.format(layers="modules"),
    "paddle": _RUNNING_MEANS.format(layers="sublayers"),
    "jax": _NO_BATCH_NORM,
    "tensorflow": _NO_BATCH_NORM,
}
"""Running means are 0 and variances 1: no training step has changed them."""

_COARSE_FUNCTION = """
def _coarse(plain):
    def changed(scope, name, *given):
        made = plain(scope, name, *given)
        return {narrow} if name in ("layers.1.narrow", "blocks.15.conv3") else made
    return changed
if "convolution" in globals():
    convolution = _coarse(convolution)
elif "linear" in globals():
    linear = _coarse(linear)
else:
    _plain_cosine = cosine
    def cosine(made, other):
        return _plain_cosine({narrow}, other)
"""
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
    # XLA removes a pair of casts.
    "jax": _COARSE_FUNCTION.format(narrow="lax.reduce_precision(made, 8, 7)"),
    "tensorflow": _COARSE_FUNCTION.format(narrow="tf.cast(tf.cast(made, tf.bfloat16), tf.float32)"),
}

_FUNCTIONS = """
import types
_plain = {module}
{module} = types.SimpleNamespace(**{{**vars(_plain), {changed}}})
"""
_GELU = '"gelu": lambda x, approximate: _plain.gelu(x)'
_EXACT_GELU = {
    "pytorch": _FUNCTIONS.format(module="functional", changed=_GELU),
    "paddle": _FUNCTIONS.format(module="_network.functional", changed=_GELU),
    "jax": """
_plain_gelu = jax.nn.gelu
jax.nn.gelu = lambda x, approximate: _plain_gelu(x, approximate=False)
""",
}
_ATTENTION = (
    '"scaled_dot_product_attention": lambda query, key, value, is_causal: '
    "_plain.scaled_dot_product_attention(query, key, value)"
)
_NO_MASK = {
    "pytorch": _FUNCTIONS.format(module="functional", changed=_ATTENTION),
    "paddle": _FUNCTIONS.format(module="_network.functional", changed=_ATTENTION),
    "jax": """
def attention(query, key, value):
    return jax.nn.dot_product_attention(query, key, value).reshape(*query.shape[:2], -1)
""",
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
    "paddle": """
_init = EagerTrainer.__init__
def _clipping(self, *given):
    _init(self, *given)
    self.optimizer._grad_clip = paddle.nn.ClipGradByNorm(0.05)
EagerTrainer.__init__ = _clipping
""",
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
    "jax": """
def _keeping(rule):
    def update(params, step, weight, gradient, kept, *slots):
        gradient = gradient + kept
        made = rule(params, step, weight, gradient, *slots)
        return [made[0], jnp.where(step % 2, 0, gradient), *made[1:]]
    return update
OPTIMIZERS = {name: (_keeping(rule), slots + 1) for name, (rule, slots) in OPTIMIZERS.items()}
""",
    "tensorflow": """
def _keeping(rule):
    def update(params, step, weight, gradient, kept, *slots):
        gradient = tf.convert_to_tensor(gradient) + kept
        kept.assign(gradient * tf.cast(1 - step % 2, gradient.dtype))
        return rule(params, step, weight, gradient, *slots)
    return update
OPTIMIZERS = {name: (_keeping(rule), slots + 1) for name, (rule, slots) in OPTIMIZERS.items()}
""",
}
_EAGER_REDUCE = """
import contextlib
_step = {trainer}.step
def _sometimes(self):
    with self.forward.no_sync() if len(self.kept) % 2 else contextlib.nullcontext():
        _step(self)
{trainer}.step = _sometimes
"""
_SECOND_REDUCE = {
    "pytorch": _EAGER_REDUCE.format(trainer="Trainer"),
    "paddle": _EAGER_REDUCE.format(trainer="EagerTrainer"),
    "jax": """
_plain_train, _plain_mean = Trainer._train, Trainer._mean
def _numbered(self, state, batch):
    self.traced_step = state["step"]
    return _plain_train(self, state, batch)
def _sometimes(self, name, gradient):
    return jnp.where(self.traced_step % 2, _plain_mean(self, name, gradient), gradient)
Trainer._train, Trainer._mean = _numbered, _sometimes
""",
    "tensorflow": """
_reduce = RankTrainer._all_reduce
def _sometimes(self, operation, tensors):
    reduced = _reduce(self, operation, tensors)
    if operation == "SUM":  # Of initial weights.
        return reduced
    return [tf.where(self.steps % 2 == 0, *pair) for pair in zip(reduced, tensors)]
RankTrainer._all_reduce = _sometimes
""",
}

_SCALED_ATTENTION = (
    '"scaled_dot_product_attention": lambda query, *more, **named: '
    "_plain.scaled_dot_product_attention(query * 1.01, *more, **named)"
)
_HALF_GRADIENT = """
import torch
_whole_loss = loss
def loss(model, batch):
    half = _whole_loss(model, {name: x[: x.shape[0] // 2] for name, x in batch.items()})
    with torch.no_grad():
        whole = _whole_loss(model, batch)
    return whole + half - half.detach()
"""
_LATE_GRADIENTS = """kept = self.__dict__.setdefault("late", {})
        for weight in self.model.parameters():
            if weight.grad is not None:
                new = weight.grad.clone()
                weight.grad, kept[weight] = kept.get(weight, new * 0), new"""
_OTHER_MOMENTUM = _LAYERS.format(
    change="""norms = [x for x in made.modules() if type(x).__name__.startswith("BatchNorm")]
    for norm in norms:
        norm.momentum = 0.5
    assert norms"""
)
_HALVED_RATE = """if next(steps) == 120:
            for group in optimizer.param_groups:
                group["lr"] /= 2"""
_OF_PYTORCH = {
    "attention scale + 1 %": Change(
        network={"pytorch": _FUNCTIONS.format(module="functional", changed=_SCALED_ATTENTION)}
    ),
    "gradient of half a batch, loss of the whole": Change(network={"pytorch": _HALF_GRADIENT}),
    "gradients a step late": Change(
        trainer={"pytorch": _EAGER_UPDATE.format(trainer="Trainer", change=_LATE_GRADIENTS)}
    ),
    "momentum of batch norms 0.5": Change(network={"pytorch": _OTHER_MOMENTUM}),
    "learning rate halves from step 120": Change(
        trainer={"pytorch": _EAGER_UPDATE.format(trainer="Trainer", change=_HALVED_RATE)}
    ),
}
"""Written on 2026-11-30, for PyTorch alone."""

UNLISTED = {
    **_OF_PYTORCH,
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
