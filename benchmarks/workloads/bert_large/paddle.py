"""BERT large in PaddlePaddle: the network of BERT base, with parameters of its own."""

from workloads.bert_base.paddle import loss, model

__all__ = ["loss", "model"]
