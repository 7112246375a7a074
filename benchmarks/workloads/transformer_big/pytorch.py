"""Transformer big in PyTorch: the network of Transformer base, with parameters of its own."""

from workloads.transformer_base.pytorch import loss, model

__all__ = ["loss", "model"]
