"""BERT large in PyTorch: the network of BERT base, with parameters of its own."""

from workloads.bert_base.pytorch import loss, model

__all__ = ["loss", "model"]
