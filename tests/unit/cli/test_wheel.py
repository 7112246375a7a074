"""The wheel holds all that runs, and commands that read files work from it alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nightbench.core.own_files import CHECKOUT

FOLDERS = {
    "plugins/": "",
    **{f"{name}/": f"nightbench/_files/{name}/" for name in ("benchmarks", "dags", "sql")},
}
LEFT_OUT = ("plugins/nightbench/web/ui/", "plugins/.airflowignore")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*words, str(folder)], cwd=CHECKOUT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


def test_each_tracked_file_is_in_it(wheel: Path) -> None:
    listed = ["git", "ls-files", "-z", *FOLDERS]
    done = subprocess.run(listed, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    expected = {
        inside + name.removeprefix(folder)
        for name in done.stdout.split("\0")[:-1]
        for folder, inside in FOLDERS.items()
        if name.startswith(folder) and not name.startswith(LEFT_OUT)
    }
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert found == expected


def test_suites_and_logs_are_read_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    log = tmp_path / "train.log"
    log.write_text("".join(f"global step {n}, ips: {60 + n % 3}.5 samples/s\n" for n in range(40)))
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    command = [sys.executable, "-c", "from nightbench.cli.entry import main; main()"]
    for words in (["validate"], ["parse", "paddle", str(log)]):
        done = subprocess.run(
            [*command, *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said = done.stdout
        assert str(CHECKOUT) not in said
    assert "median 61.5 samples/s" in said
