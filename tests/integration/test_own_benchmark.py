"""docs/own-benchmark.md: its files in a project, measured on local nodes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.terminal import terminal

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "own-benchmark.md").read_text()
FILE = re.compile(r"^`(\S+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.slow


def test_the_page_leads_to_medians(tmp_path: Path) -> None:
    files = dict(FILE.findall(PAGE))
    assert len(files) == 8
    with terminal(tmp_path, files["suites/fit.yaml"]) as here:
        project = tmp_path / "dags"
        made = here.run("init", str(project))
        assert made.returncode == 0, made.stderr
        for name, text in files.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (project / "suites" / "trial.yaml").unlink()
        (project / "tests").mkdir()
        kit = project / "tests" / "test_benchmarks.py"
        kit.write_text("from nightbench.testkit.cell_tests import *\n", encoding="utf-8")
        words = [sys.executable, "-m", "pytest", "-qrs", "-p", "no:cacheprovider", str(kit)]
        tested = subprocess.run(
            words, cwd=project, env=here.environment(), capture_output=True, text=True, check=False
        )
        assert tested.returncode == 0, tested.stdout
        assert "data.py: found list for the weights w" in tested.stdout
        for words in (["validate"], ["plan", "fit"], ["run", "fit", "--direct"]):
            done = here.run(*words)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert (here.home / "reports" / f"{here.newest().run_id}.md").is_file()
        rows = json.loads(here.run("results", "--json").stdout)
        assert {row["case_id"]: row["status"] for row in rows} == {
            "line_fit-scratch-single-1x1-bs16": "ok",
            "line_fit-scratch-single-1x1-bs32": "ok",
        }
        assert all(row["throughput"] > 0 for row in rows)
