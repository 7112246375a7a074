"""Data-quality checks: of repeats, of what they learned, and of measurements; a file for each.

Great Expectations takes several seconds to import, so it is imported by the first check that
runs and never by importing this package.
"""

from nightbench.checks.engine import CheckContext
from nightbench.checks.measurements import MEASUREMENT_CHECKS, check_measurements
from nightbench.checks.repeats import REPEAT_CHECKS, check_repeats
