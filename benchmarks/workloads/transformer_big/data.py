"""Pairs of sentences and initial weights: Transformer base's, with parameters of its own."""

from workloads.transformer_base.data import batch, weights

__all__ = ["batch", "weights"]
