"""The test line starts rank.py for every process."""

from base_launch import processes

__all__ = ["processes"]
