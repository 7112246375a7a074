"""Following a DAG run while Airflow's API goes away and comes back: over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from nightbench.cli import dag_run, run
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus
from nightbench.local.airflow_api import AirflowApi, AirflowUnavailable
from nightbench.spool import Spool

DAG_RUN = "manual__1"
CASE = "one"


class Airflow:
    """Answers what a DAG run's follower asks, from a port that it keeps while it is away."""

    def __init__(self) -> None:
        self.asked = 0
        self.status = 200
        self.state = "running"
        self.is_paused = False
        self.started: list[str] = []
        self.answers_lost = 0
        self.when_asked: Callable[[int], None] = lambda asked: None
        self._server = self._listen(0)
        self.port = self._server.server_address[1]

    def go(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def come_back(self) -> None:
        self._server = self._listen(self.port)

    def answer(self, path: str) -> tuple[int, dict[str, object]]:
        if path == "/auth/token":
            return 201, {"access_token": "t"}
        if path.endswith(DAG_RUN):
            self.asked += 1
            self.when_asked(self.asked)
            return self.status, {"state": self.state}
        if path.endswith(f"/dags/{dag_run.DAG}"):
            return 200, {"is_paused": self.is_paused}
        if "/dagRuns/" in path and not path.endswith("/taskInstances"):
            return 404, {"detail": "not found"}
        return self.status, {"task_instances": []}

    def start(self, dag_run_id: str) -> int:
        """As Airflow does: one run for each id."""
        if dag_run_id in self.started:
            return 409
        self.started.append(dag_run_id)
        return 200

    def _listen(self, port: int) -> ThreadingHTTPServer:
        airflow = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(*airflow.answer(self.path.partition("?")[0]))

            def reply(self, status: int, document: dict[str, object]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self.path.endswith("/dagRuns"):
                    return self.do_GET()
                dag_run_id = sent.get("dag_run_id") or f"manual__{len(airflow.started)}"
                status = airflow.start(dag_run_id)
                if airflow.answers_lost:
                    airflow.answers_lost -= 1
                    self.close_connection = True
                    return None
                return self.reply(status, {"dag_run_id": dag_run_id})

            def do_PATCH(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Airflow]:
    monkeypatch.setattr(dag_run, "REFRESH_S", 0.02)
    monkeypatch.setattr(dag_run, "STATE_INTERVAL_S", 0.05)
    server = Airflow()
    yield server
    server.go()


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path))
    made = Spool(tmp_path / "spool")
    folder = made.run("demo-1")
    folder.save_run({"run_id": "demo-1", "cluster": "local", "dag_run_id": DAG_RUN})
    folder.save_planned([{"case_id": CASE, "unit": "images", "definition_digest": "d"}])
    return made


@contextmanager
def api(airflow: Airflow) -> Iterator[AirflowApi]:
    with AirflowApi(f"http://127.0.0.1:{airflow.port}", "u", "p") as client:
        yield client


def test_an_api_that_goes_away_is_asked_until_it_is_back(
    airflow: Airflow, spool: Spool, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(asked: int) -> None:
        if asked == 3:
            # It is restarted, and its first answer is a failure of its own.
            Thread(target=restart).start()
        airflow.status = 503 if asked == 4 else 200
        airflow.state = "success" if asked > 6 else "running"
        if asked > 6:
            spool.run("demo-1").case(CASE).end(CaseStatus.OK, [])

    def restart() -> None:
        airflow.go()
        airflow.come_back()

    airflow.when_asked = fail
    with api(airflow) as client:
        outcome = dag_run.DagRunFollower(client, spool, DAG_RUN).follow()
    assert outcome.state == "success"
    assert outcome.run is not None
    said = capsys.readouterr().out
    assert "The run continues; asking again until Airflow answers" in said
    assert "Airflow answers again" in said


def test_a_paused_dag_is_no_silence(
    airflow: Airflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    airflow.state, airflow.is_paused = "queued", True

    def unpaused(asked: int) -> None:
        airflow.is_paused = asked < 3
        airflow.state = "success" if asked > 5 else "queued"

    airflow.when_asked = unpaused
    with api(airflow) as client:
        dag_run.DagRunFollower(client, Spool(tmp_path / "spool"), DAG_RUN).follow()
    paused, waiting = capsys.readouterr().out.splitlines()
    assert "DAG on_demand is paused" in paused
    assert "dags unpause on_demand" in paused
    assert waiting.endswith("queued, not planned yet")


def test_giving_up_says_that_the_run_goes_on_and_how_to_follow_it(
    airflow: Airflow, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag_run, "GIVE_UP_S", 0.2)
    airflow.status = 503
    with api(airflow) as client, pytest.raises(UserError) as error:
        dag_run.DagRunFollower(client, spool, DAG_RUN).follow()
    assert f"The run continues. Follow the run: nightbench run --follow {DAG_RUN}" in str(
        error.value
    )


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_run_whose_start_is_not_answered_is_started_once(
    airflow: Airflow, capsys: pytest.CaptureFixture[str], lost: int
) -> None:
    airflow.answers_lost = lost
    with api(airflow) as client:
        dag_run_id = dag_run.trigger(client, {"suite": "demo"}, note="")
        another = dag_run.trigger(client, {"suite": "demo"}, note="")
    assert airflow.started == [dag_run_id, another]
    said = capsys.readouterr().out
    assert said.count("It is not known whether the run was started; asking again") == (lost > 0)


def test_giving_up_to_start_a_run_says_how_to_follow_it_if_it_was(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag_run, "GIVE_UP_S", 0.2)
    airflow.answers_lost = 10**6
    with api(airflow) as client, pytest.raises(UserError) as error:
        dag_run.trigger(client, {"suite": "demo"}, note="")
    (dag_run_id,) = airflow.started
    assert str(error.value).endswith(f"nightbench run --follow {dag_run_id}")


def test_a_refusal_for_good_is_told_at_once(airflow: Airflow, spool: Spool) -> None:
    airflow.status = 403
    with api(airflow) as client, pytest.raises(UserError, match="403") as error:
        dag_run.DagRunFollower(client, spool, DAG_RUN).follow()
    assert not isinstance(error.value, AirflowUnavailable)


def test_a_run_that_nobody_knows_is_named(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.common, "spool", lambda: spool)
    with pytest.raises(UserError, match='found "gone"'):
        run.follow_run("gone")


NO_RUNS = ["nope", "", ".", "../dags", "a/b", "x" * 5000, "\x1b[31m", "a\nb"]


@pytest.mark.parametrize("name", NO_RUNS)
def test_what_is_no_run_is_named_in_one_sentence(airflow: Airflow, spool: Spool, name: str) -> None:
    with api(airflow) as client, pytest.raises(UserError) as raised:
        dag_run.DagRunFollower(client, spool, name).follow()
    said = str(raised.value)
    assert said.startswith('run: found "')
    assert "nor a run of Airflow's DAG on_demand" in said
    assert len(said) < 400
    assert said.isprintable()


def test_a_run_that_airflow_has_forgotten_has_its_results(airflow: Airflow, spool: Spool) -> None:
    airflow.status = 404
    said = 'found "manual__1", which Airflow no longer has; see `nightbench results --run demo-1`'
    with api(airflow) as client, pytest.raises(UserError, match=said):
        dag_run.DagRunFollower(client, spool, DAG_RUN).follow()
