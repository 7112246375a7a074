"""Ways to break the training of a real framework line, in a copy of benchmarks/.

A breakage replaces text of the line's own trainer, as an author's slip would: product code knows
nothing of it.
"""

from __future__ import annotations

from pathlib import Path

from tests.shipped import shipped

Breakage = tuple[str, str]
"""Text of a trainer, and what takes its place."""

EAGER_PADDLE = "apis/paddle/trainer.py"
FILES = {"paddle2": EAGER_PADDLE, "paddle3": EAGER_PADDLE}
SERVED = {"tensorflow2": "frameworks/tensorflow2/servers.py"}
"""Line -> file below benchmarks/, where it is not its trainer.py; with parameter servers."""

_STEP = "            self.optimizer.step()\n"
_SCALED_STEP = "        self.scaler.step(self.optimizer)\n"
"""Of PyTorch and PaddlePaddle; float32 is not scaled."""
_PADDLE_FROZEN = (
    _SCALED_STEP,
    "        next(iter(trainable(self.model).values())).clear_gradient(False)\n" + _SCALED_STEP,
)
_JAX_STEP = (
    '            new["slots"][name] = '
    "[each.astype(slot.dtype) for each, slot in zip(wide, slots)]\n"
)
"""What follows the update of a weight."""
_TENSORFLOW2_STEP = (
    "            self.optimizer(self.context.params, step, weight, gradient, *slots)\n"
)
_TENSORFLOW1_STEP = (
    "                    updates.append(optimizer(params, step, weight, gradient, *held))\n"
)

NO_UPDATE: dict[str, Breakage] = {
    "pytorch": (_SCALED_STEP, ""),
    "paddle1": ("        optimizer.minimize(self.loss)\n",
                "        fluid.backward.append_backward(self.loss)\n"),
    "paddle2": (_SCALED_STEP, ""),
    "paddle3": (_SCALED_STEP, ""),
    "jax": (
        _JAX_STEP,
        '            new["weights"][name], new["slots"][name] = weight, list(slots)\n',
    ),
    "mxnet": ("        self.trainer.step(1)  # losses are means already\n", ""),
    "tensorflow1": (_TENSORFLOW1_STEP, "                    updates.append(tf.no_op())\n"),
    "tensorflow2": (_TENSORFLOW2_STEP, "            pass\n"),
    "oneflow": (_STEP, ""),
    "mindspore": ("self.optimizer(self.reduce(gradients))", "self.reduce(gradients)"),
    "megengine": ("self.optimizer.step().clear_grad()", "self.optimizer.clear_grad()"),
}  # fmt: skip
"""Line -> forward and backward alone."""

FROZEN: dict[str, Breakage] = {
    "pytorch": (
        _SCALED_STEP,
        "        next(self.model.parameters()).grad = None\n" + _SCALED_STEP,
    ),
    "paddle1": (
        "optimizer.minimize(self.loss)",
        "optimizer.minimize(self.loss, parameter_list=[w.name for w in trainable[1:]])",
    ),
    "paddle2": _PADDLE_FROZEN,
    "paddle3": _PADDLE_FROZEN,
    "jax": (
        _JAX_STEP,
        _JAX_STEP
        + "            if name == min(state['weights']):\n"
        + '                new["weights"][name] = weight\n',
    ),
    "mxnet": (
        "        weights = self.model.collect_params()\n",
        "        next(self._parameters())[1].lr_mult = 0.0\n"
        "        weights = self.model.collect_params()\n",
    ),
    "tensorflow1": (
        _TENSORFLOW1_STEP,
        "                    if weight is not weights[0]:\n    " + _TENSORFLOW1_STEP,
    ),
    "tensorflow2": (
        _TENSORFLOW2_STEP,
        "            if weight is not next(iter(self.scope.weights.values())):\n    "
        + _TENSORFLOW2_STEP,
    ),
    "oneflow": (
        _STEP,
        "            next(self.model.parameters()).grad = None\n" + _STEP,
    ),
    "mindspore": (
        "parameters = self.model.trainable_params()",
        "parameters = self.model.trainable_params()[1:]",
    ),
    "megengine": (
        "GradManager().attach(self.model.parameters(),",
        "GradManager().attach(list(self.model.parameters())[1:],",
    ),
}
"""Line -> one layer that the optimizer leaves alone."""

_HALF = "{name: each[: len(each) // 2] for name, each in next(self.batches).items()}"
_GIVEN = "        batch = next(self.batches)\n        self."

HALF_A_BATCH: dict[str, Breakage] = {
    "pytorch": (_GIVEN + "optimizer", _GIVEN.replace("next(self.batches)", _HALF) + "optimizer"),
    "jax": (_GIVEN + "state, ", _GIVEN.replace("next(self.batches)", _HALF) + "state, "),
    "paddle3": ("self.backward(next(self.batches))", f"self.backward({_HALF})"),
    "tensorflow2": ("self.train(next(self.batches))", f"self.train({_HALF})"),
}
"""Line -> forward and backward of half of each batch."""

HALF_A_BATCH_WITH_SERVERS: dict[str, Breakage] = {
    **dict.fromkeys(("paddle1", "paddle2"), ("feed = next(self.batches)", f"feed = {_HALF}")),
    "tensorflow2": (
        "self.loss_of(next(batches))",
        "self.loss_of({name: x[: len(x) // 2] for name, x in next(batches).items()})",
    ),
}
"""The same in trainers of asynchronous servers."""

NOT_EXCHANGED: dict[str, Breakage] = {
    "pytorch": ("tuning.replicated(self.model, self.tuning, warmup_steps)", "self.model"),
    "paddle2": ("paddle.DataParallel(self.forward, **sizes)", "self.forward"),
    "paddle3": ("paddle.DataParallel(self.forward, **sizes)", "self.forward"),
    "jax": (
        "{name: self._mean(name, each) for name, each in gradients.items()}",
        "gradients",
    ),
    "tensorflow1": ('self._all_reduce(dense, "Div")', "dense"),
    "tensorflow2": ('            gradients = self._all_reduce("MEAN", dense)\n',
                    "            gradients = dense\n"),
    "oneflow": ("nn.parallel.DistributedDataParallel(self.model)", "pass"),
    "mindspore": ("self.optimizer(self.reduce(gradients))", "self.optimizer(gradients)"),
}  # fmt: skip
"""Line -> ranks that keep their gradients to themselves."""

_PADDLE_SENDS = """
            block = self.program.global_block()
            for place in reversed(range(len(block.ops))) if self.context.rank else ():
                if block.ops[place].type in ("send", "distributed_push_sparse"):
                    block._remove_op(place)
"""

NOT_SENT: dict[str, Breakage] = {
    "paddle1": (
        "            self.program = fleet.main_program\n",
        "            self.program = fleet.main_program\n" + _PADDLE_SENDS,
    ),
    "paddle2": (
        "        self.program = paddle.static.default_main_program()\n",
        "        self.program = paddle.static.default_main_program()\n"
        "        if self.distributed:" + _PADDLE_SENDS,
    ),
    "tensorflow1": (
        "        return self._update(weights, gradients)\n",
        "        gradients = [0 * g if self.context.rank else g for g in self._dense(gradients)]\n"
        "        return self._update(weights, gradients)\n\n"
        "    def _dense(self, gradients):\n"
        "        return [tf.convert_to_tensor(gradient) for gradient in gradients]\n",
    ),
    "mxnet": (
        "        self.trainer.step(1)  # losses are means already\n",
        "        for weight in self.model.collect_params().values() if self.context.rank else ():\n"
        "            weight.zero_grad()\n"
        "        self.trainer.step(1)  # losses are means already\n",
    ),
}
"""Line -> asynchronous servers that get nothing of trainer 1, which goes on pulling from them."""


def broken(folder: Path, line: str, breakage: Breakage) -> Path:
    """A copy of benchmarks/ in which the line is broken."""
    code = shipped(folder)
    own = f"frameworks/{line}/trainer.py"
    served = breakage in (*NOT_SENT.values(), *HALF_A_BATCH_WITH_SERVERS.values())
    file = (SERVED if served else FILES).get(line, own)
    trainer = code / file
    text = trainer.read_text(encoding="utf-8")
    old, new = breakage
    assert text.count(old) == 1
    trainer.write_text(text.replace(old, new), encoding="utf-8")
    return code
