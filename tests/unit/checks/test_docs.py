"""The page about checks names every check with its severity, and no other."""

import re
from pathlib import Path

from nightbench.checks import MEASUREMENT_CHECKS, REPEAT_CHECKS

PAGE = Path(__file__).parents[3] / "docs" / "checks.md"


def test_page_lists_the_checks_as_they_are():
    listed = re.findall(r"^\| `(\w+)` \| ([\w, ]+?) \|", PAGE.read_text(), re.MULTILINE)
    assert listed == [
        (c.name, f"{c.severity}, warns when shared" if c.warns_when_shared else str(c.severity))
        for c in (*REPEAT_CHECKS, *MEASUREMENT_CHECKS)
    ]
