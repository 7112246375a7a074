"""A scheduled run from its plan to its verdicts."""
