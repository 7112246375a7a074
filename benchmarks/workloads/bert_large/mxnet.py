"""BERT large in MXNet's Gluon: the network of BERT base, with parameters of its own."""

from workloads.bert_base.mxnet import loss, model

__all__ = ["loss", "model"]
