"""`nightbench compare`: what is wrong on its command line, without a node."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.test_command import CLUSTER, SUITE, nightbench

from nightbench.cli.experiment_common import absolute, pinned

CASE = "sleep-fake-collective-1x1-bs2-smoke"
BUILD = "fake=/some/prefix"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in (
        ("clusters/pair.yaml", CLUSTER),
        ("suites/trial.yaml", SUITE),
        ("suites/twin.yaml", SUITE.replace("suite: trial", "suite: twin")),
    ):
        path = tmp_path / "dags" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([BUILD], "builds: found fewer than two"),
        ([BUILD, BUILD], "expected --case SLUG or --suite NAME"),
        ([BUILD, "nonsense", "--suite", "trial"], "expected LINE=VERSION"),
        ([BUILD, "pytorch=2.13.0", "--suite", "trial"], "two builds of one framework line"),
        ([BUILD, BUILD, "--case", "no-such-case"], "no suite with no-such-case"),
        ([BUILD, BUILD, "--case", CASE], "2 suites (trial, twin)"),
        ([BUILD, BUILD, "--suite", "trial", "--case", "other"], 'case: found "other"'),
        ([BUILD, BUILD, "--suite", "trial", "--min-effect", "much"], "min-effect: found"),
        ([BUILD, BUILD, "--suite", "trial", "--rounds", "2"], "--rounds"),
        (["--resume", "ab-none"], 'compare: the spool has no "ab-none"'),
        (["--resume", "ab-none", "--suite", "trial"], "cannot be combined"),
    ],
)
def test_bad_usage_is_two_since_one_means_slower(place: Path, words: list[str], said: str) -> None:
    done = nightbench(place, "compare", *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_of_ours_is_no_slower_build(place: Path) -> None:
    # A file where the spool's folder should be made: no error that the command knows.
    (place / "home/spool/comparisons").mkdir(parents=True)
    (place / "home/spool/comparisons/ab-broken").mkdir()
    broken = '{"schema": "nightbench.compare/1", "request": {"x": 1}, "left_out": {}}'
    (place / "home/spool/comparisons/ab-broken/run.json").write_text(broken)
    done = nightbench(place, "compare", "--resume", "ab-broken")
    assert done.returncode == 2
    assert "TypeError" in done.stderr


def test_what_is_kept_can_be_said_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "fake-2.0-py3-none-any.whl"
    wheel.touch()
    monkeypatch.chdir(tmp_path)
    assert pinned(f"fake={wheel.name}") == f"fake={wheel}"
    assert [pinned(text) for text in ("fake=2.0", "fake=~/p")] == ["fake=2.0", "fake=~/p"]
    assert absolute("trial.yaml") == str(tmp_path / "trial.yaml")
    assert absolute("trial") == "trial"


def test_help_tells_the_exit_codes(place: Path) -> None:
    said = " ".join(nightbench(place, "compare", "builds", "--help").stdout.split())
    for words in ("BUILD_A", "--min-effect", "--resume", "1: B is slower", "3: inconclusive"):
        assert words in said


@pytest.mark.parametrize(
    ("words", "now"),
    [
        (["ab", BUILD, BUILD], "compare"),
        (["bisect", "17"], "compare bisect"),
        (["profile", "ab-1"], "compare profile"),
        (["alert", "confirm", "12"], "compare confirm"),
    ],
)
def test_a_former_name_says_the_one_of_today(place: Path, words: list[str], now: str) -> None:
    done = nightbench(place, *words)
    assert done.returncode == 2
    assert done.stderr.endswith(f"` is now `nightbench {now}`\n")


def test_the_first_word_may_be_a_build_or_a_subcommand(place: Path) -> None:
    said = nightbench(place, "compare", "--help").stdout
    assert all(f" {word} " in said for word in ("builds", "bisect", "profile", "confirm"))
    assert nightbench(place, "compare", "bisect").returncode == 2
    assert "expected an alert, or a case, a good" in nightbench(place, "compare", "bisect").stderr
