"""The pages in Chromium under another Airflow, installed from the wheel as a team does.

A run takes one minor version, by its commit: as many landings as there are versions take them all.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest
from playwright.sync_api import BrowserContext, expect
from tests.airflows import AIRFLOWS, TOO_OLD, build_wheel, install, of_this_commit
from tests.browser.browsing import HOME, logged_in, shoot
from tests.contained import folder_of_server
from tests.integration.test_roles import end

from nightbench.local import postgres
from nightbench.local.home import Home, Secrets
from nightbench.local.ports import choose_ports
from nightbench.warehouse import migrate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

LIMIT_S = 900
PATHS = ("", "/explore", "/alerts", "/nodes", "/compare")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def warehouse() -> Iterator[dict[str, str]]:
    """Connections to an empty warehouse, as variables."""
    home, secrets = Home(folder_of_server("nbsql-") / "home"), Secrets()
    home.make()
    with ExitStack() as ending:
        postgres.initialise(home, secrets)
        with ExitStack() as reserved:
            ports = choose_ports(home, reserved)
            service = postgres.start(home, ports.postgres)
        ending.callback(end, psutil.Process(service.pid))
        postgres.wait_ready(home, ports, secrets)
        postgres.provide(home, ports, secrets)
        migrate.apply(postgres.dsn(ports, secrets, "nightbench_owner"))
        place = {"conn_type": "postgres", "host": "127.0.0.1", "port": ports.postgres}
        yield {
            f"AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE_{name.upper()}": json.dumps(
                place
                | {"schema": postgres.WAREHOUSE, "login": f"nightbench_{name}"}
                | {"password": getattr(secrets, f"nightbench_{name}")}
            )
            for name in ("reader", "triage")
        }


@pytest.fixture(scope="module")
def airflow(wheel: Path) -> Path:
    """The command of an Airflow with the wheel beside it."""
    venv = folder_of_server("nbair-") / "venv"
    requirement = f"nightbench[airflow] @ {wheel.as_uri()}"
    done = install(venv, requirement, *AIRFLOWS[of_this_commit()])
    assert done.returncode == 0, done.stderr
    return venv / "bin" / "airflow"


@pytest.fixture(scope="module", params=["", "/team"], ids=["at the root", "behind a path"])
def site(
    request: pytest.FixtureRequest, airflow: Path, warehouse: dict[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of an API server with the plugin, and the passwords of its users."""
    place = folder_of_server("nbair-")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    address = f"http://127.0.0.1:{port}{request.param}"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "NIGHTBENCH"))}
    env = kept | warehouse
    env |= {
        "AIRFLOW_HOME": str(place / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
    }
    if request.param:
        # Unset by default, as at the root.
        env["AIRFLOW__API__BASE_URL"] = address
    subprocess.run([airflow, "db", "migrate"], env=env, check=True, capture_output=True)
    log = place / "api-server.log"
    with log.open("w") as out, ExitStack() as ending:
        words = [airflow, "api-server", "--host", "127.0.0.1", "--port", port]
        server = subprocess.Popen(words, env=env, stdout=out, stderr=subprocess.STDOUT)
        ending.callback(server.wait)
        ending.callback(end, psutil.Process(server.pid))
        until = time.monotonic() + LIMIT_S
        while not _answers(f"{address}/api/v2/version"):
            assert server.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < until, log.read_text()[-4000:]
            time.sleep(1)
        passwords = place / "airflow" / "simple_auth_manager_passwords.json.generated"
        yield address, json.loads(passwords.read_text())


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=10).is_success
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize("user", ["admin", "viewer"])
def test_pages_open_for_each_role(
    site: tuple[str, dict[str, str]], user: str, context: BrowserContext
) -> None:
    address, passwords = site
    page = logged_in(context, address, user, passwords[user])
    wrong: list[str] = []
    page.on("response", lambda got: wrong.append(got.url) if got.status >= 400 else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for path in PATHS:
        page.goto(f"{address}{HOME}{path}")
        # Our own tabs: Airflow would show its page "404" in their place.
        expect(page.get_by_role("link", name="Morning")).to_be_visible(timeout=60_000)
        expect(page.get_by_text("Page Not Found")).to_have_count(0)
    expect(page.get_by_role("heading").first).to_be_visible()
    shoot(page, f"airflow-{of_this_commit()}-{user}")
    assert wrong == []


def test_an_airflow_whose_ui_lacks_what_the_pages_need_is_refused_by_name(
    wheel: Path, tmp_path: Path
) -> None:
    done = install(tmp_path / "venv", f"nightbench[airflow] @ {wheel.as_uri()}", *TOO_OLD)
    assert done.returncode != 0
    assert "apache-airflow>=3.2" in done.stderr
    assert "apache-airflow==3.1.8" in done.stderr
