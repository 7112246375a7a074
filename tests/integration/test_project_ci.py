"""The CI file that `nightbench init` writes, run as it is in an empty environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.airflows import UV, build_wheel
from tests.unit.cli.test_command import nightbench

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def workflow(repository: Path) -> dict[str, object]:
    """The only workflow where GitHub looks for it."""
    (file,) = (repository / ".github" / "workflows").iterdir()
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("folder", [".", "team/benchmarks"])
def test_the_ci_file_passes_in_an_empty_environment(folder: str, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", repository], check=True)
    made = nightbench(repository, "init", folder)
    assert made.returncode == 0, made.stderr
    found = workflow(repository)
    (job,) = found["jobs"].values()
    where = found.get("defaults", {}).get("run", {}).get("working-directory", ".")
    subprocess.run([UV, "venv", "-q", "--seed", "-p", sys.executable, tmp_path / "v"], check=True)
    build_wheel(tmp_path / "wheels")
    env = {
        "PATH": f"{tmp_path}/v/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        # In the place of the package index, which has no wheel of this commit.
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
        **{name: os.environ[name] for name in os.environ if name.startswith("PIP_INDEX")},
    }
    steps = [step["run"] for step in job["steps"] if "run" in step]
    assert len(steps) == 3
    for step in steps:
        done = subprocess.run(
            ["bash", "-e", "-c", step],
            cwd=repository / where,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{step}: {done.stdout}{done.stderr}"
    assert "2 cases on local" in done.stdout
