"""Paired, interleaved measurements: compare, confirm, bisect, drill."""
