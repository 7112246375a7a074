"""A CI's job that asks for a comparison, as a process of its own, against the APIs on loopback."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.forges import (
    AIRFLOW_PASSWORD,
    AIRFLOW_TOKEN,
    BOT,
    FORGE_TOKEN,
    PROJECT_BOT,
    SECRETS,
    Answer,
    Play,
    played,
    refused,
)

from nightbench.spool import Spool

REPO = Path(__file__).resolve().parents[2]
SCRIPT = REPO / ".github" / "actions" / "compare" / "compare.py"
ACTION = yaml.safe_load((SCRIPT.parent / "action.yml").read_text())
(STEP,) = ACTION["runs"]["steps"]
ONE, TWO = "c1" * 20, "c2" * 20
WHAT = {"a": "pytorch=2.12.0", "b": "pytorch=2.13.0", "suite": "demo"}
LIMITED = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}


def step(inputs: dict[str, str]) -> dict[str, str]:
    """The environment of the action's step, as a runner fills it in."""
    unknown = set(inputs) - set(ACTION["inputs"])
    assert not unknown
    given = {name: about.get("default") for name, about in ACTION["inputs"].items()} | inputs
    given = {name: FORGE_TOKEN if v == "${{ github.token }}" else v for name, v in given.items()}
    names = {
        variable: re.fullmatch(r"\${{ inputs\.([a-z-]+) }}", value)[1]  # type: ignore[index]  # all match
        for variable, value in STEP["env"].items()
    }
    assert set(names.values()) == set(ACTION["inputs"])
    return {variable: str(given[name]) for variable, name in names.items()}


@dataclass
class Job:
    """The script in a runner's environment."""

    folder: Path
    environment: dict[str, str]
    command: tuple[str, ...] = (sys.executable, "-I", str(SCRIPT))
    process: subprocess.Popen[str] | None = None
    output: str = field(default="", init=False)

    def start(self, *arguments: str) -> Job:
        self.process = subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def end(self) -> int:
        """Wait for its end; nothing that it leaves may hold a secret."""
        assert self.process is not None
        self.output, _ = self.process.communicate(timeout=120)
        files = [path.read_text() for path in self.folder.rglob("*") if path.is_file()]
        for text in (self.output, *(text for text in files if '"pull_request"' not in text)):
            assert not [secret for secret in SECRETS if secret in text], text
        assert "Traceback" not in self.output, self.output
        return self.process.returncode

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    with played(Spool(tmp_path / "spool")) as made:
        yield made
        assert not [secret for c in made.comments for secret in SECRETS if secret in c["body"]]


Start = Callable[..., Job]


@pytest.fixture
def jobs(tmp_path: Path, play: Play) -> Iterator[Callable[..., Job]]:
    """Makes a job that does not outlive the test."""
    with ExitStack() as stack:

        def made(name: str, environment: dict[str, str]) -> Job:
            folder = tmp_path / name
            folder.mkdir()
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            job = Job(folder, {"NIGHTBENCH_PACE": "0.003", **environment, "PATH": path})

            def kill() -> None:
                if job.process and job.process.poll() is None:
                    job.process.kill()
                    job.process.communicate()

            stack.callback(kill)
            return job

        yield made


@pytest.fixture
def github(tmp_path: Path, play: Play, jobs: Callable[..., Job]) -> Start:
    """Starts the job of a commit of pull request 7."""

    def started(
        commit: str = ONE,
        event: Any = None,
        call_s: str = "",
        pace: str = "0.003",
        **inputs: str,
    ) -> Job:
        path = tmp_path / f"event-{commit}.json"
        path.write_text(json.dumps(event or {"pull_request": pull(commit)}))
        given = {"url": f"{play.url}/airflow/", "token": AIRFLOW_TOKEN, **WHAT}
        more = {name.replace("_", "-"): value for name, value in inputs.items()}
        environment = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(SCRIPT.parent),
            "GITHUB_REPOSITORY": "acme/torch",
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_SHA": "0" * 40,  # of a merge that nobody pushed
            "GITHUB_API_URL": f"{play.url}/github",
            "GITHUB_STEP_SUMMARY": str(tmp_path / commit / "summary.md"),
            "GITHUB_OUTPUT": str(tmp_path / commit / "output"),
            "NIGHTBENCH_CALL_S": call_s,
            "NIGHTBENCH_PACE": pace,
        }
        job = jobs(commit, environment | step(given | more))
        run = tmp_path / "step.sh"
        run.write_text(STEP["run"])
        job.command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", str(run))
        return job.start()

    return started


@pytest.fixture
def gitlab(play: Play, jobs: Callable[..., Job]) -> Start:
    """Makes the job of a commit of merge request 7."""

    def made(**more: str) -> Job:
        project = {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": f"{play.url}/gitlab",
            "CI_PROJECT_ID": "5",
            "CI_PIPELINE_ID": "31",
            "CI_COMMIT_SHA": "0" * 40,  # of merged results
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": ONE,
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_ID": "5",
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "5",
            "CI_MERGE_REQUEST_PROJECT_URL": "https://gitlab.example.org/acme/torch",
            "NIGHTBENCH_URL": f"{play.url}/airflow/",
            "NIGHTBENCH_TOKEN": AIRFLOW_TOKEN,
            "NIGHTBENCH_FORGE_TOKEN": FORGE_TOKEN,
            **{f"NIGHTBENCH_{name.upper()}": value for name, value in WHAT.items()},
        }
        return jobs("gitlab", project | more)

    return made


def pull(commit: str, head: str | None = "acme/torch") -> dict[str, Any]:
    return {
        "number": 7,
        "html_url": "https://github.example.org/acme/torch/pull/7",
        "head": {"sha": commit, "repo": head and {"full_name": head}},
    }


def until(condition: Callable[[], object], job: Job) -> None:
    """Wait for what a job is to bring about."""
    ends = time.monotonic() + 120
    while not condition():
        assert job.process is not None
        if job.process.poll() is not None:
            raise AssertionError(f"the job has ended: {job.process.communicate()[0]}")
        assert time.monotonic() < ends
        time.sleep(0.02)


def states(play: Play, commit: str = ONE) -> list[str]:
    return [state for sha, state, _ in play.statuses if sha == commit]


def test_a_check_is_neutral_where_it_is_not_known(play: Play, github: Start) -> None:
    job = github(as_check="true", a="", b=f"pytorch=commit:torch@{ONE}")
    until(lambda: play.statuses, job)
    assert play.queue.rows[1]["a"] == "pytorch=commit:torch@merge-base"
    play.queue.begin(1)
    play.queue.end(1, "inconclusive", "too noisy")
    assert job.end() == 0
    assert [state for _, state, _ in play.statuses][-1] == "neutral"
    assert play.asked("statuses/") == []
    assert {call.path.rpartition("/")[2] for call in play.asked("PATCH .*check-runs")} == {"17"}


# --- the answer ---------------------------------------------------------------------------------


def test_one_comment_goes_from_the_queue_to_a_regression(play: Play, github: Start) -> None:
    job = github(cases="some-case,\n other-case", min_effect="2%", budget="45m", rounds="5")
    until(lambda: "In the queue" in play.comment, job)
    row = play.queue.rows[1]
    assert row["cases"] == ["some-case", "other-case"]
    assert (row["min_effect"], row["budget_s"], row["rounds"]) == (0.02, 2700, 5)
    assert (row["change_commit"], row["is_fork"]) == (ONE, False)
    assert row["change_url"].endswith("/acme/torch/pull/7")
    play.queue.begin(1)
    until(lambda: "It is measured" in play.comment, job)
    until(lambda: "It is measured" in play.statuses[-1][2], job)
    play.queue.end(1, "slower", "##[add-path]/tmp; " + "long " * 40)
    assert job.end() == 1
    assert "| some-case | **slower** |" in play.comment
    assert states(play) == ["pending", "pending", "failure"]
    assert play.statuses[-1][2].endswith("…")
    assert 'failures="1"' in job.text("nightbench-compare/junit.xml")
    assert json.loads(job.text("nightbench-compare/result.json"))["verdict"] == "slower"
    assert "**slower**" in job.text("summary.md")
    assert "request-id=1\nstate=done\nconclusion=failure\nverdict=slower\n" in job.text("output")
    # What people wrote is no command for the runner.
    assert "::error title=Nightbench::B is slower" in job.output
    assert "##[" not in job.output


@pytest.mark.parametrize(
    ("verdict", "why", "settings", "code", "state"),
    [
        ("same", "", {}, 0, "success"),
        ("inconclusive", "", {}, 0, "success"),
        ("slower", "", {"fail_on_regression": "false"}, 0, "success"),
        ("", "torch cannot be imported", {}, 2, "error"),
    ],
)
def test_the_exit_code_and_the_status_say_what_came_of_it(
    play: Play,
    github: Start,
    verdict: str,
    why: str,
    settings: dict[str, str],
    code: int,
    state: str,
) -> None:
    job = github(**settings)
    until(lambda: play.comment, job)
    play.queue.end(1, verdict, why)
    assert job.end() == code
    assert states(play)[-1] == state
    assert (verdict or why) in play.comment


def test_a_wheel_of_the_job_is_sent_and_named_by_its_digest(
    play: Play, github: Start, tmp_path: Path
) -> None:
    wheel = tmp_path / "torch-2.13.0+pr7-py3-none-any.whl"
    wheel.write_bytes(b"PK" * 1_000_000)
    play.instead("POST .*/wheels/", Answer(503))
    job = github(b=f"pytorch=file:{tmp_path}/torch-*.whl")
    until(lambda: play.queue.rows, job)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert play.queue.rows[1]["b"] == f"pytorch=upload:{digest}/{wheel.name}"
    assert play.queue.rows[1]["a"] == "pytorch=2.12.0"
    play.queue.end(1, "same")
    assert job.end() == 0


def test_a_wheel_that_is_not_there_is_named(play: Play, github: Start, tmp_path: Path) -> None:
    job = github(b=f"pytorch=file:{tmp_path}/*.whl")
    assert job.end() == 2
    assert f'NIGHTBENCH_B: found 0 files "{tmp_path}/*.whl"; expected a wheel' in job.output
    assert not play.queue.rows


# --- pushes and forks ---------------------------------------------------------------------------


def test_a_second_push_takes_the_place_of_the_first_and_has_the_comment(
    play: Play, github: Start
) -> None:
    first = github(ONE)
    until(lambda: ONE in play.comment, first)
    second = github(TWO)
    until(lambda: TWO in play.comment, second)
    assert first.end() == 0
    # That of the second may say meanwhile how long it takes.
    told = [said for commit, *said in play.statuses if commit == ONE]
    assert told[-1] == ["success", "Request 2, of a newer commit, took its place"]
    play.queue.end(2, "same")
    assert second.end() == 0
    assert TWO in play.comment
    assert "**same**" in play.comment


def test_the_answer_for_an_older_commit_leaves_the_comment_to_the_newer_one(
    play: Play, github: Start
) -> None:
    first = github(ONE)
    until(lambda: ONE in play.comment, first)
    play.queue.begin(1)
    second = github(TWO)
    until(lambda: TWO in play.comment, second)
    play.queue.end(1, "slower")
    assert first.end() == 1
    assert states(play)[-1] == "failure"
    assert TWO in play.comment
    assert "slower" not in play.comment
    second.process.send_signal(signal.SIGTERM)  # type: ignore[union-attr]  # it runs
    assert second.end() == 130


@pytest.mark.parametrize("head", ["mallory/torch", None])
def test_a_fork_waits_for_a_word(play: Play, github: Start, head: str | None) -> None:
    job = github(event={"pull_request": pull(ONE, head)})
    until(lambda: "comes from a fork" in play.comment, job)
    play.queue.move(1, "refused", "olga", "not now")
    assert job.end() == 0
    assert "An op refused it: not now" in play.comment


def test_the_run_after_a_forks_own_finds_its_pull_request(play: Play, github: Start) -> None:
    play.pulls = [
        {"number": 7, "html_url": "https://x/7", "head": {"label": "mallory:patch", "sha": ONE}}
    ]
    head = {"full_name": "mallory/torch", "owner": {"login": "mallory"}}
    run = {"head_sha": ONE, "head_branch": "patch", "head_repository": head, "pull_requests": []}
    job = github(event={"workflow_run": run})
    until(lambda: "comes from a fork" in play.comment, job)
    play.queue.move(1, "queued", "olga", "")
    play.queue.end(1, "same")
    assert job.end() == 0
    assert states(play)[-1] == "success"


def test_a_push_without_a_pull_request_has_a_status(play: Play, github: Start) -> None:
    job = github(event={"ref": "refs/heads/main"})
    until(lambda: play.statuses, job)
    play.queue.end(1, "same")
    assert job.end() == 0
    assert (play.comments, states(play, "0" * 40)[-1]) == ([], "success")


# --- what goes wrong ----------------------------------------------------------------------------


def test_faults_that_pass_are_waited_for_and_the_comment_stays_one(
    play: Play, github: Start
) -> None:
    play.instead("POST .*/comparisons$", Answer(503, {"detail": "the warehouse is away"}))
    play.instead("POST .*/comparisons$", Answer(502, b"<html>", after=True))
    play.instead("POST .*/comments$", Answer(500, after=True), Answer(403, LIMITED))
    play.instead("POST .*/statuses/", Answer(429, {}, {"Retry-After": "0"}), Answer(502))
    job = github(pace="0.01")
    until(lambda: states(play), job)
    play.instead("GET .*/comparisons/1$", Answer(500), Answer(503), Answer(429))
    play.instead(
        "PATCH ", Answer(403, {}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0"})
    )
    play.queue.end(1, "same")
    assert job.end() == 0
    assert list(play.queue.rows) == [1]
    assert "**same**" in play.comment
    assert states(play)[-1] == "success"


def test_a_comment_that_another_job_wrote_at_the_same_time_stays_the_one(
    play: Play, github: Start
) -> None:
    other = {"id": 1, "body": "<!-- nightbench-compare nightbench 1 -->\nolder", "user": BOT}
    # It is not there yet when this job looks for it, and there when this job has written its own.
    play.instead("GET .*/comments.per_page", Answer(200, []))
    play.comments = [other]
    job = github()
    until(lambda: states(play), job)
    assert "In the queue" in play.comment
    assert len(play.asked("DELETE")) == 1
    play.queue.end(1, "same")
    assert job.end() == 0
    assert play.comments == [other]


def test_the_comment_is_found_among_many_and_that_of_somebody_else_is_left_alone(
    play: Play, github: Start
) -> None:
    text = "<!-- nightbench-compare nightbench 1 -->\nall is well"
    ada = {"login": "ada", "type": "User"}
    play.comments = [
        {"id": at, "body": text if at == 1 else "hm", "user": ada} for at in range(120)
    ]
    play.comments.append({"id": 120, "body": text, "user": BOT})
    job = github()
    until(lambda: states(play), job)
    play.queue.end(1, "slower")
    assert job.end() == 1
    assert len(play.comments) == 121
    assert play.comments[1]["body"] == text
    assert "**slower**" in play.comments[120]["body"]


def test_a_token_that_may_only_read_leaves_the_answer_in_the_job(play: Play, github: Start) -> None:
    play.read_only = True
    job = github()
    until(lambda: play.queue.rows and len(play.asked("statuses")) == 1, job)
    play.queue.end(1, "slower")
    assert job.end() == 1
    assert job.output.count("the comment cannot be written") == 1
    assert "Resource not accessible by integration" in job.output
    assert (play.comments, play.statuses) == ([], [])
    assert "**slower**" in job.text("summary.md")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(401, {"detail": f"unknown token {AIRFLOW_TOKEN}"}), "401 unknown token ***"),
        (Answer(422, {"detail": "suite: found demo"}), "422 suite: found demo"),
        (Answer(302, headers={"Location": "/airflow/elsewhere"}), "leads to /airflow/elsewhere"),
        (Answer(200, b"<html>log in</html>"), "found no JSON; is the address right?"),
    ],
)
def test_what_is_refused_ends_the_job(play: Play, github: Start, answer: Answer, said: str) -> None:
    play.instead("POST .*/comparisons$", answer)
    job = github()
    assert job.end() == 2
    assert said in job.output
    assert states(play) == ["error"]
    # A token follows no redirect.
    assert not play.asked("elsewhere")


def test_a_login_gives_a_token_and_a_new_one_when_it_has_expired(play: Play, github: Start) -> None:
    job = github(token="", user="ci", password=AIRFLOW_PASSWORD)
    until(lambda: states(play), job)
    play.tokens.clear()
    play.tokens.add("airflow-token-of-the-next-day")
    play.queue.end(1, "same")
    assert job.end() == 0
    assert len(play.asked("auth/token")) == 2
    assert "of-the-next-day" not in job.output


def test_a_verdict_does_not_wait_for_its_profile_beyond_the_time_limit(
    play: Play, github: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = play.queue.request

    def profiled(asked: dict[str, Any], by: str) -> int:
        number = request(asked, by)
        play.queue.begin(number)
        play.queue.end(number, "slower")
        play.queue.rows[number] |= {"state": "running", "profile": "after"}
        return number

    monkeypatch.setattr(play.queue, "request", profiled)
    job = github(timeout="0s", profile="true")
    assert job.end() == 1
    assert play.queue.rows[1]["cancelled_by"]
    assert "| some-case | **slower** |" in play.comment
    assert "its profile ends" in play.comment
    assert states(play)[-1] == "failure"


@pytest.mark.slow
def test_an_answer_that_never_comes_ends_with_the_time_limit(play: Play, github: Start) -> None:
    play.instead("GET .*/comparisons/1$", *[Answer(200, hangs_s=6)] * 50)
    job = github(call_s="2", timeout="3s")
    assert job.end() == 2
    assert "timed out" in job.output
    assert play.queue.rows[1]["state"] == "cancelled"
    assert states(play)[-1] == "error"


@pytest.mark.slow
def test_github_that_hangs_does_not_keep_the_answer(play: Play, github: Start) -> None:
    play.instead("/github/", *[Answer(200, hangs_s=6)] * 100)
    job = github(call_s="2")
    until(lambda: play.queue.rows, job)
    play.queue.end(1, "slower")
    assert job.end() == 1
    assert "the change is not told" in job.output


# --- the end of a job ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("runs", [False, True])
def test_a_job_that_is_cancelled_cancels_the_comparison(
    play: Play, github: Start, number: signal.Signals, runs: bool
) -> None:
    job = github()
    until(lambda: states(play), job)
    if runs:
        play.queue.begin(1)
        until(lambda: "It is measured" in play.statuses[-1][2], job)
    assert job.process is not None
    job.process.send_signal(number)
    assert job.end() == 130
    row = play.queue.rows[1]
    assert (row["cancelled_by"], row["why"]) == ("ci", "its job was cancelled")
    assert "It was cancelled" in play.comment
    assert play.statuses[-1] == (ONE, "error", "Not measured: its job was cancelled")


def test_a_signal_while_the_request_is_made_cancels_it(play: Play, github: Start) -> None:
    play.instead("POST .*/comparisons$", Answer(0, after=True, hangs_s=1))
    job = github()
    until(lambda: play.queue.rows, job)
    assert job.process is not None
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130
    assert play.queue.rows[1]["state"] == "cancelled"


# --- GitLab -------------------------------------------------------------------------------------


def test_a_merge_request_has_one_note_and_a_status(play: Play, gitlab: Start) -> None:
    system = {"id": 1, "body": "added 1 commit", "author": {"id": PROJECT_BOT}, "system": True}
    job = gitlab().start()
    until(lambda: "In the queue" in play.comment, job)
    assert play.queue.rows[1]["change_url"].endswith("/acme/torch/-/merge_requests/7")
    play.comments.insert(0, system | {"id": 99})
    play.queue.begin(1)
    until(lambda: "It is measured" in play.comments[1]["body"], job)
    play.queue.end(1, "slower")
    assert job.end() == 1
    assert "**slower**" in play.comments[1]["body"]
    assert states(play) == ["running", "failed"]
    assert 'failures="1"' in job.text("nightbench-compare/junit.xml")


def test_what_comes_after_a_script_that_was_killed_cancels(play: Play, gitlab: Start) -> None:
    job = gitlab().start()
    until(lambda: states(play), job)
    assert job.process is not None
    job.process.kill()
    job.process.communicate()
    assert job.start("cancel").end() == 0
    assert play.queue.rows[1]["state"] == "cancelled"
    # Where nothing is left it asks for nothing.
    calls = len(play.calls)
    assert job.start("cancel").end() == 0
    assert len(play.calls) == calls


def test_a_forks_merge_request_without_a_token_of_gitlab(play: Play, gitlab: Start) -> None:
    fork = {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "6", "NIGHTBENCH_FORGE_TOKEN": ""}
    job = gitlab(**fork).start()
    until(lambda: play.queue.rows, job)
    assert play.queue.rows[1]["state"] == "held"
    play.queue.move(1, "refused", "olga", "")
    assert job.end() == 0
    assert "neither comment nor status" in job.output
    assert not play.asked("/gitlab/")


# --- settings and rules -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": ""}, "NIGHTBENCH_URL: found nothing"),
        ({"url": f"https://ci:{AIRFLOW_PASSWORD}@x"}, "expected https://HOST"),
        ({"token": ""}, "NIGHTBENCH_TOKEN: found nothing"),
        ({"token": f"{AIRFLOW_TOKEN}\nHost: x"}, "NIGHTBENCH_TOKEN: expected one line"),
        ({"timeout": "3"}, 'NIGHTBENCH_TIMEOUT: found "3"; expected a duration'),
        ({"rounds": "many"}, 'NIGHTBENCH_ROUNDS: found "many"; expected a whole number'),
        ({"name": "x -->"}, 'NIGHTBENCH_NAME: found "x -->"'),
        ({"fail_on_regression": "no"}, 'found "no"; expected true or false'),
    ],
)
def test_a_setting_that_cannot_be_is_named(
    play: Play, github: Start, settings: dict[str, str], said: str
) -> None:
    job = github(**settings)
    assert job.end() == 2
    assert said in job.output
    assert not play.calls


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("compare_action", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("headers", "waits_s"),
    [
        ({}, None),
        ({"retry-after": "17"}, 17.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:18:00 GMT"}, 80.0),
        ({"retry-after": "soon"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1100"}, 101.0),
        ({"x-ratelimit-remaining": "9", "x-ratelimit-reset": "1100"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "1100"}, 101.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "900"}, 1.0),
    ],
)
def test_how_long_an_answer_asks_to_wait(
    script: Any, headers: dict[str, str], waits_s: float | None
) -> None:
    assert script.wait_of(headers, 1000.0) == waits_s


def test_a_rate_limit_without_a_time_is_given_minutes_and_a_refusal_none(script: Any) -> None:
    limited = script.fault_of("x", 403, {}, json.dumps(LIMITED).encode())
    assert [limited.pause_s(tries) for tries in range(3)] == [60.0, 120.0, 240.0]
    unavailable = script.fault_of("x", 500, {}, b"")
    assert all(0 < unavailable.pause_s(tries) <= 60 for tries in range(50))
    refusal = script.fault_of("x", 403, {}, refused(403, "Resource not accessible").body and b"{}")
    assert not isinstance(refusal, script.Busy)


def test_the_script_needs_nothing_but_python_3_8() -> None:
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 8))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else _names(node))
    }
    assert names <= sys.stdlib_module_names


def _names(node: ast.Import) -> list[str]:
    return [alias.name for alias in node.names]


def test_action_and_template_set_what_the_script_reads_and_no_shell_reads_a_value() -> None:
    assert "${{" not in STEP["run"]
    call = re.compile(r'\b(?:setting|secret|seconds|number|switched)\(\s*"([A-Z_]+)"')
    read = {*call.findall(SCRIPT.read_text()), "A", "B", "SUITE", "CLUSTER"}
    assert {name.removeprefix("NIGHTBENCH_") for name in STEP["env"]} == read
    template = yaml.safe_load((REPO / ".gitlab" / "compare.gitlab-ci.yml").read_text())
    job = template[".nightbench-compare"]
    assert (REPO / job["variables"]["NIGHTBENCH_SCRIPT"]).samefile(SCRIPT)
    assert job["script"] == ['python3 -I "$NIGHTBENCH_SCRIPT"']
    assert job["after_script"] == ['python3 -I "$NIGHTBENCH_SCRIPT" cancel']
