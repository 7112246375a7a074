"""Packed sequences, table of rotations, initial weights of Mixtral: Llama's, with experts."""

from workloads.llama.data import batch, read, weights

__all__ = ["BALANCE", "balance", "batch", "read", "weights"]

BALANCE = 0.02
"""Weight of the load-balancing loss, as in the authors' configuration."""


def balance(likely, counts):
    """Return the load-balancing loss of Fedus et al. 2021 (arXiv:2101.03961), least for even use.

    It is computed for each sequence by itself, so that a batch may be split between devices.

    Args:
        likely: probabilities of the experts for each token (n, length, experts), in any framework.
        counts: number of tokens of each sequence for each expert (n, experts).
    """
    _, length, experts = likely.shape
    return (counts / length * likely.mean(1)).sum(-1).mean() * experts
