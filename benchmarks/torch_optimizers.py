"""Optimizers of libraries with PyTorch's interface, from the parameters of spec.json."""


def _together(weights):
    return [{"params": list(weights)}]


def optimizers_of(optim, groups_of=_together, **of_adam):
    """Return name -> maker, which takes the network's parameters, the workload's, and switches.

    Args:
        optim: the library's module.
        groups_of: puts weights into groups that are updated together.
        of_adam: switches of Adam and AdamW.
    """

    def sgd(parameters, params, **switches):
        """Stochastic gradient descent without momentum."""
        return optim.SGD(
            groups_of(parameters),
            lr=params["learning_rate"],
            weight_decay=params.get("weight_decay", 0.0),
            **switches,
        )

    def momentum(parameters, params, **switches):
        """Stochastic gradient descent with momentum."""
        return sgd(parameters, params, momentum=params["momentum"], **switches)

    def adam(parameters, params, **switches):
        """Adam (Kingma and Ba 2014, arXiv:1412.6980)."""
        return optim.Adam(groups_of(parameters), **_of_adam(params, switches))

    def adamw(parameters, params, **switches):
        """Adam, with decoupled decay of matrices (Loshchilov and Hutter 2017, arXiv:1711.05101)."""
        weights = list(parameters)
        matrices = groups_of(w for w in weights if w.dim() > 1)
        groups = [dict(each, weight_decay=params["weight_decay"]) for each in matrices]
        others = groups_of(w for w in weights if w.dim() <= 1)
        groups += [dict(each, weight_decay=0.0) for each in others]
        return optim.AdamW(groups, **_of_adam(params, switches))

    def _of_adam(params, switches):
        return {
            "lr": params["learning_rate"],
            "betas": (params["beta1"], params["beta2"]),
            "eps": params["epsilon"],
            **of_adam,
            **switches,
        }

    return {"sgd": sgd, "momentum": momentum, "adam": adam, "adamw": adamw}
