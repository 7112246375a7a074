"""The wheel holds all that runs, and commands that read files work from it alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from nightbench.core.package_files import CHECKOUT

FOLDERS = {
    "plugins/": "",
    **{f"{name}/": f"nightbench/_files/{name}/" for name in ("benchmarks", "dags", "sql", "docs")},
}
Run = subprocess.CompletedProcess[str]
LEFT_OUT = ("plugins/nightbench/web/ui/", "plugins/.airflowignore", "docs/images/")


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
    assert wheel.stat().st_size < 4_000_000


def run(wheel: Path, folder: Path, *words: str, without: str = "") -> Run:
    """Run the command from the wheel alone, as if a module were not installed."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    hidden = f"sys.modules.update({{name: None for name in {without.split()!r}}})"
    code = f"import sys; {hidden}; from nightbench.cli.entry import main; main()"
    env = {**os.environ, "PYTHONPATH": str(folder / "installed"), "NIGHTBENCH_HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "without", "extra"),
    [("up", "psutil", "local"), ("runs", "psycopg2", "airflow"), ("cancel x", "httpx", "airflow")],
)
def test_what_is_not_installed_is_said_with_the_extra_that_brings_it(
    wheel: Path, tmp_path: Path, words: str, without: str, extra: str
) -> None:
    done = run(wheel, tmp_path, *words.split(), without=without)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: this command needs the module {without}, which")
    assert f"is not installed: pip install 'nightbench[{extra}]'" in done.stderr


def test_suites_and_logs_are_read_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"global step {n}, ips: {60 + n % 3}.5 samples/s\n" for n in range(40)))
    assert run(wheel, tmp_path, "--version").stdout == f"nightbench {version('nightbench')}\n"
    for words in (["validate"], ["parse", "paddle", str(log)]):
        done = run(wheel, tmp_path, *words)
        assert done.returncode == 0, done.stderr
        said = done.stdout
        assert str(CHECKOUT) not in said
    assert "median 61.5 samples/s" in said
