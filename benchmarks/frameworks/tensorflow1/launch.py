"""The processes of one node for TensorFlow 1: its runtime knows the others' addresses."""

from base_launch import processes_without_tf32 as processes

__all__ = ["processes"]
