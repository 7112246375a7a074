"""The processes of one node for TensorFlow 1: its runtime tells them where the others are."""

from base_launch import processes

__all__ = ["processes"]
