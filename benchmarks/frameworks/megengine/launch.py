"""The process of a node for MegEngine, whose ranks are always alone."""

from base_launch import processes

__all__ = ["processes"]
