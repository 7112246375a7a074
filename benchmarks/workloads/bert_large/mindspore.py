"""BERT large in MindSpore: the network of BERT base, with parameters of its own."""

from workloads.bert_base.mindspore import loss, model

__all__ = ["loss", "model"]
