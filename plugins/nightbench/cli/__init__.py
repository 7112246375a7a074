"""The parts of the `nightbench` command; heavy imports stand inside functions."""
