"""The optimizers of spec.json by TensorFlow's fused kernels; they compute PyTorch's updates."""

import tensorflow as tf


def sgd(params, step, weight, gradient):
    """Stochastic gradient descent without momentum."""
    rate = params["learning_rate"]
    if isinstance(gradient, tf.IndexedSlices):
        return weight.scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
    gradient = _decayed(params, weight, gradient)
    return tf.raw_ops.ResourceApplyGradientDescent(var=weight.handle, alpha=rate, delta=gradient)


def momentum(params, step, weight, gradient, velocity):
    """Stochastic gradient descent with momentum."""
    return tf.raw_ops.ResourceApplyMomentum(
        var=weight.handle,
        accum=velocity.handle,
        lr=params["learning_rate"],
        grad=_decayed(params, weight, gradient),
        momentum=params["momentum"],
    )


def adam(params, step, weight, gradient, mean, square):
    """Adam (Kingma and Ba 2014, arXiv:1412.6980)."""
    powers = [params[beta] ** tf.cast(step, tf.float32) for beta in ("beta1", "beta2")]
    return tf.raw_ops.ResourceApplyAdam(
        var=weight.handle,
        m=mean.handle,
        v=square.handle,
        beta1_power=powers[0],
        beta2_power=powers[1],
        lr=params["learning_rate"],
        beta1=params["beta1"],
        beta2=params["beta2"],
        # TensorFlow adds epsilon before the correction of the bias, the paper after it.
        epsilon=params["epsilon"] * tf.sqrt(1.0 - powers[1]),
        grad=gradient,
    )


def adamw(params, step, weight, gradient, mean, square):
    """Adam, with decoupled decay of matrices (Loshchilov and Hutter 2017, arXiv:1711.05101)."""
    if len(weight.shape) == 1:
        return adam(params, step, weight, gradient, mean, square)
    decay = params["learning_rate"] * params["weight_decay"]
    with tf.control_dependencies([weight.assign_sub(decay * weight)]):
        return adam(params, step, weight, gradient, mean, square)


def _decayed(params, weight, gradient):
    decay = params.get("weight_decay", 0.0)
    return tf.convert_to_tensor(gradient) + decay * weight if decay else gradient


OPTIMIZERS = {"sgd": (sgd, 0), "momentum": (momentum, 1), "adam": (adam, 2), "adamw": (adamw, 2)}
"""Name -> update of one weight, with steps counted from 1, and the number of its slots."""
