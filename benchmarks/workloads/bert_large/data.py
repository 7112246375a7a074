"""Synthetic sequences and initial weights: BERT base's, with the parameters of BERT large."""

from workloads.bert_base.data import batch, read, weights

__all__ = ["batch", "read", "weights"]
