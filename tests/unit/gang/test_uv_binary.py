"""uv for nodes of another CPU architecture: from wheels, once, by the lock's hashes."""

from __future__ import annotations

import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nightbench.gang import uv_binary
from nightbench.gang.errors import GangError
from nightbench.gang.uv_binary import uv_for

OWN = Path("/opt/uv")
OTHER = "aarch64" if os.uname().machine != "aarch64" else "x86_64"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheelhouse; the home is empty, and no index answers."""
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    folder = tmp_path / "house"
    folder.mkdir()
    return folder


def make_uv(folder: Path, version: str, machine: str, inside: str = "scripts") -> Path:
    """A wheel like uv's, whose binary is a script."""
    tags = f"py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}"
    path = folder / f"uv-{version}-{tags}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"uv-{version}.data/{inside}/uv", f"#!/bin/sh\necho uv {version}\n")
    return path


def test_nodes_of_this_machines_architecture_get_its_own(house: Path) -> None:
    assert uv_for(os.uname().machine, OWN, "9.9.9", house) == OWN


def test_another_architectures_comes_from_the_wheelhouse_once(house: Path, tmp_path: Path) -> None:
    make_uv(house, "9.9.8", OTHER)
    make_uv(house, "9.9.9", os.uname().machine)
    wheel = make_uv(house, "9.9.9", OTHER)
    with ThreadPoolExecutor(4) as several:
        found = set(several.map(lambda _: uv_for(OTHER, OWN, "9.9.9", house), range(8)))
    (binary,) = found
    assert binary == tmp_path / "home/tools" / f"uv-9.9.9-{OTHER}"
    assert binary.read_text().endswith("echo uv 9.9.9\n")
    assert os.access(binary, os.X_OK)
    wheel.unlink()
    assert uv_for(OTHER, OWN, "9.9.9", None) == binary, "it is kept"


def test_a_wheel_of_another_build_than_the_locks(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_uv(house, "9.9.9", OTHER)
    lock = house.parent / "requirements" / "uv.lock"
    lock.parent.mkdir()
    lock.write_text(f"uv==9.9.9 ; sys_platform == 'linux' \\\n    --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(uv_binary, "CHECKOUT", house.parent)
    with pytest.raises(GangError, match=r"not the build in requirements/uv\.lock") as caught:
        uv_for(OTHER, OWN, "9.9.9", house)
    assert str(wheel) in str(caught.value)


def test_a_file_that_is_no_wheel_of_uv(house: Path) -> None:
    make_uv(house, "9.9.9", OTHER, inside="data")
    with pytest.raises(GangError, match=r"found no uv-9\.9\.9\.data/scripts/uv; expected"):
        uv_for(OTHER, OWN, "9.9.9", house)
    assert not list((house.parent / "home/tools").glob("uv-*"))


def test_without_wheel_and_index_the_message_says_where_to_put_it(
    house: Path, tmp_path: Path
) -> None:
    with pytest.raises(GangError) as caught:
        uv_for(OTHER, OWN, "9.9.9", house)
    said = str(caught.value)
    assert f"there is no uv 9.9.9 for {OTHER} nodes: pip could not download" in said
    assert f"uv-9.9.9-py3-none-manylinux…_{OTHER}.whl into environments.wheelhouse" in said
    assert str(tmp_path / "home/tools" / f"uv-9.9.9-{OTHER}") in said
