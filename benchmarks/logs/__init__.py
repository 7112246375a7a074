"""Reads the logs of training scripts that Nightbench did not write; see `reading`."""
