"""The queue of experiments on a real PostgreSQL, and the API in front of it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.sql.conftest import Database
from tests.sql.page_client import page_client

from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, ComparePolicy
from nightbench.experiments import experiment_queue
from nightbench.experiments.experiment_queue import Gap, take
from nightbench.spool import Spool, write_json
from nightbench.warehouse import MoveRefused, Warehouse, connect
from nightbench.warehouse.experiments import ExperimentDesk, ExperimentRepository
from nightbench.web import PageUser

BEARER = {"Authorization": "Bearer of-a-script"}
CHANGE = "https://git.example.org/pull/7"


ASKED = itertools.count(1)


def asked(commit: str = "", **changed: Any) -> dict[str, Any]:
    request = {
        "a": "fake=1.0",
        "b": "fake=1.1",
        "cases": ["some-case"],
        "rounds": 5,
        "min_effect": 0.01,
        "note": "",
        "change_url": CHANGE if commit else "",
        "change_commit": commit,
        "fork": False,
    }
    request |= {key: changed.pop(key) for key in request.keys() & changed.keys()}
    return {
        "name": f"compare-{next(ASKED)}",
        "kind": "compare",
        "state": "held" if request["fork"] else "queued",
        "request": request,
        "suite": "demo",
        "cluster": "local",
        "budget_s": None,
        "priority": 0,
        "estimate_s": 600.0,
        "profile": False,
    } | changed


def begin(queue: ExperimentRepository, number: int, dag_run_id: str) -> bool:
    return queue.begin(name_of(queue, number), dag_run_id)


def leave(
    queue: ExperimentRepository, number: int, dag_run_id: str, state: str, **more: Any
) -> bool:
    return queue.leave(name_of(queue, number), dag_run_id, state, **more)


def name_of(queue: ExperimentRepository, number: int) -> str:
    return str(queue.find(number)[0]["name"])


@pytest.fixture
def desk(warehouse: Database) -> Any:
    """Requests in a person's name, with the rights of the pages."""
    with closing(connect(warehouse.triage)) as connection:
        yield lambda by: ExperimentDesk(connection, by)


@pytest.fixture
def queue(loader: Warehouse) -> ExperimentRepository:
    return loader.experiments


Desk = Callable[[str], ExperimentDesk]


def states(queue: ExperimentRepository) -> dict[int, str]:
    return {
        row["experiment_id"]: row["state"]
        for row in reversed(queue.find())
        if row["kind"] == "compare"
    }


def test_a_newer_commit_of_a_change_takes_the_place_of_a_queued_one(
    desk: Desk, queue: ExperimentRepository
) -> None:
    first = desk("ada").request(asked("c1"))
    other = desk("bob").request(asked("c1"))
    second = desk("ada").request(asked("c2"))
    assert states(queue) == {first: "cancelled", other: "queued", second: "queued"}
    (was,), (now,) = queue.find(first), queue.find(second)
    assert was["replaced_by"] == second
    assert now["queued_at"] == was["queued_at"]
    assert desk("ada").request(asked("c2")) == second  # a call that is tried again


def test_a_running_one_is_not_replaced(desk: Desk, queue: ExperimentRepository) -> None:
    first = desk("ada").request(asked("c1"))
    assert begin(queue, first, "run-1")
    second = desk("ada").request(asked("c2"))
    assert states(queue) == {first: "running", second: "queued"}


def test_the_form_of_a_task_that_is_tried_again_asks_once(
    warehouse: Database, queue: ExperimentRepository
) -> None:
    with closing(connect(warehouse.loader)) as connection:
        found = {ExperimentDesk(connection, "ada").request(asked(), "manual-1") for _ in range(3)}
    assert len(found) == 1
    assert list(states(queue).values()) == ["queued"]


def test_a_person_has_twenty_in_the_queue_at_most(desk: Desk, queue: ExperimentRepository) -> None:
    for _ in range(20):
        desk("ada").request(asked())
    with pytest.raises(MoveRefused, match="ada has 20 experiments in the queue"):
        desk("ada").request(asked())
    desk("bob").request(asked())
    assert len(states(queue)) == 21


def test_a_fork_waits_for_a_word(desk: Desk, queue: ExperimentRepository) -> None:
    one, two = (desk("ci").request(asked(fork=True)) for _ in range(2))
    assert not begin(queue, one, "run-1")
    assert desk("olga").move(one, "queued") == "held"
    assert desk("olga").move(two, "refused", "not now") == "held"
    assert states(queue) == {one: "queued", two: "refused"}
    assert queue.find(one)[0]["decided_by"] == "olga"
    with pytest.raises(MoveRefused, match="is refused and cannot become queued"):
        desk("olga").move(two, "queued")


def test_one_runs_on_a_cluster_and_ends_once(desk: Desk, queue: ExperimentRepository) -> None:
    one, two = desk("ada").request(asked()), desk("bob").request(asked())
    elsewhere = desk("bob").request(asked(cluster="other"))
    assert begin(queue, one, "run-1")
    assert not begin(queue, one, "run-2")
    assert not begin(queue, two, "run-2")
    assert begin(queue, elsewhere, "run-2")
    # Of its DAG run alone; another one adopts it once.
    assert not leave(queue, one, "run-2", "failed", spent_s=1.0)
    assert queue.adopt(name_of(queue, one), "run-1", "run-3")
    assert not queue.adopt(name_of(queue, one), "run-1", "run-4")
    assert leave(queue, one, "run-3", "queued", spent_s=60.0, why="the night begins")
    assert begin(queue, one, "run-5")
    assert queue.leave(
        name_of(queue, one), "run-5", "done", spent_s=40.0, result={"verdict": "same"}
    )
    (row,) = queue.find(one)
    assert row["spent_s"] == 100.0
    assert (row["verdict"], row["why"]) == ("same", "")
    assert queue.spent() == {("local", "ada"): 100.0, ("other", "bob"): 0.0}


SAME = {"verdict": "same", "cases": []}
PROFILE = {"id": "profile-1", "cases": []}


def profile_of(queue: ExperimentRepository, number: int) -> dict[str, Any]:
    """The newest profile of a comparison."""
    of = name_of(queue, number)
    return next(row for row in queue.find(kinds=["profile"]) if row["of"] == of)


def test_a_profile_is_an_experiment_that_follows_its_comparison(
    desk: Desk, queue: ExperimentRepository, taking: Callable[..., int | None]
) -> None:
    one, other = desk("ada").request(asked("c1", profile=True)), desk("bob").request(asked())
    (now,) = queue.find(one)
    assert (now["state"], now["profile"]) == ("queued", "queued")
    profile = profile_of(queue, one)
    assert profile["estimate_s"] == 600.0 / 5, "a round"
    assert [desk("ada").move(one, "profiled") for _ in range(2)] == ["queued"] * 2
    assert len(queue.find(kinds=["profile"])) == 1, "one is enough"
    assert taking("run-1") == one
    assert queue.leave(now["name"], "run-1", "done", spent_s=300.0, result=SAME)
    # Before anybody else's: nodes and builds are still there.
    assert taking("run-1") == profile["experiment_id"]
    result = {**PROFILE, "sentence": None}
    assert queue.leave(profile["name"], "run-1", "done", spent_s=20.0, result=result, why="slow")
    (ended,) = queue.find(one)
    assert (ended["profile"], ended["profile_why"]) == ("done", "slow")
    assert ended["result"] == {**SAME, "profile": result}
    assert taking("run-1") == other


def test_a_profile_is_cancelled_with_or_without_its_comparison(
    desk: Desk, queue: ExperimentRepository, taking: Callable[..., int | None]
) -> None:
    replaced = desk("ada").request(asked("c1", profile=True))
    one = desk("ada").request(asked("c2", profile=True))
    assert profile_of(queue, replaced)["state"] == "cancelled"
    refused = desk("eve").request(asked(fork=True, profile=True))
    desk("olga").move(refused, "refused")
    assert profile_of(queue, refused)["state"] == "cancelled"
    with pytest.raises(MoveRefused, match="is refused and cannot become profiled"):
        desk("eve").move(refused, "profiled")
    assert taking("run-1") == one
    assert leave(queue, one, "run-1", "done", spent_s=1.0, result=SAME)
    assert desk("ada").move(one, "cancelled", "no need") == "done", "its result stands"
    assert (queue.find(one)[0]["state"], queue.find(one)[0]["profile"]) == ("done", "cancelled")
    assert desk("ada").move(one, "profiled") == "done"
    again = profile_of(queue, one)
    assert taking("run-1") == again["experiment_id"]
    assert desk("ada").move(one, "cancelled", "late") == "done"
    assert queue.find(one)[0]["profile"] == "cancelled", "it ends with its launch"
    found = queue.spend(again["name"], "run-1", 3.0)
    assert found is not None
    assert found["cancelled_by"] == "ada"


def test_seconds_count_for_a_day_after_they_were_measured(
    desk: Desk, queue: ExperimentRepository, warehouse: Database
) -> None:
    done, back = desk("ada").request(asked()), desk("bob").request(asked())
    for one, state in ((done, "done"), (back, "queued")):
        assert begin(queue, one, "run-1")
        assert leave(queue, one, "run-1", state, spent_s=100.0, result=SAME)
    desk("ada").move(done, "profiled")
    # Nobody is freed from a budget by asking for a profile.
    assert queue.spent() == {("local", "ada"): 100.0, ("local", "bob"): 100.0}
    with closing(connect(warehouse.owner)) as connection, connection.cursor() as cursor:
        cursor.execute("update raw.experiment set spent_at = now() - interval '25 hours'")
        connection.commit()
    assert queue.spent() == {}, "what waits does not wait for itself"


def test_only_the_functions_of_triage_write_for_the_pages(warehouse: Database) -> None:
    with closing(connect(warehouse.triage)) as connection, connection.cursor() as cursor:
        for statement in ("select 1 from raw.experiment", "delete from raw.experiment"):
            with pytest.raises(Exception, match="permission denied"):
                cursor.execute(statement)


# --- who takes what -------------------------------------------------------------------------


@pytest.fixture
def taking(
    warehouse: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int | None]:
    """Take the next request for a DAG run, while others are in a state."""
    monkeypatch.setattr(experiment_queue, "cluster_of", lambda name: Cluster(name, ()))

    def taken(dag_run_id: str, but_not: Sequence[str] = (), **known: str) -> int | None:
        found = take(
            lambda: connect(warehouse.loader),
            Spool(tmp_path),
            dag_run_id,
            known.get,
            lambda: (),
            but_not=but_not,
        )
        return found and found[0].experiment_id

    return taken


def test_a_retry_goes_on_with_what_it_has_taken_and_takes_nothing_else(
    desk: Desk, queue: ExperimentRepository, taking: Callable[..., int | None]
) -> None:
    late, urgent = desk("ada").request(asked()), desk("ada").request(asked(priority=1))
    assert taking("one") == urgent
    assert taking("one") == urgent
    assert taking("two", one="running") is None
    # Its DAG run has failed: another one goes on, under the same id.
    (before,) = queue.find(urgent)
    assert taking("two", one="failed") == urgent
    (after,) = queue.find(urgent)
    assert (after["name"], after["dag_run_id"]) == (before["name"], "two")
    assert queue.leave(
        name_of(queue, urgent), "two", "done", spent_s=1.0, result={"verdict": "same"}
    )
    assert taking("two") == late


def test_what_a_person_said_who_cancelled_a_running_one_stays(
    desk: Desk, queue: ExperimentRepository
) -> None:
    one = desk("ada").request(asked())
    assert begin(queue, one, "run-1")
    desk("bob").move(one, "cancelled", "a typo")
    assert states(queue)[one] == "running", "the launch that goes on is waited for"
    assert queue.leave(
        name_of(queue, one), "run-1", "cancelled", spent_s=1.0, why="its launch has ended"
    )
    (row,) = queue.find(one)
    assert (row["state"], row["cancelled_by"], row["why"]) == ("cancelled", "bob", "a typo")


def test_what_was_cancelled_is_not_put_back_into_the_queue(
    desk: Desk, queue: ExperimentRepository, taking: Callable[..., int | None]
) -> None:
    one = desk("ada").request(asked())
    assert taking("run-1") == one
    desk("ada").move(one, "cancelled", "a typo")
    assert queue.leave(name_of(queue, one), "run-1", "queued", spent_s=1.0, why="the night goes on")
    (row,) = queue.find(one)
    assert (row["state"], row["why"]) == ("cancelled", "a typo")
    assert row["ended_at"] is not None
    assert taking("run-2") is None


def test_what_was_put_back_gives_way_to_the_next_one(
    desk: Desk, queue: ExperimentRepository, taking: Callable[..., int | None]
) -> None:
    first, second = (desk("ada").request(asked()) for _ in range(2))
    assert taking("run-1") == first
    assert queue.leave(name_of(queue, first), "run-1", "queued", spent_s=0.0)
    assert taking("run-1", but_not=[name_of(queue, first)]) == second


def test_what_a_terminal_left_without_a_word_ends_after_a_day(
    desk: Desk, queue: ExperimentRepository, server: Any, warehouse: Database
) -> None:
    one, other = (desk("ada").request(asked()) for _ in range(2))
    for number in (one, other):
        assert queue.begin(name_of(queue, number), None)
    hours = f"case experiment_id when {one} then 25 else 23 end"
    server.execute(
        f"update raw.experiment set spent_at = now() - interval '1 hour' * ({hours})",
        warehouse.name,
    )
    queue.give_up_overdue("gone")
    assert states(queue) == {one: "cancelled", other: "running"}


def test_a_budget_that_is_used_up_lets_others_go_first(
    desk: Desk,
    queue: ExperimentRepository,
    taking: Callable[..., int | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = ComparePolicy(person_s=100)
    monkeypatch.setattr(
        experiment_queue, "cluster_of", lambda name: Cluster(name, (), compare=policy)
    )
    first, second = (desk("ada").request(asked(priority=1)) for _ in range(2))
    assert taking("one") == first
    assert queue.leave(
        name_of(queue, first), "one", "done", spent_s=101.0, result={"verdict": "same"}
    )
    assert taking("one") is None
    bobs = desk("bob").request(asked(priority=-1))
    assert taking("one") == bobs
    assert states(queue)[second] == "queued"


def test_nothing_begins_while_a_night_goes_on(
    desk: Desk, taking: Callable[..., int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    request_id = desk("ada").request(asked())
    monkeypatch.setattr(experiment_queue, "gap", lambda *_: Gap(why_not="the night goes on"))
    assert taking("one") is None
    monkeypatch.setattr(experiment_queue, "gap", lambda *_: Gap())
    assert taking("one") == request_id


def test_a_cluster_that_is_gone_stops_no_other(
    desk: Desk,
    taking: Callable[..., int | None],
    monkeypatch: pytest.MonkeyPatch,
    warehouse: Database,
    tmp_path: Path,
) -> None:
    gone = desk("ada").request(asked())
    assert taking("one") == gone
    other = desk("ada").request(asked(cluster="other"))

    def cluster_of(name: str) -> Cluster:
        if name != "other":
            raise UserError(f"cluster {name}: found no such file")
        return Cluster(name, ())

    monkeypatch.setattr(experiment_queue, "cluster_of", cluster_of)
    taken = take(lambda: connect(warehouse.loader), Spool(tmp_path), "one", {}.get, lambda: ())
    assert taken is not None
    experiment, found = taken
    assert (experiment.experiment_id, found.why_not) == (gone, "cluster local: found no such file")
    assert taking("two", one="running") == other


# --- the API ----------------------------------------------------------------------------------


@pytest.fixture
def app(warehouse: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    def check(given: Mapping[str, Any]) -> dict[str, Any]:
        if given.get("b") == "fake=none":
            raise UserError("b: found fake=none; expected a build")
        return asked(**given)

    return page_client(warehouse, Spool(tmp_path), monkeypatch, check=check)


def test_a_wheel_is_kept_by_its_digest_and_nothing_else_is(app: TestClient, tmp_path: Path) -> None:
    content, name = b"PK not a real wheel", "torch-2.13.0+ci7-py3-none-any.whl"
    sha256 = hashlib.sha256(content).hexdigest()
    address = f"/api/comparisons/wheels/{name}?sha256={sha256}"
    bearer = {"Authorization": "Bearer x"}
    sent = app.post(address, content=content, headers=bearer)
    assert (sent.status_code, sent.json()["build"]) == (201, f"upload:{sha256}/{name}")
    assert (tmp_path / "uploads" / sha256 / name).read_bytes() == content
    assert app.post(address, content=content, headers=bearer).status_code == 201
    for wrong, words in (
        (address.replace(sha256, "0" * 64), "expected 0000"),
        (address.replace(".whl", ".sh"), "expected the name of a wheel"),
        (address.replace(sha256, "../.."), "sha256"),
    ):
        refused = app.post(wrong, content=content, headers=bearer)
        assert refused.status_code == 422
        assert words in refused.text
    assert app.post(address, content=content).status_code == 403, "another site may have sent it"
    kept = [path.name for path in (tmp_path / "uploads").rglob("*") if path.is_file()]
    assert kept == [name]


def test_a_request_is_queued_shown_cancelled_and_commented(app: TestClient) -> None:
    found = app.post("/api/comparisons", headers=BEARER, json={"commit": "c1"})
    assert found.status_code == 202
    state = found.json()
    assert (state["state"], state["conclusion"], state["place"]) == ("queued", "pending", 1)
    assert state["requested_by"] == "ada"
    assert datetime.fromisoformat(state["starts_at"]).tzinfo
    assert state["links"]["comment"].endswith(f"/comparisons/{state['experiment_id']}/comment.md")
    one = f"/api/comparisons/{state['experiment_id']}"
    assert app.get(one).json()["headline"].startswith("In the queue; expected to begin about")
    assert "In the queue" in app.get(f"{one}/comment.md").text
    assert app.get(f"{one}/result.json").status_code == 404
    assert "skipped" in app.get(f"{one}/junit.xml").text
    second = app.post("/api/comparisons/estimate", headers=BEARER, json={}).json()
    assert (second["place"], second["estimate_s"]) == (2, 600.0)
    ended = app.post(f"{one}/cancel", headers=BEARER, json={"why": "a typo"}).json()
    assert (ended["state"], ended["headline"]) == ("cancelled", "Cancelled: a typo")
    again = app.post(f"{one}/cancel", headers=BEARER, json={})
    assert again.status_code == 409
    listed = app.get("/api/experiments?kind=compare&state=cancelled").json()["items"]
    assert [each["experiment_id"] for each in listed] == [state["experiment_id"]]
    assert app.get("/api/experiments?kind=compare&state=queued").json()["items"] == []


def test_another_persons_is_cancelled_by_an_op_alone(
    warehouse: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def app(user: PageUser) -> TestClient:
        return page_client(warehouse, Spool(tmp_path), monkeypatch, user, check=asked_of)

    def asked_of(given: Mapping[str, Any]) -> dict[str, Any]:
        return asked(**given)

    ada, bob = (app(PageUser(name, may_change=True)) for name in ("ada", "bob"))
    olga = app(PageUser("olga", may_change=True, may_approve=True))
    asks = ada.post("/api/comparisons", headers=BEARER, json={}).json()
    one = f"/api/comparisons/{asks['experiment_id']}"
    assert [each.get(one).json()["may_cancel"] for each in (ada, bob, olga)] == [True, False, True]
    refused = bob.post(f"{one}/cancel", headers=BEARER, json={})
    assert (refused.status_code, "an operator may cancel it" in refused.text) == (403, True)
    assert ada.get(one).json()["state"] == "queued"
    assert olga.post(f"{one}/cancel", headers=BEARER, json={}).json()["state"] == "cancelled"


def test_a_profile_is_asked_for_by_whoever_may_and_shown(
    warehouse: Database,
    queue: ExperimentRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ada, bob = (
        page_client(warehouse, Spool(tmp_path), monkeypatch, PageUser(name, may_change=True))
        for name in ("ada", "bob")
    )
    with closing(connect(warehouse.triage)) as connection:
        request_id = ExperimentDesk(connection, "ada").request(asked())
        foreign = ExperimentDesk(connection, "ada").request(
            asked(a="external=1.0", b="external=1.1")
        )
    found = ada.post(f"/api/comparisons/{foreign}/profile", headers=BEARER, json={})
    assert (found.status_code, "scripts of another program" in found.text) == (422, True)
    one = f"/api/comparisons/{request_id}"
    refused = bob.post(f"{one}/profile", headers=BEARER, json={})
    assert (refused.status_code, "an operator may profile it" in refused.text) == (403, True)
    assert ada.post(f"{one}/profile", headers=BEARER, json={}).json()["profile"] == "queued"
    place = {each["experiment_id"]: each["place"] for each in experiments_of(ada)}
    assert place == {
        foreign: 2,
        request_id: 1,
        profile_of(queue, request_id)["experiment_id"]: None,
    }
    assert ada.get(f"{one}/profile.html").status_code == 404
    begin(queue, request_id, "run-1")
    leave(queue, request_id, "run-1", "done", spent_s=1.0, result=SAME)
    profile = profile_of(queue, request_id)
    assert ada.get(one).json()["conclusion"] == "pending", "its profile is to come"
    queue.begin(profile["name"], "run-1")
    queue.leave(profile["name"], "run-1", "done", spent_s=1.0, result=PROFILE)
    state = ada.get(one).json()
    assert (state["state"], state["may_profile"]) == ("done", True)
    assert state["links"]["profile"].endswith(f"{one}/profile.html".removeprefix("/api"))
    assert ada.get(f"{one}/profile.html").status_code == 404  # the spool has it no more
    head = {"id": "profile-1", "of": "compare-1", "suite": "demo", "cluster": "local"}
    kept = Spool(tmp_path).comparison("profile-1").folder / "profile.json"
    write_json(kept, {**head, "a": "A", "b": "<B>", "cases": []})
    page = ada.get(f"{one}/profile.html")
    assert "&lt;B&gt;" in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "style-src" in page.headers["Content-Security-Policy"]


def experiments_of(client: TestClient) -> list[dict[str, Any]]:
    return list(client.get("/api/experiments").json()["items"])


def test_the_log_of_a_commits_build_is_shown_to_those_who_may(
    app: TestClient, queue: ExperimentRepository, tmp_path: Path
) -> None:
    b = f"toy=commit:tiny@{'c' * 40}"
    request_id = app.post("/api/comparisons", headers=BEARER, json={"b": b}).json()["experiment_id"]
    one = f"/api/comparisons/{request_id}"
    assert app.get(f"{one}/b.log").status_code == 404
    begin(queue, request_id, "run-1")
    uploads = Spool(tmp_path).uploads
    uploads.save_note(name_of(queue, request_id), {"b": {"commit": "c" * 40, "build": "tiny-c"}})
    uploads.save_log("tiny-c", b"$ make\nno compiler\n")
    assert [name for name in app.get(one).json()["links"] if "log" in name] == ["b_log"]
    assert app.get(f"{one}/b.log").text == "$ make\nno compiler\n"
    assert app.get(f"{one}/a.log").status_code == 404
    assert app.get(f"{one}/c.log").status_code == 422


def test_budgets_stand_beside_what_was_measured(
    app: TestClient, queue: ExperimentRepository
) -> None:
    assert app.get("/api/comparisons/budgets").json() == {"items": []}
    request_id = app.post("/api/comparisons", headers=BEARER, json={}).json()["experiment_id"]
    begin(queue, request_id, "run-1")
    queue.spend(name_of(queue, request_id), "run-1", 90.0)
    (local,) = app.get("/api/comparisons/budgets").json()["items"]
    assert (local["cluster"], local["spent_s"], local["day_s"]) == ("local", 90.0, 12 * 3600.0)
    assert local["people"] == {"ada": 90.0}


def test_what_a_killed_worker_has_measured_counts(desk: Desk, queue: ExperimentRepository) -> None:
    one = desk("ada").request(asked())
    begin(queue, one, "run-1")
    queue.spend(name_of(queue, one), "run-1", 30.0)
    queue.spend(name_of(queue, one), "another", 1000.0)
    assert queue.adopt(name_of(queue, one), "run-1", "run-2")
    leave(queue, one, "run-2", "failed", spent_s=12.0)
    assert queue.spent() == {("local", "ada"): 42.0}


def test_the_answer_is_a_table_a_document_and_a_test(
    app: TestClient, queue: ExperimentRepository
) -> None:
    request_id = app.post("/api/comparisons", headers=BEARER, json={}).json()["experiment_id"]
    case = {
        **dict.fromkeys(("case_id", "unit"), "some-case"),
        **{"verdict": "slower", "sentence": "B is slower", "ratio": 0.9, "low": 0.88},
        **{"high": 0.92, "level": 0.95, "n": 5, "dropped": [], "stopped": None},
    }
    document = {
        **{"verdict": "slower", "cases": [case], "min_effect": 0.01, "rounds": 5},
        **{"combined": None, "not_combined": None, "shared": True},
    }
    begin(queue, request_id, "run-1")
    leave(queue, request_id, "run-1", "done", spent_s=1.0, result=document)
    one = f"/api/comparisons/{request_id}"
    state = app.get(one).json()
    assert (state["verdict"], state["conclusion"]) == ("slower", "failure")
    assert state["links"]["page"].endswith(f"/plugin/benchmarks/experiments/{state['name']}")
    text = app.get(f"{one}/comment.md")
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "**slower** | - | 0.9000 | 0.8800 to 0.9200 | 5" in text.text
    assert app.get(f"{one}/result.json").json() == document
    assert 'failures="1"' in app.get(f"{one}/junit.xml").text


def test_what_cannot_be_measured_or_was_not_meant_is_refused(app: TestClient) -> None:
    bad = app.post("/api/comparisons", headers=BEARER, json={"b": "fake=none"})
    assert (bad.status_code, bad.json()["detail"]) == (422, "b: found fake=none; expected a build")
    assert app.post("/api/comparisons", json={}).status_code == 403  # a cookie, from elsewhere
    assert app.get("/api/experiments?kind=compare&state=unknown").status_code == 422
    for path in ("", "/comment.md", "/result.json", "/junit.xml"):
        assert app.get(f"/api/comparisons/99{path}").status_code == 404
    assert app.post("/api/comparisons/99/cancel", headers=BEARER, json={}).status_code == 404
    assert app.get("/api/experiments?kind=compare").json() == {"items": []}
