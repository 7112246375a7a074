"""The optimizers of spec.json in MindSpore; they compute the same updates as PyTorch's."""

import mindspore
from mindspore import nn, ops


class CorrectedAdam(nn.Cell):
    """Adam, with decoupled decay of matrices, by MindSpore's fused kernel.

    nn.AdamWeightDecay uses this kernel without bias correction. nn.Adam adds epsilon before the
    correction. optim.AdamW compiles again in every step of PyNative. So the correction is included
    in rate, epsilon and decay.
    """

    def __init__(self, parameters, params, decay):
        super().__init__()
        self.parameters = mindspore.ParameterTuple(parameters)
        self.means = self.parameters.clone("mean", init="zeros")
        self.squares = self.parameters.clone("square", init="zeros")
        self.decay, self.decayed = decay, [bool(decay) and w.ndim > 1 for w in parameters]
        self.rate, self.epsilon = params["learning_rate"], params["epsilon"]
        self.beta1, self.beta2 = params["beta1"], params["beta2"]
        self.power1 = mindspore.Parameter(mindspore.Tensor(1.0, mindspore.float32), "power1")
        self.power2 = mindspore.Parameter(mindspore.Tensor(1.0, mindspore.float32), "power2")
        self.update = ops.AdamWeightDecay()

    def construct(self, gradients):
        """Update all parameters in place."""
        power1 = ops.assign(self.power1, self.power1 * self.beta1)
        power2 = ops.assign(self.power2, self.power2 * self.beta2)
        correction = ops.sqrt(1.0 - power2)
        scale = correction / (1.0 - power1)
        rate, epsilon = self.rate * scale, self.epsilon * correction
        decay = self.decay / scale
        for index, weight in enumerate(self.parameters):
            self.update(
                weight,
                self.means[index],
                self.squares[index],
                rate,
                self.beta1,
                self.beta2,
                epsilon,
                decay if self.decayed[index] else 0.0,
                gradients[index],
            )


def sgd(parameters, params):
    """Stochastic gradient descent without momentum."""
    return momentum(parameters, dict(params, momentum=0.0))


def momentum(parameters, params):
    """Stochastic gradient descent with momentum."""
    # In a group: MindSpore leaves a norm's gamma and beta out of a decay that is given alone.
    group = {"params": parameters, "weight_decay": params.get("weight_decay", 0.0)}
    return nn.Momentum([group], params["learning_rate"], params["momentum"])


def adam(parameters, params):
    """Adam (Kingma and Ba 2014, arXiv:1412.6980)."""
    return CorrectedAdam(parameters, params, 0.0)


def adamw(parameters, params):
    """Adam, with decoupled decay of matrices (Loshchilov and Hutter 2017, arXiv:1711.05101)."""
    return CorrectedAdam(parameters, params, params["weight_decay"])


OPTIMIZERS = {"sgd": sgd, "momentum": momentum, "adam": adam, "adamw": adamw}
"""Name -> maker from the parameters of a network and of its workload."""
