"""The process of a node for MegEngine, whose ranks are always alone."""

from base_launch import processes_without_tf32 as processes

__all__ = ["processes"]
