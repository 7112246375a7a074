"""The locks of the framework lines: every package by version and hash, and no CUDA on the CPU."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

FRAMEWORKS = Path(__file__).parents[3] / "benchmarks" / "frameworks"
LOCKS = sorted(FRAMEWORKS.glob("*/requirements-*.lock"))


def entries(lock: Path) -> dict[str, str]:
    """Requirement line -> the hashes below it."""
    text = re.sub(r"^\s*#.*\n", "", lock.read_text(), flags=re.MULTILINE)
    return {entry.split(" ", 1)[0]: entry for entry in re.split(r"\n(?=\S)", text.strip()) if entry}


def test_every_variant_has_a_lock() -> None:
    for path in FRAMEWORKS.glob("*/framework.json"):
        info = json.loads(path.read_text())
        for variant, described in info["variants"].items():
            if "pythons" in described:
                lock = path.with_name(f"requirements-{variant}.lock")
                assert (lock in LOCKS) is ("unlocked" not in described), lock


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: f"{lock.parent.name}-{lock.stem}")
def test_every_package_is_pinned_and_hashed(lock: Path) -> None:
    for requirement, entry in entries(lock).items():
        assert re.fullmatch(r"[a-z0-9._-]+==[^\s;]+", requirement), requirement
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), requirement


@pytest.mark.parametrize(
    "lock",
    # OneFlow's only wheel is a CUDA build.
    [x for x in LOCKS if x.name == "requirements-cpu.lock" and x.parent.name != "oneflow"],
    ids=lambda lock: lock.parent.name,
)
def test_no_accelerator_packages_on_the_cpu(lock: Path) -> None:
    names = " ".join(entries(lock))
    assert not re.search(r"nvidia|cuda|triton|cudnn", names)
    torch = [r for r in entries(lock) if r.startswith("torch==")]
    assert all(r.endswith("+cpu") for r in torch), "the index's torch is the CUDA build"
