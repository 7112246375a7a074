"""The parts of the `nightbench` command; heavy imports are inside functions."""
