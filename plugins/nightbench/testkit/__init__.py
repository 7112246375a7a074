"""pytest tests of framework lines and workloads, for Nightbench's own and for a project's."""
