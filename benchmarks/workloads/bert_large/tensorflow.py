"""BERT large in TensorFlow: the network of BERT base, with parameters of its own."""

from workloads.bert_base.tensorflow import loss, model

__all__ = ["loss", "model"]
