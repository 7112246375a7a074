"""What lies in a prefix runs as the node's user: whoever else may write there is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nodeside.prefixes import prefix

NOBODY = 65534


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A prefix two folders down, its interpreter a link to one elsewhere."""
    place = tmp_path / "opt/pytorch"
    (place / "bin").mkdir(parents=True)
    real = tmp_path / "usr/python3"
    real.parent.mkdir()
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    (place / "bin/python").symlink_to(real)
    return place


def test_a_prefix_of_our_own(site: Path) -> None:
    assert prefix(str(site)) == {"python": str(site / "bin/python")}


def test_one_that_is_not_there(tmp_path: Path) -> None:
    assert prefix(str(tmp_path)) == {"problem": f"{tmp_path}/bin/python is not there"}


@pytest.mark.parametrize("part", ["opt/pytorch/bin", "opt/pytorch", "opt", "usr", "usr/python3"])
def test_what_others_may_write_is_not_run(site: Path, tmp_path: Path, part: str) -> None:
    (tmp_path / part).chmod(0o777)
    assert prefix(str(site))["problem"] == (
        f"{tmp_path / part}: found permissions 777; expected no write permission for others"
    )


def test_a_folder_where_all_have_entries_of_their_own_is_no_danger(
    site: Path, tmp_path: Path
) -> None:
    (tmp_path / "opt").chmod(0o1777)
    assert "python" in prefix(str(site))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it gives files away")
@pytest.mark.parametrize("part", ["opt/pytorch", "usr/python3"])
def test_what_belongs_to_another_user_is_not_run(site: Path, tmp_path: Path, part: str) -> None:
    os.chown(tmp_path / part, NOBODY, -1)
    assert f"{tmp_path / part}: found owner {NOBODY}" in prefix(str(site))["problem"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it gives files away")
def test_a_group_that_may_write_is_named(site: Path) -> None:
    os.chown(site, -1, NOBODY)
    site.chmod(0o775)
    assert f"found permissions 775 of group {NOBODY}" in prefix(str(site))["problem"]
