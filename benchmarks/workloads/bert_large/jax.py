"""BERT large in JAX: the network of BERT base, with parameters of its own."""

from workloads.bert_base.jax import loss, model

__all__ = ["loss", "model"]
