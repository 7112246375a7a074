"""A spool on an object store: a real S3 server, which several processes write to and read from."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from tests.integration.openssh import end, free_port
from tests.integration.terminal import TRIAL, marked, terminal

from nightbench.core.errors import UserError
from nightbench.report.site_folder import SiteFolder
from nightbench.spool import Spool, control

pytestmark = pytest.mark.slow

URL = "s3://bucket/spool"
LEASE_S = 4.0

CONTROL = f"""\
import sys, time
from nightbench.spool import Spool, control
control.LEASE_S, control.RENEW_S, control.POLL_S = {LEASE_S}, 0.5, 0.2
with Spool("{URL}").run(sys.argv[1]).controlled():
    began = time.time()
    print("controls", flush=True)
    time.sleep(float(sys.argv[2]))
    print(began, time.time(), flush=True)
"""


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """The variables that lead to an S3 server on loopback."""
    port = free_port(["127.0.0.1"])
    program = Path(sys.executable).with_name("moto_server")
    server = subprocess.Popen(
        [str(program), "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/moto-api/").close()
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.1)
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        end(server)


@pytest.fixture(autouse=True)
def no_known_store() -> Iterator[None]:
    """Forget file systems: fsspec knows them by their options, not by the environment's address."""
    yield
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture
def spool(store: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Spool:
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(control, "LEASE_S", LEASE_S)
    return Spool(URL)


def elsewhere(code: str, *words: str) -> subprocess.Popen[str]:
    """Run code in a process of its own, as another host would."""
    return subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)


def test_what_another_process_writes_is_seen_at_once(spool: Spool) -> None:
    before = {run.run_id for run in spool.runs()}
    code = f"""\
from nightbench.spool import Spool
run = Spool("{URL}").run("seen")
run.save_run({{"run_id": "seen", "started_at": "2026-03-01T01:00:00"}})
run.case("case").save_epoch(3)
"""
    other = elsewhere(code)
    other.communicate(timeout=300)
    assert other.returncode == 0
    assert {run.run_id for run in spool.runs()} - before == {"seen"}
    assert spool.run("seen").case("case").epoch() == 3


def test_a_controller_is_known_while_it_lives_and_not_once_it_was_killed(spool: Spool) -> None:
    run = spool.run("killed")
    assert run.is_controlled() is None
    other = elsewhere(CONTROL, "killed", "60")
    assert other.stdout
    assert other.stdout.readline() == "controls\n"
    time.sleep(1.5 * LEASE_S)
    assert run.is_controlled() is True, "it renews its lease"
    other.kill()
    other.communicate()
    assert run.is_controlled() is True, "nobody can know yet"
    time.sleep(LEASE_S + 1)
    assert run.is_controlled() is False
    assert elsewhere(CONTROL, "killed", "0").communicate(timeout=300)[0].startswith("controls\n")
    assert run.is_controlled() is False


def test_of_several_at_a_time_one_controls(spool: Spool) -> None:
    rivals = [elsewhere(CONTROL, "rivals", "1") for _ in range(3)]
    said = [rival.communicate(timeout=300)[0].splitlines()[1] for rival in rivals]
    spans = sorted(tuple(map(float, line.split())) for line in said)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


def test_a_store_that_does_not_answer_is_said_in_a_sentence(
    store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port(['127.0.0.1'])}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(UserError, match=r"s3://away/spool/runs.*object store.*NIGHTBENCH_SPOOL"):
        Spool("s3://away/spool").runs()


def test_a_run_is_measured_and_its_results_come_from_the_store(
    store: dict[str, str], tmp_path: Path, spool: Spool
) -> None:
    with terminal(tmp_path, TRIAL, **store, NIGHTBENCH_SPOOL=URL) as here:
        done = here.run("run", "trial", "--direct")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "case 3 of 3" in done.stdout
        assert not list((here.home / "spool").iterdir())
    run = max(spool.runs(), key=lambda run: run.run_id.startswith("trial"))
    assert len(run.planned()) == 3
    assert [run.case(planned["case_id"]).outcome()["status"] for planned in run.planned()] == [
        "ok"
    ] * 3
    assert run.is_controlled() is False
    assert marked(run.run_id) == []


def test_a_site_is_published_into_the_store(
    store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    fsspec.filesystem("s3").makedirs("bucket", exist_ok=True)
    pages = {"index.html": "<p>", "s/a/b.json": "{}"}
    for names, said in (
        (pages, "2 of 2 files written (0.0 MB), 0 removed"),
        (pages, "0 of 2 files written (0.0 MB), 0 removed"),
        (["index.html"], "0 of 1 files written (0.0 MB), 1 removed"),
    ):
        folder = SiteFolder("s3://bucket/site")
        folder.begin(names)
        for name in names:
            folder.put(name, pages[name])
        folder.finish()
        assert folder.summary == said
    found = fsspec.filesystem("s3").info("bucket/site/index.html")
    # Without it a browser would save the page instead of showing it.
    assert found["ContentType"] == "text/html; charset=utf-8"
    assert not fsspec.filesystem("s3").exists("bucket/site/s/a/b.json")
