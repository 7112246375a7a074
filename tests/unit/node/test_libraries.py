"""Shared libraries that an environment gets from another package's wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import PIL
import pytest
from nodeside import libraries
from nodeside.files import AgentError

CARRIED = "pillow.libs/libsharpyuv-*.so.*"
"""It needs no other library, and a system has none."""


@pytest.fixture
def env(tmp_path: Path) -> Path:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    shutil.copytree(Path(PIL.__file__).parents[1] / "pillow.libs", site / "pillow.libs")
    return tmp_path


def test_the_linker_finds_it_by_its_usual_name(env: Path) -> None:
    libraries.bring({"libsharpyuv.so.0": CARRIED}, str(env))
    (pth,) = env.glob("lib/python*/site-packages/*.pth")
    code = (
        f"import sys; sys.prefix = {str(env)!r}\n"
        f"import site; site.addsitedir({str(pth.parent)!r})\n"
        "import ctypes; ctypes.CDLL('libsharpyuv.so.0')\n"
        "print({x.split()[-1] for x in open('/proc/self/maps') if 'sharpyuv' in x})"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str({str(env / "lib/nightbench/libsharpyuv.so.0")})
    assert not done.stderr


def test_a_package_that_has_it_no_longer_is_named(env: Path) -> None:
    with pytest.raises(AgentError, match=r"libgomp.so.1: found 0 files gone.libs/libgomp-\*"):
        libraries.bring({"libgomp.so.1": "gone.libs/libgomp-*"}, str(env))


def test_most_lines_need_none(tmp_path: Path) -> None:
    libraries.bring({}, str(tmp_path))
    assert not list(tmp_path.iterdir())
