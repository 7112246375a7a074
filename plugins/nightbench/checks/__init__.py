"""Data-quality checks: of repeats, of what they learned, and of measurements; a file for each.

Great Expectations takes several seconds to import, so it is imported by the first check that
runs and never by importing this package.
"""

from functools import cache
from pathlib import Path

from nightbench.checks.engine import CheckContext
from nightbench.checks.measurements import MEASUREMENT_CHECKS, check_measurements
from nightbench.checks.repeats import REPEAT_CHECKS, check_repeats
from nightbench.core.code_digest import code_digest


@cache
def checks_digest() -> str:
    """The digest of these files: by which checks a run was judged."""
    return code_digest(Path(__file__).parent)
