"""Tests of framework lines and workloads by pytest: ours, and those of a project of one's own."""
