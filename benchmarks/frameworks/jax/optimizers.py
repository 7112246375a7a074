"""Updates of one weight, by name: pure functions, compiled into the step."""

from jax import numpy as jnp


def sgd(params, step, weight, gradient):
    """Stochastic gradient descent without momentum."""
    return [weight - params["learning_rate"] * _decayed(params, weight, gradient)]


def momentum(params, step, weight, gradient, velocity):
    """Stochastic gradient descent with momentum."""
    velocity = params["momentum"] * velocity + _decayed(params, weight, gradient)
    return [weight - params["learning_rate"] * velocity, velocity]


def adam(params, step, weight, gradient, mean, square):
    """Adam (Kingma and Ba 2014, arXiv:1412.6980)."""
    beta1, beta2 = params["beta1"], params["beta2"]
    mean = beta1 * mean + (1 - beta1) * gradient
    square = beta2 * square + (1 - beta2) * gradient**2
    deviation = jnp.sqrt(square / (1 - beta2**step)) + params["epsilon"]
    update = params["learning_rate"] / (1 - beta1**step) * mean / deviation
    return [weight - update, mean, square]


def adamw(params, step, weight, gradient, mean, square):
    """Adam, with decoupled decay of matrices (Loshchilov and Hutter 2017, arXiv:1711.05101)."""
    decay = params["learning_rate"] * params["weight_decay"] if weight.ndim > 1 else 0.0
    return adam(params, step, weight * (1 - decay), gradient, mean, square)


def _decayed(params, weight, gradient):
    return gradient + params.get("weight_decay", 0.0) * weight


OPTIMIZERS = {"sgd": (sgd, 0), "momentum": (momentum, 1), "adam": (adam, 2), "adamw": (adamw, 2)}
"""Name -> update of one weight, with steps counted from 1; number of slots, initially zeros."""
