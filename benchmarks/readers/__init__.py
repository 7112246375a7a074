"""Readers of real data: NumPy batches from files on the node, the same for every framework line."""
