"""Nightbench: scheduled benchmarking of deep-learning training over SSH."""
