"""What may be asked to be compared, and when nights leave room for it."""

from __future__ import annotations

import functools
import hashlib
import io
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

import pytest
from tests.recording import away

from nightbench.accept import states
from nightbench.config.compare_builds import fetch_wheel, planned_build, uploaded
from nightbench.config.experiment_requests import BisectRequest, CompareRequest
from nightbench.config.run_request import RunRequest
from nightbench.core.errors import UserError
from nightbench.core.expected_nights import NightSchedule
from nightbench.core.model import Catalog, Cluster, ComparePolicy, GitRepository, Suite
from nightbench.core.model.experiments import Experiment, ExperimentKind
from nightbench.experiments import experiment_queue, requests
from nightbench.experiments.experiment_queue import gap
from nightbench.experiments.experiment_spool import request_cancel
from nightbench.experiments.profiles import not_profiled
from nightbench.experiments.record import ExperimentRecord
from nightbench.experiments.requests import checked_bisect, checked_compare
from nightbench.night.scheduled_suites import ScheduledSuite
from nightbench.spool import Spool

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
ASKED = {"a": "fake=1.0", "b": "fake=1.1", "suite": "demo"}
WHEEL = "torch-2.13.0+ci7-cp311-cp311-linux_x86_64.whl"
CONTENT = b"a wheel"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"b": None}, "b: is missing; expected: Build to compare with A"),
        ({"suit": "demo"}, 'suit: found "suit"; expected one of a, b'),
        ({"rounds": 2}, "rounds: found 2; expected a number of at least 3"),
        ({"rounds": True}, "rounds: found true (a switch); expected a whole number"),
        ({"min_effect": 2}, "min_effect: found 2; expected a number of at most 0.5"),
        ({"cases": 1}, "cases: found 1; expected a list"),
        ({"priority": "now"}, 'priority: found "now"; expected one of high, low, normal'),
        ({"note": "two\nlines"}, "note: found"),
        ({"budget_s": 1}, "budget_s: found 1; expected a number of at least 60"),
        ({"fork": "yes"}, 'fork: found "yes"; expected true or false'),
        ({"profile": 1}, "profile: found 1; expected true or false"),
    ],
)
def test_a_field_that_is_wrong_is_named(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match="^" + re.escape(words)):
        CompareRequest.from_params({**ASKED, **changed})


@pytest.fixture(autouse=True, scope="module")
def read_once() -> Iterator[None]:
    """The catalog, which no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "load_catalog", functools.cache(states.load_catalog))
        yield


DEMO = {"a": "pytorch=2.12.0", "b": "pytorch=2.13.0", "suite": "demo", "rounds": 3}


def test_a_request_knows_its_cases_and_what_they_take(tmp_path: Path) -> None:
    row = checked_compare(CompareRequest.from_params(DEMO), away, Spool(tmp_path))
    asked = row["request"]
    assert asked["cases"]
    assert all("-pytorch-" in case_id for case_id in asked["cases"])
    assert (row["cluster"], row["priority"], row["state"]) == ("local", 0, "queued")
    assert row["estimate_s"] > 0
    assert row["profile"] is False
    assert (
        checked_compare(CompareRequest(**DEMO, fork=True), away, Spool(tmp_path))["state"] == "held"
    )


def test_an_image_beside_an_image_on_a_cluster_that_runs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (f"reg/torch@sha256:{digit * 64}" for digit in "12")
    goal = CompareRequest(**{**DEMO, "a": f"pytorch=image:{one}", "b": f"pytorch=image:{two}"})
    asked = requests.resolve_request

    def known(images: dict[str, str]) -> None:
        def resolved(request: RunRequest, catalog: Catalog) -> tuple[Suite, Cluster, Catalog]:
            suite, cluster, known = asked(request, catalog)
            where = cluster.environments.model_copy(update={"images": images})
            may = ComparePolicy(images=("reg/",))
            return suite, replace(cluster, environments=where, compare=may), known

        monkeypatch.setattr(requests, "resolve_request", resolved)

    known({"pytorch": one})
    assert checked_compare(goal, away, Spool(tmp_path))["request"]["b"] == goal.b
    known({})
    with pytest.raises(UserError, match="cluster local does not use images"):
        checked_compare(goal, away, Spool(tmp_path))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"suite": "nosuch"}, "suite"),
        ({"b": "jax=0.4"}, "two builds of one framework line"),
        ({"b": "pytorch=/etc"}, "prefix_roots"),
        ({"b": "pytorch=/tmp/some.whl"}, "expected a wheel below"),
        ({"b": f"pytorch=https://evil.example.org/{WHEEL}"}, "compare.wheel_urls"),
        ({"b": f"pytorch=image:reg/torch@sha256:{'1' * 64}"}, "compare.images"),
        ({"cases": ["nosuch"]}, "case"),
        ({"rounds": 1000}, "compare.person of cluster local"),
    ],
)
def test_what_cannot_be_measured_is_not_queued(
    changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        checked_compare(CompareRequest.from_params({**DEMO, **changed}), away, Spool(tmp_path))


def test_time_that_is_enough_for_some_rounds_is_taken_as_it_is(tmp_path: Path) -> None:
    goal = CompareRequest.from_params({**DEMO, "rounds": 1000, "budget_s": 600})
    assert checked_compare(goal, away, Spool(tmp_path))["estimate_s"] == 600


# --- commits ----------------------------------------------------------------------------------

COMMIT = f"pytorch=commit:torch@{'c' * 40}"
REPOSITORIES = {"torch": GitRepository(url="https://git.example.org/torch.git", recipe=("make",))}


@pytest.mark.parametrize(
    ("b", "words"),
    [
        (COMMIT.replace("torch@", "other@"), "as repository torch"),
        (COMMIT[:-1], "the whole hash of a commit"),
        (COMMIT.replace("c" * 40, "main"), "the whole hash of a commit"),
        (COMMIT.replace("c" * 40, "-" + "c" * 39), "the whole hash of a commit"),
    ],
)
def test_only_whole_commits_of_repositories_of_the_cluster_are_built(b: str, words: str) -> None:
    lab = Cluster("lab", (), compare=ComparePolicy(repositories=REPOSITORIES))
    assert planned_build(COMMIT, lab).line == "pytorch"
    with pytest.raises(UserError, match=words):
        planned_build(b, lab)
    with pytest.raises(UserError, match="repositories, which is empty"):
        planned_build(COMMIT, Cluster("lab", ()))


def test_a_commit_alone_is_compared_with_its_merge_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = CompareRequest.from_params({**DEMO, "a": None, "b": COMMIT})
    assert goal.a == "pytorch=commit:torch@merge-base"
    policy = ComparePolicy(repositories=REPOSITORIES)
    resolve = requests.resolve_request

    def allowing(*given: Any) -> Any:
        suite, cluster, known = resolve(*given)
        return suite, replace(cluster, compare=policy), known

    monkeypatch.setattr(requests, "resolve_request", allowing)
    assert checked_compare(goal, away, Spool(tmp_path))["request"]["a"] == goal.a
    for a, b in ((goal.a, goal.a), (goal.a, "pytorch=2.13.0"), (COMMIT, goal.a)):
        with pytest.raises(UserError, match="merge-base only as A"):
            checked_compare(replace(goal, a=a, b=b), away, Spool(tmp_path))


# --- wheels by address ------------------------------------------------------------------------


class Shelf(BaseHTTPRequestHandler):
    """Serves a wheel below /wheels/, and sends whoever asks below /moved/ elsewhere."""

    def do_GET(self) -> None:
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", f"/wheels/{WHEEL}")
            self.end_headers()
        elif self.path == f"/wheels/{WHEEL}":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CONTENT)
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Cluster]]:
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), Shelf) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        allowed = ComparePolicy(wheel_urls=(f"{address}/wheels/", f"{address}/moved/"))
        try:
            yield address, Cluster("lab", (), compare=allowed)
        finally:
            server.shutdown()
            thread.join()


def nothing_sent(sha256: str, name: str) -> IO[bytes]:
    raise AssertionError(f"{sha256}/{name} is asked for")


def test_a_wheel_that_was_sent_is_fetched_from_the_spool_and_goes_after_its_time(
    shelf: tuple[str, Cluster], tmp_path: Path
) -> None:
    _, cluster = shelf
    uploads, digest = Spool(tmp_path / "spool").uploads, hashlib.sha256(CONTENT).hexdigest()
    text = f"pytorch=upload:{digest}/{WHEEL}"
    assert planned_build(text, cluster).version == "2.13.0+ci7"
    with pytest.raises(UserError, match="found no uploaded wheel"):
        fetch_wheel(text, cluster, uploads.open)
    uploads.keep(digest, WHEEL, io.BytesIO(CONTENT))
    assert uploads.size() == len(CONTENT)
    place = Path(fetch_wheel(text, cluster, uploads.open).partition("=")[2])
    assert (place.read_bytes(), place.parent.name) == (CONTENT, digest[:16])
    now = datetime.now(UTC)
    assert uploads.expire(now - timedelta(days=1)) == []
    assert [path.name for path in uploads.expire(now + timedelta(days=1))] == [WHEEL]
    assert not any((tmp_path / "spool/uploads").iterdir())
    # What lies under a digest that is not its own reaches no node.
    uploads.keep("0" * 64, WHEEL, io.BytesIO(CONTENT))
    with pytest.raises(UserError, match="expected the stated one"):
        fetch_wheel(f"pytorch=upload:{'0' * 64}/{WHEEL}", cluster, uploads.open)


def test_a_wheel_of_an_allowed_address_is_kept_by_its_digest(shelf: tuple[str, Cluster]) -> None:
    address, cluster = shelf
    digest = hashlib.sha256(CONTENT).hexdigest()
    text = f"pytorch={address}/wheels/{WHEEL}#sha256={digest}"
    assert planned_build(text, cluster).version == "2.13.0+ci7"
    line, _, place = fetch_wheel(text, cluster, nothing_sent).partition("=")
    assert (line, Path(place).name, Path(place).parent.name) == ("pytorch", WHEEL, digest[:16])
    assert Path(place).read_bytes() == CONTENT
    assert fetch_wheel(text, cluster, nothing_sent) == f"{line}={place}"
    assert planned_build(f"{line}={place}", cluster).source == "wheel"  # a form may name it now
    assert [each.name for each in Path(place).parents[1].iterdir()] == [digest[:16]]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"elsewhere/{WHEEL}", "compare.wheel_urls|expected a wheel"),
        (f"wheels/../elsewhere/{WHEEL}", "expected a wheel"),
        (f"wheels/%2e%2e/{WHEEL}", "expected a wheel"),
        ("wheels/install.sh", "expected a wheel"),
        (f"moved/{WHEEL}", "cannot be fetched: HTTP Error 302"),
        (f"wheels/other-{WHEEL}", "cannot be fetched: HTTP Error 404"),
        (f"wheels/{WHEEL}#sha256={'0' * 64}", "expected the stated one"),
    ],
)
def test_any_other_address_is_refused(
    shelf: tuple[str, Cluster], path: str, words: str, tmp_path: Path
) -> None:
    address, cluster = shelf
    with pytest.raises(UserError, match=words):
        fetch_wheel(f"pytorch={address}/{path}", cluster, nothing_sent)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


# --- gaps -------------------------------------------------------------------------------------


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setattr(experiment_queue, "cluster_of", lambda name: Cluster(name, ()))
    return Spool(tmp_path)


def night_of(cluster: str) -> ScheduledSuite:
    return ScheduledSuite("nightly", cluster, "tests", NightSchedule("0 22 * * *"))


def test_what_begins_ends_before_the_next_night_of_the_cluster(spool: Spool) -> None:
    assert gap("local", [night_of("local")], spool, NOW).until == NOW.replace(hour=22)
    assert gap("other", [night_of("local")], spool, NOW).until is None


@pytest.mark.parametrize(
    ("changed", "goes_on"),
    [
        ({}, True),
        ({"cluster": "other"}, False),
        ({"run_kind": "on_demand"}, False),
        ({"started_at": str(NOW - timedelta(days=2))}, False),
    ],
)
def test_a_night_that_goes_on_goes_first(
    spool: Spool, changed: dict[str, Any], goes_on: bool
) -> None:
    night = {"cluster": "local", "run_kind": "nightly", "started_at": str(NOW), **changed}
    run = spool.run("nightly-20261102T120000-0a1b")
    run.save_run(night)
    found = gap("local", [], spool, NOW)
    assert ("is in progress" in found.why_not) == goes_on
    run.save_loaded({})
    assert gap("local", [], spool, NOW).why_not == ""


def test_the_hours_of_the_cluster_hold(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    where = Cluster("local", (), window="20:00-06:00 UTC")
    monkeypatch.setattr(experiment_queue, "cluster_of", lambda _: where)
    assert "allows measuring only at 20:00-06:00 UTC" in gap("local", [], spool, NOW).why_not
    late = NOW.replace(hour=23)
    assert gap("local", [], spool, late).until == datetime(2026, 11, 3, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("stopped", "budget_s", "expected"),
    [
        (None, None, ("done", "")),
        ("no time", None, ("queued", "no time")),
        ("no time", 40.0, ("done", "its budget of 40 s is used up")),
        ("no time", 500.0, ("queued", "no time")),
    ],
)
def test_what_a_gap_was_too_short_for_goes_back_into_the_queue(
    spool: Spool, stopped: str | None, budget_s: float | None, expected: tuple[str, str]
) -> None:
    folder, asked = spool.comparison("compare-1"), ("demo", "local", "ada")
    more = {"budget_s": budget_s, "spent_s": 40.0, "dag_run_id": "run-1"}
    experiment = Experiment("compare-1", ExperimentKind.COMPARE, {}, *asked, **more)
    record = ExperimentRecord(experiment, away, print)
    assert record.finished(folder, stopped) == expected
    # At a terminal no DAG run goes on with it.
    alone = ExperimentRecord(replace(experiment, dag_run_id=None), away, print)
    assert alone.finished(folder, stopped)[0] == expected[0].replace("queued", "cancelled")
    request_cancel(folder, "cancelled by the user")
    assert record.finished(folder, stopped)[0] == "cancelled"


def test_what_a_profile_lacks_has_a_line_for_everybody() -> None:
    whole = {"case_id": "one", "why": None}
    lost = {"case_id": "two", "why": "B has no profile: n1: /home/ada", "kind": "B: process exited"}
    assert not_profiled({"cases": [whole]}) == ""
    first, _, more = not_profiled({"cases": [whole, lost]}).partition("\n")
    assert first == "no profile of two: B: process exited"
    assert more == "two: B has no profile: n1: /home/ada"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"good": ""}, "good: found nothing; expected an alert, or a case, a good"),
        ({"suite": ""}, "suite: found nothing"),
        ({"case_id": "nosuch"}, "case"),
        ({"budget_s": 9 * 3600.0}, "compare.person of cluster local"),
    ],
)
def test_a_bisect_that_cannot_be_measured_is_not_queued(
    changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    demo = checked_compare(CompareRequest(**DEMO), away, Spool(tmp_path))
    asked = BisectRequest(demo["request"]["cases"][0], "demo", good="2.12.0", bad="2.13.0")
    row = checked_bisect(asked, away)
    assert (row["kind"], row["cluster"], row["estimate_s"]) == ("bisect", "local", 4 * 3600.0)
    with pytest.raises(UserError, match=words):
        checked_bisect(replace(asked, **changed), away)


@pytest.mark.parametrize("more", [".exe", " extra", "/../../x"])
def test_what_follows_the_name_of_a_sent_wheel_is_refused(more: str) -> None:
    sent = f"torch=upload:{'0' * 64}/torch-1.0-py3-none-any.whl"
    assert uploaded(sent) == ("0" * 64, "torch-1.0-py3-none-any.whl")
    assert uploaded(sent + more) is None
