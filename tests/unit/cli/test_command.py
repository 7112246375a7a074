"""The command: help, messages without tracebacks, plans and validation without a control plane."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests import command

from nightbench.cli import main as commands
from nightbench.cli.common import words

REPO = Path(__file__).resolve().parents[3]
CLUSTER = """\
cluster: pair
nodes:
  - hosts: 127.0.0.[2-3]
    ssh_conn_id: nowhere
"""
SUITE = """\
suite: trial
owner: tests
cluster: pair
scale: smoke
protocol: {warmup_steps: 1, measured_steps: 5, repeats: 2}
matrix:
  - workload: sleep
    frameworks: fake
    strategy: collective
    devices: [1x1, 2x1]
    batch_size_per_device: 2
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in (("clusters/pair.yaml", CLUSTER), ("suites/trial.yaml", SUITE)):
        path = tmp_path / "dags" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path


def nightbench(place: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, with more environment."""
    env = {
        **os.environ,
        "NIGHTBENCH_HOME": str(place / "home"),
        "NIGHTBENCH_DAGS": str(place / "dags"),
        **more,
    }
    env.pop("NIGHTBENCH_WAREHOUSE", None)
    return command.run(*argv, env=env, cwd=place)


def test_a_command_that_never_ends_is_given_up_and_a_server_that_died_is_replaced(
    place: Path,
) -> None:
    os.mkfifo(place / "never.yaml")
    env = {**os.environ, "NIGHTBENCH_DAGS": str(place / "dags")}
    with pytest.raises(subprocess.TimeoutExpired):
        command.run("plan", str(place / "never.yaml"), env=env, cwd=place, timeout_s=1)
    command._server().shutdown(socket.SHUT_RDWR)
    assert nightbench(place, "plan", "trial").returncode == 0


def test_a_plan_needs_nothing_that_runs(place: Path) -> None:
    done = nightbench(place, "plan", "trial", "--cluster", "pair", "--json")
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout)
    assert one["case_id"] == "sleep-fake-collective-1x1-bs2-smoke"
    assert two["on"] == {"trainer-0": "127.0.0.2", "trainer-1": "127.0.0.3"}
    assert two["estimate_s"] is None
    assert not (place / "home").exists()


def test_the_plan_for_people_says_that_there_is_no_history(place: Path) -> None:
    done = nightbench(place, "plan", "trial")
    assert "sleep-fake-collective-2x1-bs2-smoke" in done.stdout
    assert "2 cases on pair, one after another; no history yet" in done.stdout


INTERRUPTED = """\
import os, signal, sys

class Interrupts:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from nightbench.cli.entry import main
main()
"""


def test_ctrl_c_while_the_command_is_imported_prints_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "runs"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_error_holds_no_control_characters(place: Path) -> None:
    done = nightbench(place, "plan", "\x1b[31mred\u202e")
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr
    assert r"\x1b[31mred\u202e" in done.stderr


@pytest.mark.parametrize("word", ["--direct", "--repeats=3", "--night"])
def test_a_followed_run_takes_no_other_option(place: Path, word: str) -> None:
    done = nightbench(place, "run", "--follow", "trial-1", word)
    assert done.returncode == 2
    assert "cannot be combined" in done.stderr


def test_validation_says_everything_that_is_wrong(place: Path) -> None:
    assert nightbench(place, "validate").returncode == 0
    (place / "dags/suites/trial.yaml").write_text(SUITE.replace("fake", "fke").replace("2x1", "2"))
    (place / "dags/clusters/other.yaml").write_text(CLUSTER)
    done = nightbench(place, "validate")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'dags/clusters/other.yaml:1: cluster: found "pair"; expected the name of the file, "other"',
        'dags/suites/trial.yaml:8: matrix[0].frameworks: found "fke"; expected one of '
        + _lines()
        + ' (did you mean "fake"?)',
        "dags/suites/trial.yaml:10: matrix[0].devices[1]: found 2; expected nodes x devices on each"
        ", such as 2x1",
    ]


def _lines() -> str:
    found = (REPO / "benchmarks/frameworks").glob("*/framework.json")
    return ", ".join(sorted(path.parent.name for path in found))


def _scales() -> str:
    found = (REPO / "benchmarks/workloads").glob("*/spec.json")
    return ", ".join(
        sorted({scale for path in found for scale in json.loads(path.read_text())["scales"]})
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("plan", "trail"), 'error: suite: found "trail"; expected trial (did you mean "trial"?)'),
        (("plan", "trial", "-c", "none"), 'error: cluster: found "none"; expected pair'),
        (("plan", "trial", "--frameworks", "tf"), 'error: framework: found "tf"'),
        (
            ("plan", "trial", "--scale", "huge"),
            f'scale: found "huge"; expected one of {_scales()}\n',
        ),
        (("plan", "trial", "--build", "fake"), 'error: build: found "fake"; expected LINE=VERSION'),
        (("run", "trial"), "error: Airflow does not run (state folder"),
        (("run", "trial", "--direct"), "nowhere"),
        (("status",), "error: Nothing was started in"),
        (("results", "--run", "gone"), 'error: run: found "gone"'),
        (("cancel",), "error: RUN: found none; expected the id of a run that has not ended: none"),
        (("import", "gone.csv"), "gone.csv: cannot be read (No such file or directory)"),
        (("db", "migrate"), "There is no warehouse yet"),
    ],
)
def test_what_a_user_can_mend_comes_without_a_traceback(
    place: Path, argv: tuple[str, ...], said: str
) -> None:
    done = nightbench(place, *argv)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_option_is_a_usage_error(place: Path) -> None:
    assert nightbench(place, "run", "trial", "--repeats", "0").returncode == 2


@pytest.mark.parametrize(
    ("argv", "now"),
    [
        (("migrate", "--dsn", "x"), "`nightbench migrate` is now `nightbench db migrate`"),
        (
            ("plan", "trial", "--export", "x"),
            "`nightbench plan --export` is now `nightbench offline",
        ),
    ],
)
def test_a_former_name_names_the_new_one(place: Path, argv: tuple[str, ...], now: str) -> None:
    done = nightbench(place, *argv)
    assert done.returncode == 2
    assert now in done.stderr


def test_words_between_commas() -> None:
    assert words(" a, b,,c ") == ("a", "b", "c")
    assert words("") == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("alert", "ack", "6", "--why", "a\udcffb"),
            r'--why: found "a\xffb", expected UTF-8',
        ),
        (
            ("alert", "assign", "6", "--owner=\udcff"),
            r'found "--owner=\xff", expected UTF-8',
        ),
        (("plan", "\udcff"), r'found "\xff", expected UTF-8'),
        (("drill", "--size", "150%"), "size: "),
    ],
)
def test_words_that_are_no_text_or_no_size_are_refused(
    place: Path, words: tuple[str, ...], said: str
) -> None:
    """Bytes that are no UTF-8 reach Python as halves of surrogate pairs."""
    done = nightbench(place, *words)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {said}")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("argv", "home"),
    [
        (("db", "restore", "a" * 300), "/nowhere"),
        (("offline", "load", "a" * 300), "/nowhere"),
        (("offline", "load", "/dev/null"), "/nowhere"),
        (("plan", "~nobody-here/x.yaml"), "/nowhere"),
        (("run", "demo", "--build", f"pytorch=/{'a' * 300}.whl"), "/nowhere"),
        (("status",), "~nobody-here/x"),
    ],
)
def test_a_path_that_cannot_be_is_a_sentence(
    argv: tuple[str, ...],
    home: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NIGHTBENCH_HOME", home)
    monkeypatch.setattr(sys, "argv", ["nightbench", *argv])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(("error: ", "Nothing was started"))


def test_a_full_disk_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/spool/run.json")

    monkeypatch.setattr(commands, "app", fails)
    monkeypatch.setattr(sys, "argv", ["nightbench", "status"])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("error: /spool/run.json: No space left on device. Make room there, or")
