"""The processes of one node for JAX: its runtime knows the others' addresses."""

from base_launch import processes

__all__ = ["processes"]
