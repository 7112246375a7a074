"""A profile of two builds as one HTML page without scripts: tables and flame graphs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from nightbench.core.flames import flames
from nightbench.report.run_report import templates

SHOWN = 25
"""Operators of a case."""


def profile_page(document: Mapping[str, Any], written_at: datetime) -> str:
    """Return the page of what `nightbench compare profile --json` prints."""
    cases = [
        {
            **case,
            "operators": case["operators"][:SHOWN],
            "graphs": [] if case["why"] else _graphs(case),
        }
        for case in document["cases"]
    ]
    page = templates().get_template("profile.html")
    return page.render(document=document, cases=cases, written_at=written_at.astimezone(UTC))


def _graphs(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for arm, other in (("a", "b"), ("b", "a")):
        drawn = flames(case[f"{arm}_stacks"], case[f"{other}_stacks"])
        found.append(
            {
                "arm": arm.upper(),
                "step_s": case[f"{arm}_step_s"],
                "flames": drawn,
                "depth": 1 + max((flame.depth for flame in drawn), default=0),
            }
        )
    return found
