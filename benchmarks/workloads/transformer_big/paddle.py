"""Transformer big in PaddlePaddle: the network of Transformer base, with parameters of its own."""

from workloads.transformer_base.paddle import loss, model

__all__ = ["loss", "model"]
