"""The packages of a line's lock: what a build replaces, and what a node needs of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.wheels import make_wheel

from nightbench.config import locations
from nightbench.gang.wheels import MissingWheels, choose_wheels, line_of, packages_of


def test_a_variant_may_have_a_package_of_its_own() -> None:
    found = {v: line_of(locations.benchmarks_folder(), "paddle2", v)[1] for v in ("cpu", "cuda11")}
    assert found == {"cpu": "paddlepaddle", "cuda11": "paddlepaddle-gpu"}


LOCK = """\
main==1.0
arm==1.0 ; platform_machine == 'aarch64' and sys_platform == 'linux'
old==1.0 ; python_full_version < '3.12'
new==2.0 ; python_full_version >= '3.12' and python_version < '3.14'
mac==1.0 ; sys_platform == 'darwin'
"""


@pytest.mark.parametrize(
    ("series", "machine", "names"),
    [
        ("3.11", "x86_64", ["main", "old"]),
        ("3.11", "aarch64", ["main", "arm", "old"]),
        ("3.13", "aarch64", ["main", "arm", "new"]),
        ("3.14", "x86_64", ["main"]),
    ],
)
def test_markers_are_compared_with_the_node(
    tmp_path: Path, series: str, machine: str, names: list[str]
) -> None:
    """Its interpreter and its CPU architecture count, not the controller's."""
    packages = packages_of(LOCK, "x", None, replaced=False)
    wheels = {each.name: make_wheel(tmp_path, each.name, each.version) for each in packages}
    found = choose_wheels(tmp_path, packages, series, machine)
    assert [wheel.path for wheel in found] == [wheels[name] for name in names]
    wheels[names[-1]].unlink()
    with pytest.raises(MissingWheels, match=f"{names[-1]} .* is missing"):
        choose_wheels(tmp_path, packages, series, machine)


def test_a_requirement_keeps_its_hashes_and_loses_its_marker() -> None:
    lock = "a==1 ; python_version < '3.12' \\\n    --hash=sha256:" + "0" * 64 + "\n    # via x\n"
    (found,) = packages_of(lock, "x", None, replaced=False)
    assert found.marker == "python_version < '3.12'"
    assert found.as_requirement() == f"a==1 --hash=sha256:{'0' * 64}\n"
