"""Transformer big in Fluid: the network of Transformer base, with parameters of its own."""

from workloads.transformer_base.fluid import loss, model

__all__ = ["loss", "model"]
