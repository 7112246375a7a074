"""Measurements that compare two builds, and drills of the detector.

Read `comparison` (what is compared, and what is stored) and `engine` (how it is measured and
resumed) first. Then one module says what an experiment adds: `compare`, `confirm`, `bisect`.
`rounds`, `paired_statistics` and `version_search` are pure. A `drill` measures nights, not pairs.
"""
