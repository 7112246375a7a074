"""A CI's job that asks for a comparison, as processes of its own, against the APIs on loopback."""

from __future__ import annotations

import ast
import hashlib
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

import pytest
import yaml
from tests.integration.forges import (
    AIRFLOW_PASSWORD,
    AIRFLOW_TOKEN,
    FORGE_TOKEN,
    PROJECT_BOT,
    SECRETS,
    Answer,
    Play,
    played,
)

from nightbench.spool import Spool

REPO = Path(__file__).resolve().parents[2]
SCRIPT = REPO / ".github" / "actions" / "compare" / "compare.py"
ACTION = yaml.safe_load((SCRIPT.parent / "action.yml").read_text())
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"] if "id" in step}
GITLAB = yaml.safe_load((REPO / ".gitlab" / "compare.gitlab-ci.yml").read_text())
ONE, TWO = "c1" * 20, "c2" * 20
WHAT = {"a": "pytorch=2.12.0", "b": "pytorch=2.13.0", "suite": "demo"}
PULL = "https://github.example.org/acme/torch/pull/7"


@dataclass
class Job:
    """A step at a time in a runner's environment."""

    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[str] | None = None
    output: str = field(default="", init=False)

    def start(self, script: str) -> Job:
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
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
        for text in (self.output, *files):
            assert not [secret for secret in SECRETS if secret in text], text
        assert "Traceback" not in self.output, self.output
        return self.process.returncode

    def ask(self) -> int:
        return self.start(STEPS["ask"]["run"]).end()

    def wait(self) -> Job:
        return self.start(STEPS["wait"]["run"])

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    @property
    def comment(self) -> str:
        return self.text("nightbench-compare/comment.md")

    @property
    def outputs(self) -> dict[str, str]:
        """Those of its newest step."""
        return dict(line.split("=", 1) for line in self.text("output").splitlines())


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    with played(Spool(tmp_path / "spool")) as made:
        yield made


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Callable[..., Job]]:
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
def github(play: Play, jobs: Callable[..., Job]) -> Callable[..., Job]:
    """Makes the job of a commit of pull request 7."""

    def made(commit: str = ONE, fork: str = "false", pace: str = "0.003", **inputs: str) -> Job:
        given = {"url": f"{play.url}/airflow/", "token": AIRFLOW_TOKEN, **WHAT}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        assert set(given) <= set(ACTION["inputs"])
        filled = {name: about.get("default") for name, about in ACTION["inputs"].items()} | given
        environment = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(SCRIPT.parent),
            "GITHUB_STEP_SUMMARY": "summary.md",
            "GITHUB_OUTPUT": "output",
            "NIGHTBENCH_INPUTS": json.dumps(filled),
            "NIGHTBENCH_CHANGE_URL": PULL,
            "NIGHTBENCH_CHANGE_COMMIT": commit,
            "NIGHTBENCH_FORK": fork,
            "NIGHTBENCH_PACE": pace,
        }
        return jobs(commit, environment)

    return made


@pytest.fixture
def gitlab(play: Play, jobs: Callable[..., Job]) -> Callable[..., Job]:
    """Makes the job of a commit of merge request 7."""

    def made(**more: str) -> Job:
        project = {
            "CI_API_V4_URL": f"{play.url}/gitlab",
            "CI_COMMIT_SHA": "0" * 40,  # of merged results
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": ONE,
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_ID": "5",
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "5",
            "NIGHTBENCH_SCRIPT": str(SCRIPT),
            "NIGHTBENCH_URL": f"{play.url}/airflow/",
            "NIGHTBENCH_TOKEN": AIRFLOW_TOKEN,
            "NIGHTBENCH_FORGE_TOKEN": FORGE_TOKEN,
            "NIGHTBENCH_CHANGE_URL": "https://gitlab.example.org/acme/torch/-/merge_requests/7",
            **{f"NIGHTBENCH_{name.upper()}": value for name, value in WHAT.items()},
        }
        return jobs("gitlab", project | more)

    return made


def script(part: str = "script") -> str:
    """What GitLab's runner runs of the template."""
    return "\n".join(GITLAB[".nightbench-compare"][part])


def until(condition: Callable[[], object], job: Job) -> None:
    """Wait for what a job is to bring about."""
    ends = time.monotonic() + 120
    while not condition():
        assert job.process is not None
        if job.process.poll() is not None:
            raise AssertionError(f"the job has ended: {job.process.communicate()[0]}")
        assert time.monotonic() < ends
        time.sleep(0.02)


# --- the answer ---------------------------------------------------------------------------------


def test_a_comment_is_there_from_the_queue_to_a_regression(
    play: Play, github: Callable[..., Job]
) -> None:
    job = github(cases="some-case,\n other-case", min_effect="2%", budget="45m", rounds="5")
    assert job.ask() == 0
    assert "In the queue" in job.comment
    assert (job.outputs["request-id"], job.outputs["conclusion"]) == ("1", "pending")
    row = play.queue.rows[1]
    assert row["cases"] == ["some-case", "other-case"]
    assert (row["min_effect"], row["budget_s"], row["rounds"]) == (0.02, 2700, 5)
    assert (row["change_url"], row["change_commit"], row["fork"]) == (PULL, ONE, False)
    play.queue.begin(1)
    job.wait()
    until(lambda: play.asked("GET .*/comparisons/1$"), job)
    play.queue.end(1, "slower", "##[add-path]/tmp; long")
    assert job.end() == 1
    assert "| some-case | **slower** |" in job.comment
    assert job.text("summary.md") == job.comment
    assert 'failures="1"' in job.text("nightbench-compare/junit.xml")
    assert json.loads(job.text("nightbench-compare/result.json"))["verdict"] == "slower"
    found = {name: job.outputs[name] for name in ("state", "conclusion", "verdict", "replaced")}
    assert tuple(found.values()) == ("done", "failure", "slower", "false")
    assert set(job.outputs) == {*ACTION["outputs"], "replaced"}
    # What people wrote is no command for the runner.
    assert "::error title=Nightbench::B is slower" in job.output
    assert "##[" not in job.output


@pytest.mark.parametrize(
    ("verdict", "why", "settings", "code"),
    [
        ("same", "", {}, 0),
        ("inconclusive", "", {}, 0),
        ("slower", "", {"fail_on_regression": "false"}, 0),
        ("", "torch cannot be imported", {}, 2),
    ],
)
def test_the_exit_code_says_what_came_of_it(
    play: Play,
    github: Callable[..., Job],
    verdict: str,
    why: str,
    settings: dict[str, str],
    code: int,
) -> None:
    job = github(**settings)
    assert job.ask() == 0
    play.queue.end(1, verdict, why)
    assert job.wait().end() == code
    assert (verdict or why) in job.comment


def test_a_wheel_of_the_job_is_sent_and_named_by_its_digest(
    play: Play, github: Callable[..., Job], tmp_path: Path
) -> None:
    wheel = tmp_path / "torch-2.13.0+pr7-py3-none-any.whl"
    wheel.write_bytes(b"PK" * 1_000_000)
    play.instead("POST .*/wheels/", Answer(503))
    assert github(b=f"pytorch=file:{tmp_path}/torch-*.whl").ask() == 0
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert play.queue.rows[1]["b"] == f"pytorch=upload:{digest}/{wheel.name}"
    assert play.queue.rows[1]["a"] == "pytorch=2.12.0"


def test_a_wheel_that_is_not_there_is_named(
    play: Play, github: Callable[..., Job], tmp_path: Path
) -> None:
    job = github(b=f"pytorch=file:{tmp_path}/*.whl")
    assert job.ask() == 2
    assert f'b: found 0 files "{tmp_path}/*.whl"; expected a wheel' in job.output
    assert not play.queue.rows


def test_a_second_push_takes_the_place_of_the_first(play: Play, github: Callable[..., Job]) -> None:
    first, second = github(ONE), github(TWO)
    assert first.ask() == 0
    first.wait()
    assert second.ask() == 0
    assert first.end() == 0
    assert first.outputs["replaced"] == "true"
    assert first.outputs["headline"] == "Replaced by request 2 for a newer commit"
    play.queue.end(2, "same")
    assert second.wait().end() == 0


def test_a_fork_waits_for_approval(play: Play, github: Callable[..., Job]) -> None:
    job = github(fork="true")
    assert job.ask() == 0
    assert "comes from a fork" in job.comment
    play.queue.move(1, "refused", "olga", "not now")
    assert job.wait().end() == 0
    assert "An operator refused the request: not now" in job.comment


# --- what goes wrong ----------------------------------------------------------------------------


def test_nightbench_is_waited_for_while_it_is_away(play: Play, github: Callable[..., Job]) -> None:
    play.instead("POST .*/comparisons$", Answer(503, {"detail": "the warehouse is away"}))
    play.instead("POST .*/comparisons$", Answer(502, b"<html>", after=True))
    job = github(pace="0.01")
    assert job.ask() == 0
    assert "the warehouse is away" in job.output
    play.instead("GET .*/comparisons/1$", Answer(500), Answer(503), Answer(429))
    play.queue.end(1, "same")
    assert job.wait().end() == 0
    assert list(play.queue.rows) == [1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(401, {"detail": "no such token"}), "no such token"),
        (Answer(422, {"detail": "suite: found demo"}), "suite: found demo"),
        (Answer(302, headers={"Location": "/airflow/elsewhere"}), "302 /airflow/elsewhere"),
        (Answer(200, b"<html>log in</html>"), "found no JSON; is the address right?"),
    ],
)
def test_what_is_refused_ends_the_job(
    play: Play, github: Callable[..., Job], answer: Answer, said: str
) -> None:
    play.instead("POST .*/comparisons$", answer)
    job = github()
    assert job.ask() == 2
    assert said in job.output
    # A token follows no redirect.
    assert not play.asked("elsewhere")


def test_a_login_gives_a_token_and_a_new_one_when_it_has_expired(
    play: Play, github: Callable[..., Job]
) -> None:
    job = github(token="", user="ci", password=AIRFLOW_PASSWORD)
    play.tokens = {"first-day"}
    assert job.ask() == 0
    assert job.output.splitlines()[0] == "::add-mask::first-day"
    job.wait()
    until(lambda: len(play.asked("GET .*/comparisons/1$")) > 2, job)
    play.tokens = {"next-day"}
    until(lambda: len(play.asked("auth/token")) == 3, job)
    play.queue.end(1, "same")
    assert job.end() == 0


def test_a_wrong_password_ends_the_job(play: Play, github: Callable[..., Job]) -> None:
    job = github(token="", user="ci", password="guessed")
    assert job.ask() == 2
    assert "Invalid credentials" in job.output
    assert len(play.asked("auth/token")) == 1


def test_a_verdict_does_not_wait_for_its_profile_beyond_the_time_limit(
    play: Play, github: Callable[..., Job]
) -> None:
    job = github(timeout="0s", profile="true")
    assert job.ask() == 0
    play.queue.begin(1)
    play.queue.end(1, "slower")
    play.queue.rows[1] |= {"profile": "running"}
    assert job.wait().end() == 1
    assert play.queue.rows[1]["profile"] == "cancelled"
    assert "| some-case | **slower** |" in job.comment


def test_a_comparison_that_takes_too_long_is_cancelled(
    play: Play, github: Callable[..., Job]
) -> None:
    job = github(timeout="0.1s")
    assert job.ask() == 0
    assert job.wait().end() == 2
    assert "not ended in 0.1s" in job.output
    assert play.queue.rows[1]["state"] == "cancelled"


# --- the end of a job ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("runs", [False, True])
def test_a_job_that_is_cancelled_cancels_the_comparison(
    play: Play, github: Callable[..., Job], number: signal.Signals, runs: bool
) -> None:
    job = github()
    assert job.ask() == 0
    if runs:
        play.queue.begin(1)
    job.wait()
    until(lambda: play.asked("GET .*/comparisons/1$"), job)
    assert job.process is not None
    job.process.send_signal(number)
    assert job.end() == 130
    row = play.queue.rows[1]
    assert (row["cancelled_by"], row["why"]) == ("ci", "its job was cancelled")
    assert "Cancelled" in job.comment


def test_a_signal_while_the_request_is_made_cancels_it(
    play: Play, github: Callable[..., Job]
) -> None:
    play.instead("POST .*/comparisons$", Answer(0, after=True, hangs_s=1))
    job = github().start(STEPS["ask"]["run"])
    until(lambda: play.queue.rows, job)
    assert job.process is not None
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130
    assert play.queue.rows[1]["state"] == "cancelled"


# --- GitLab -------------------------------------------------------------------------------------


def test_a_merge_request_has_one_note(play: Play, gitlab: Callable[..., Job]) -> None:
    """It is found among many; that of another author is left alone."""
    mark = "<!-- nightbench-compare nightbench -->\n"
    play.comments = [
        {"id": at, "body": mark if at == 1 else "hm", "author": {"id": 9}} for at in range(120)
    ]
    job = gitlab().start(script())
    until(lambda: len(play.comments) == 121, job)
    assert play.comments[120]["body"].startswith(mark)
    assert "In the queue" in play.comments[120]["body"]
    assert play.queue.rows[1]["change_url"].endswith("/acme/torch/-/merge_requests/7")
    assert (play.queue.rows[1]["change_commit"], play.queue.rows[1]["fork"]) == (ONE, False)
    play.queue.end(1, "slower")
    assert job.end() == 1
    assert len(play.comments) == 121
    assert play.comments[1]["body"] == mark
    assert "**slower**" in play.comments[120]["body"]
    assert play.comments[120]["author"]["id"] == PROJECT_BOT
    assert 'failures="1"' in job.text("nightbench-compare/junit.xml")


def test_what_comes_after_a_script_that_was_killed_cancels(
    play: Play, gitlab: Callable[..., Job]
) -> None:
    job = gitlab()
    assert job.start('python3 -I "$NIGHTBENCH_SCRIPT" ask').end() == 0
    assert job.start(script("after_script")).end() == 0
    assert play.queue.rows[1]["state"] == "cancelled"
    # Where nothing is left it asks for nothing.
    calls = len(play.calls)
    assert job.start(script("after_script")).end() == 0
    assert len(play.calls) == calls


def test_a_forks_merge_request_without_a_token_of_gitlab(
    play: Play, gitlab: Callable[..., Job]
) -> None:
    job = gitlab(
        CI_MERGE_REQUEST_SOURCE_PROJECT_ID="6",
        CI_MERGE_REQUEST_SOURCE_BRANCH_SHA="",
        NIGHTBENCH_FORGE_TOKEN="",
    ).start(script())
    until(lambda: play.queue.rows, job)
    assert (play.queue.rows[1]["state"], play.queue.rows[1]["change_commit"]) == ("held", "0" * 40)
    play.queue.move(1, "refused", "olga", "")
    assert job.end() == 0
    assert not play.asked("/gitlab/")


# --- settings and rules -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": ""}, "url: expected https://HOST"),
        ({"url": f"https://ci:{AIRFLOW_PASSWORD}@x"}, "url: expected https://HOST"),
        ({"token": ""}, "token: found nothing"),
        ({"rounds": "many"}, 'rounds: found "many"; expected a number'),
        ({"budget": "3"}, 'budget: found "3"; expected a duration'),
    ],
)
def test_a_setting_that_cannot_be_is_named(
    play: Play, github: Callable[..., Job], settings: dict[str, str], said: str
) -> None:
    job = github(**settings)
    assert job.ask() == 2
    assert said in job.output
    assert not play.calls


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


def test_the_script_reads_every_input_and_no_shell_reads_a_value() -> None:
    read = set(re.findall(r'\b(?:setting|seconds|number)\("([a-z-]+)"', SCRIPT.read_text()))
    given = {"change-url", "change-commit", "fork", "forge-token"}
    read |= {"a", "b", "suite", "cluster", "priority", "note", "name"}
    assert read - given == set(ACTION["inputs"]) - {"github-token"}
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert re.fullmatch(r"\S+@[0-9a-f]{40}", step.get("uses", f"x@{ONE}"))
    template = GITLAB[".nightbench-compare"]
    assert (REPO / template["variables"]["NIGHTBENCH_SCRIPT"]).samefile(SCRIPT)
