"""The pages' API keeps its own description, whatever a client sends: Schemathesis in one role.

`NIGHTBENCH_FUZZ_SEED` repeats a run; without it the commit chooses seed and role.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg2.extensions import parse_dsn
from tests.contained import folder_of_server
from tests.integration.test_roles import PAGES, ROLES, api_server
from tests.sql.conftest import Database
from tests.sql.given import NIGHT, Given

from nightbench.core.model import Verdict, VerdictKind
from nightbench.warehouse import Warehouse

pytestmark = pytest.mark.slow
REPO = Path(__file__).resolve().parents[2]
EXAMPLES = "20"
"""Cases of an operation."""


@pytest.fixture
def history(loader: Warehouse, given: Given) -> None:
    """Three nights, one of them slower, and its alert."""
    for night, level in enumerate((100.0, 101.0, 90.0)):
        run = given.run(night)
        loader.runs.load(given.batch(run, given.came_back(run, given.case(), (level,) * 3)))
    case_id = given.case().case_id
    slower = Verdict(
        case_id, "local", run.run_id, VerdictKind.REGRESSED, "slower", 86.0, 100.0, -0.14, 2,
        smallest_slowdown=0.05, level_change=-0.1, low=-0.12, high=-0.08,
        since=NIGHT + timedelta(days=2),
    )  # fmt: skip
    loader.series.store_verdicts([slower])
    loader.alerts.open(slower)


def seed() -> int:
    """The seed of this commit, or the one that is asked for."""
    asked = os.environ.get("NIGHTBENCH_FUZZ_SEED")
    if asked:
        return int(asked)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=REPO, capture_output=True, text=True, check=False
    )
    return int(head.stdout[:8] or "0", 16)


def test_each_answer_is_as_described(
    warehouse: Database,
    history: None,
    tmp_path: Path,
) -> None:
    number = seed()
    role = ROLES[number % len(ROLES)]
    more = {
        "AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE_READER": uri(warehouse.reader),
        "AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE_TRIAGE": uri(warehouse.triage),
    }
    with api_server(folder_of_server("nbfuzz-"), more) as client:
        login = client.post("/auth/token", json={"username": role, "password": role})
        words = [
            str(Path(sys.executable).with_name("schemathesis")),
            "--config-file", str(Path(__file__).with_name("schemathesis.toml")), "run",
            f"{client.base_url}{PAGES}/openapi.json",
            "--header", f"Authorization: Bearer {login.json()['access_token']}",
            "--seed", str(number), "--max-examples", EXAMPLES, "--continue-on-failure",
            "--generation-database", "none", "--no-color", "--no-shrink",
        ]  # fmt: skip
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"NIGHTBENCH_FUZZ_SEED={number}, {role}\n{done.stdout[-20000:]}"


def uri(dsn: str) -> str:
    """Return a Connection of Airflow, from psycopg2's words."""
    at = parse_dsn(dsn)
    return json.dumps(
        {
            "conn_type": "postgres",
            "host": at["host"],
            "port": int(at["port"]),
            "schema": at["dbname"],
            "login": at["user"],
            "password": at["password"],
        }
    )
