"""docs/own-airflow.md, word by word: roles, wheel, project and `nightbench check`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import psutil
import psycopg2
import pytest
from tests.airflows import REPO, UV, build_wheel
from tests.contained import folder_of_server
from tests.integration.test_roles import end

from nightbench.local import postgres
from nightbench.local.home import Home, load_or_create_secrets
from nightbench.local.ports import choose_ports

PAGE = (REPO / "docs" / "own-airflow.md").read_text(encoding="utf-8")
WAIT = """
HEALTH="http://127.0.0.1:$AIRFLOW__API__PORT/api/v2/monitor/health"
until curl -sf "$HEALTH" | grep -q '"triggerer":{"status":"healthy"'
do kill -0 $STANDALONE; sleep 2; done
"""

pytestmark = [pytest.mark.large, pytest.mark.timeout(2400)]


def blocks(heading: str, language: str) -> list[str]:
    """The fenced blocks of a section."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def _when_parsed(check: str) -> str:
    """The block that checks, once Airflow has read the DAG file."""
    wait = "until airflow dags details on_demand >/dev/null 2>&1; do sleep 2; done"
    return f"{wait}\n{check}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Address and superuser's password of a PostgreSQL without any role of ours."""
    home = Home(folder_of_server("nbsql-") / "home")
    home.make()
    secrets = load_or_create_secrets(home)
    with ExitStack() as ending:
        with ExitStack() as reserved:
            ports = choose_ports(home, reserved)
        postgres.initialise(home, secrets)
        service = postgres.start(home, ports.postgres)
        ending.callback(end, psutil.Process(service.pid))
        postgres.wait_ready(home, ports, secrets)
        dsn = postgres.dsn(ports, secrets, postgres.SUPERUSER, "postgres")
        connection = psycopg2.connect(dsn)
        connection.autocommit = True
        (statements,) = blocks("The warehouse", "sql")
        with connection.cursor() as cursor:
            for statement in statements.split(";\n"):
                cursor.execute(statement) if statement.strip() else None
        connection.close()
        yield f"127.0.0.1:{ports.postgres}", secrets.postgres


def test_the_page_leads_to_an_airflow_that_lacks_nothing(
    server: tuple[str, str], tmp_path: Path
) -> None:
    wheel = build_wheel(tmp_path)
    venv = tmp_path / "venv"
    subprocess.run([UV, "venv", "-q", "--seed", "-p", sys.executable, venv], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "NIGHTBENCH"))}
    path = [str(venv / "bin"), str(postgres.binaries()), kept["PATH"]]
    environment = {
        **kept,
        "PATH": os.pathsep.join(path),
        "AIRFLOW_VERSION": version("apache-airflow"),
        "WAREHOUSE": server[0],
        # What a team's Airflow has by itself, and the Connection of its nodes.
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__API__PORT": port,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW_CONN_NIGHTBENCH_LOCAL": "ssh://bench@127.0.0.2",
    }
    *before, check = blocks("With pip", "console")
    started = ["airflow standalone > standalone.log 2>&1 & STANDALONE=$!", WAIT]
    # Airflow's settings say nothing else: `[api] base_url` and the executor have their defaults.
    ended = ["airflow dags list", "kill $STANDALONE", "wait $STANDALONE || true"]
    other = [
        "cd ..",
        "echo ELSEWHERE",
        "export AIRFLOW_HOME=$PWD/other",
        "airflow db migrate",
        check,
    ]
    script = "\n".join(["set -eu", *before, *started, _when_parsed(check), *ended, *other])
    # The package that no index has yet, and a password that the page cannot know.
    script = script.replace('"nightbench[airflow]"', f'"nightbench[airflow] @ {wheel.as_uri()}"')
    script = script.replace("superuser-password", server[1])
    done = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with ExitStack() as ending:
        ending.callback(end, psutil.Process(done.pid))
        said, _ = done.communicate(timeout=2000)
        # The last command: an Airflow that has no bundle of the project.
        assert done.returncode == 1, said[-6000:]
    said, _, elsewhere = said.partition("ELSEWHERE")
    assert "missing" not in said
    assert "links: messages and reports have no links" in said
    assert "nightbench_verdicts" in said.partition("project")[2]
    (line,) = [line for line in elsewhere.splitlines() if line.startswith("DAGs ")]
    assert "Airflow has no DAG on_demand" in line
