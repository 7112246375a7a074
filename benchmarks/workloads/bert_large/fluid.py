"""BERT large in Fluid: the network of BERT base, with parameters of its own."""

from workloads.bert_base.fluid import loss, model

__all__ = ["loss", "model"]
