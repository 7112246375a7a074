"""Optimisers of workloads in PyTorch: from the parameters of spec.json."""

import torch


def sgd(parameters, params):
    """Stochastic gradient descent without momentum."""
    return torch.optim.SGD(
        parameters, lr=params["learning_rate"], weight_decay=params.get("weight_decay", 0.0)
    )


def momentum(parameters, params):
    """Stochastic gradient descent with momentum."""
    return torch.optim.SGD(
        parameters,
        lr=params["learning_rate"],
        momentum=params["momentum"],
        weight_decay=params.get("weight_decay", 0.0),
    )


def adam(parameters, params):
    """Adam (Kingma and Ba 2014, arXiv:1412.6980)."""
    return torch.optim.Adam(
        parameters,
        lr=params["learning_rate"],
        betas=(params["beta1"], params["beta2"]),
        eps=params["epsilon"],
        fused=True,
    )


def adamw(parameters, params):
    """Adam, with decoupled decay of matrices (Loshchilov and Hutter 2017, arXiv:1711.05101)."""
    weights = list(parameters)
    groups = [
        {"params": [w for w in weights if w.dim() > 1], "weight_decay": params["weight_decay"]},
        {"params": [w for w in weights if w.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=params["learning_rate"],
        betas=(params["beta1"], params["beta2"]),
        eps=params["epsilon"],
        fused=True,
    )


OPTIMIZERS = {"sgd": sgd, "momentum": momentum, "adam": adam, "adamw": adamw}
"""Name -> maker from parameters of a network and of its workload."""
