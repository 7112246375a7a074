"""The processes of one node for TensorFlow 1: its runtime tells them where the others are."""

from base_launch import processes_without_tf32 as processes

__all__ = ["processes"]
