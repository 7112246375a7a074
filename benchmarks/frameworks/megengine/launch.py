"""The processes of one node for MegEngine, which meet at a server next to rank 0 (runtime.py)."""

from base_launch import processes_without_tf32 as processes

__all__ = ["processes"]
