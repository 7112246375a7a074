"""The processes of one node for JAX: its runtime tells them where the others are."""

from base_launch import processes

__all__ = ["processes"]
