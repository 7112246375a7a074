"""The shares of the drills, which `.ci/run` runs in turns."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.drills import shares

REPO = Path(__file__).resolve().parents[3]


def test_six_shares_have_each_drill_once_and_none_is_long() -> None:
    have = sorted(name for files in shares.shares() for name in files)
    assert have == sorted(path.name for path in (REPO / "tests/drills").glob("test_*.py"))
    lengths = [shares.seconds_of(files) for files in shares.shares()]
    assert max(lengths) <= shares.LONGEST_S
    # As short as its longest file allows, and none is empty.
    assert max(lengths) == max(shares.SECONDS.values())
    assert all(lengths)


@pytest.mark.parametrize("text", ["0/6", "7/6", "2/5", "2", "a/6", ""])
def test_a_share_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected 1/6 to 6/6"):
        shares.share_of(text)


def test_ci_runs_the_next_share_at_each_landing() -> None:
    """Six first parents in a row select six shares; a share that fails fails CI."""
    text = (REPO / ".ci/run").read_text()
    drills = text.partition("\ndrills() {")[2].partition("\n}\n")[0]
    (modulus,) = re.findall(r"--first-parent HEAD\) % (\d+) \+ 1", drills)
    assert int(modulus) == shares.SHARES
    assert '--share="$share/6"' in drills
    assert re.search(r"^ +stage drills drills$", text, re.MULTILINE)


def test_a_share_collects_its_files_alone() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "tests/drills", "--share"]
    done = subprocess.run([*command, "3/6"], cwd=REPO, capture_output=True, text=True, check=False)
    if "the drills need what is not here" in done.stdout:
        pytest.skip("the drills need root")
    found = {line.partition(":")[0].rpartition("/")[2] for line in done.stdout.splitlines()}
    assert {name for name in found if name} == {*shares.share_of("3/6")}, done.stdout
