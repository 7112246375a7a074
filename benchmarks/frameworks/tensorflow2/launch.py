"""The processes of one node for TensorFlow 2: its runtime knows the others' addresses."""

from base_launch import processes

__all__ = ["processes"]
