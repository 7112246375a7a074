"""The optimizers of spec.json in MXNet; they compute the same updates as PyTorch's."""

import mxnet


@mxnet.optimizer.register
class CorrectedAdam(mxnet.optimizer.Adam):
    """Adam, or AdamW if `wd` is given, by MXNet's fused kernel.

    MXNet's own Adam adds epsilon before the bias correction, and adds decay to the gradient.
    """

    def update(self, index, weight, grad, state):
        """Update a weight in place."""
        self._update_count(index)
        count, (mean, square) = self._index_update_count[index], state
        rate, correction = self._get_lr(index), (1.0 - self.beta2**count) ** 0.5
        decay = self._get_wd(index)
        if decay:
            weight *= 1.0 - rate * decay
        mxnet.nd.adam_update(
            weight,
            grad,
            mean,
            square,
            out=weight,
            lr=rate * correction / (1.0 - self.beta1**count),
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon * correction,
            rescale_grad=self.rescale_grad,
        )

    def __getstate__(self):
        """Return the state with decay factors: servers see weights as vectors without shape."""
        state = super().__getstate__()
        state["wd_mult"] = {index: weight.wd_mult for index, weight in self.param_dict.items()}
        return state


def sgd(params):
    """Stochastic gradient descent without momentum."""
    return "sgd", {"learning_rate": params["learning_rate"], "wd": params.get("weight_decay", 0.0)}


def momentum(params):
    """Stochastic gradient descent with momentum."""
    name, settings = sgd(params)
    return name, dict(settings, momentum=params["momentum"])


def adam(params):
    """Adam (Kingma and Ba 2014, arXiv:1412.6980)."""
    names = ("learning_rate", "beta1", "beta2", "epsilon")
    return "correctedadam", {name: params[name] for name in names}


def adamw(params):
    """Adam, with decoupled decay of matrices (Loshchilov and Hutter 2017, arXiv:1711.05101)."""
    name, settings = adam(params)
    return name, dict(settings, wd=params["weight_decay"])


OPTIMIZERS = {"sgd": sgd, "momentum": momentum, "adam": adam, "adamw": adamw}
"""Name -> maker of the name and the settings of an optimizer, from a workload's parameters."""
