"""The wheel under each minor version of Airflow that is supported, in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.airflows import AIRFLOWS, REPO, UV, build_wheel, install
from tests.contained import folder_of_server
from tests.integration.terminal import TRIAL
from tests.integration.test_new_line import SUITE as FILMS

LIMIT_S = 1200

pytestmark = [pytest.mark.large, pytest.mark.timeout(3 * LIMIT_S)]


@dataclass(frozen=True)
class Installed:
    """The wheel beside an Airflow, with a project and a home."""

    place: Path
    version: str

    @property
    def python(self) -> str:
        return str(self.place / "venv" / "bin" / "python")

    def run(self, *words: str) -> str:
        """Run a command in the project; what it printed."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "NIGHTBENCH"))}
        done = subprocess.run(
            words,
            cwd=self.place / "project",
            env={**kept, "NIGHTBENCH_HOME": str(self.place / "home"), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout[-6000:]}{done.stderr[-6000:]}"
        return done.stdout

    def nightbench(self, *words: str) -> str:
        return self.run(str(self.place / "venv" / "bin" / "nightbench"), *words)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=list(AIRFLOWS))
def installed(request: pytest.FixtureRequest, wheel: Path) -> Iterator[Installed]:
    place = folder_of_server("nbair-")
    (place / "project").mkdir()
    venv = place / "venv"
    done = install(venv, f"nightbench[local] @ {wheel.as_uri()}", *AIRFLOWS[request.param])
    assert done.returncode == 0, done.stderr
    subprocess.run([UV, "pip", "check", "-q", "-p", venv], check=True)
    ask = "from importlib.metadata import version; print(version('apache-airflow-core'))"
    found = subprocess.run([venv / "bin" / "python", "-c", ask], capture_output=True, text=True)
    here = Installed(place, found.stdout.strip())
    try:
        yield here
    finally:
        here.nightbench("down")


def test_all_dags_keep_to_what_every_dag_keeps_to(installed: Installed) -> None:
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/dags"],
        cwd=REPO,
        env={**os.environ, "NIGHTBENCH_TEST_PYTHON": installed.python},
        check=True,
    )


def test_a_suite_of_a_project_is_measured_loaded_and_shown(installed: Installed) -> None:
    installed.nightbench("init", ".")
    project = installed.place / "project"
    # A line, a workload and a suite that are the project's alone.
    shutil.copytree(Path(__file__).parent / "newcomer", project, dirs_exist_ok=True)
    for name, text in (("trial", TRIAL), ("films", FILMS)):
        (project / "suites" / f"{name}.yaml").write_text(text, encoding="utf-8")
    # What nodes make the environments of lines with.
    assert (installed.place / "venv" / "bin" / "uv").is_file()
    installed.nightbench("up")
    checked = {
        each["subject"]: each for each in json.loads(installed.nightbench("check", "--json"))
    }
    assert installed.version in checked["versions"]["observed"]
    assert {each["state"] for each in checked.values()} <= {"ok", "note"}
    is_old = installed.version.startswith("3.2")
    assert ("marked as failed" in checked["versions"]["advice"]) is is_old

    installed.nightbench("run", "films")
    (row,) = json.loads(installed.nightbench("results", "--json"))
    assert row["case_id"] == "film-relay-ps-2ps2tr-bs4-rounded"
    assert row["throughput"] > 0
    installed.nightbench("run", "trial")
    (run,) = (installed.place / "home" / "spool" / "runs").glob("trial-*")
    rows = json.loads(installed.nightbench("results", "--json"))
    assert len(rows) == 3
    assert all(row["throughput"] > 0 for row in rows)

    ports = json.loads((installed.place / "home" / "ports.json").read_text(encoding="utf-8"))
    with httpx.Client(base_url=f"http://127.0.0.1:{ports['api']}", timeout=60) as ui:
        assert ui.get("/nightbench/api/runs").status_code == 401
        passwords = installed.place / "home" / "airflow" / "passwords.json"
        for name, password in json.loads(passwords.read_text(encoding="utf-8")).items():
            login = {"username": name, "password": password}
            token = ui.post("/auth/token", json=login).json()["access_token"]
            bearer = {"Authorization": f"Bearer {token}"}
            routes = ui.get("/nightbench/api/openapi.json", headers=bearer).json()["paths"]
            for route in routes:
                if "get" in routes[route] and "{" not in route:
                    answer = ui.get(f"/nightbench{route}", headers=bearer)
                    # Those that need parameters say which.
                    assert answer.status_code in (200, 422), (route, answer.text[:500])
            shown = ui.get(f"/nightbench/api/runs/{run.name}", headers=bearer).json()
            assert len(shown["cases"]) == 3
