"""The distance that a training step moves a weight, and the optimizer's upper bound for it."""

import math

import numpy


def step_limit(params):
    """Return the most that a step can move an element: (absolute, per unit of the tensor's norm).

    Adam's quotient of mean and deviation is at most (1 - b1) / sqrt((1 - b2) (1 - b1^2 / b2)), by
    the Cauchy-Schwarz inequality over the gradients, and 1 in the first step. Decoupled decay is
    added. Other optimizers return None: their steps grow with the gradients.
    """
    if params.get("optimizer") not in ("adam", "adamw"):
        return None
    rate, beta1, beta2 = (params[name] for name in ("learning_rate", "beta1", "beta2"))
    quotient = (1 - beta1) / math.sqrt((1 - beta2) * (1 - beta1**2 / beta2))
    return rate * max(1.0, quotient), rate * params.get("weight_decay", 0.0)


def movement(before, after, absolute, of_norm):
    """Return norm, moved, largest and limit of a tensor, as `weights_moved` describes them."""
    difference = after - before
    largest = float(numpy.abs(difference).max()) if difference.size else 0.0
    norm, moved = _norm(before), _norm(difference)
    limit = None if absolute is None else absolute + of_norm * (norm + moved)
    found = {"norm": norm, "moved": moved, "largest": largest, "limit": limit}
    # JSON has no infinity: null means a value that is not finite.
    return {
        name: value if value is None or math.isfinite(value) else None
        for name, value in found.items()
    }


def _norm(values):
    """Return the Euclidean norm; values are scaled, so that squares of small values are not 0."""
    scale = float(numpy.abs(values).max()) if values.size else 0.0
    if not scale or not math.isfinite(scale):
        return scale
    return scale * float(numpy.linalg.norm((values / scale).ravel()))
