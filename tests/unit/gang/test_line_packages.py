"""The package that a build replaces: a variant's own where it has one."""

from __future__ import annotations

from nightbench.config import locations
from nightbench.gang.wheels import line_of


def test_a_variant_may_have_a_package_of_its_own() -> None:
    found = {v: line_of(locations.benchmarks_folder(), "paddle2", v)[1] for v in ("cpu", "cuda11")}
    assert found == {"cpu": "paddlepaddle", "cuda11": "paddlepaddle-gpu"}
