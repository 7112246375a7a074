"""What an alert says."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from nightbench.alerts import News, message
from nightbench.model import HistoryPoint, Run, RunKind, Verdict, VerdictKind

RUN = Run("demo-20260301T010000-0000", "demo", "local", RunKind.NIGHTLY,
          datetime(2026, 3, 1, 1, tzinfo=UTC))  # fmt: skip
FALL = News(
    Verdict("resnet50", "local", RUN.run_id, VerdictKind.REGRESSED, "90 is 10.0% below.", 90.0,
            100.0, -0.1, 20),
    unit="images",
    since=datetime(2026, 2, 27, 1, tzinfo=UTC),
    last_good=HistoryPoint(datetime(2026, 2, 26, 1, tzinfo=UTC), 100.25, "demo-20260226"),
)  # fmt: skip
FAILURE = News(Verdict("ctr", "local", RUN.run_id, VerdictKind.FAILED, "n2 does not answer"))


def test_fall_says_what_how_much_since_when_and_where():
    said = message(RUN, "benchmarks", [FALL], link="http://localhost:8080/run")
    assert said.title == "Nightbench demo on local: resnet50 regressed by 10.0%"
    assert said.body == (
        "resnet50 on local: regressed by 10.0%\n"
        "90 is 10.0% below.\n"
        "- tonight: 90 images/s\n"
        "- baseline: 100 images/s\n"
        "- since: 2026-02-27 01:00 UTC\n"
        "- last good: 100.25 images/s on 2026-02-26, run demo-20260226\n"
        "\n"
        "Run: demo-20260301T010000-0000 (nightly), suite demo, owner benchmarks\n"
        "Results: http://localhost:8080/run"
    )


def test_failure_has_its_reason_and_no_figures():
    said = message(RUN, "benchmarks", [FAILURE])
    assert said.title == "Nightbench demo on local: ctr failed"
    assert said.body.startswith(
        "ctr on local: failed\nn2 does not answer\n- since: 2026-03-01 01:00 UTC\n\nRun: "
    )
    assert "baseline" not in said.body
    assert "Results" not in said.body


def test_all_news_of_a_run_is_one_message():
    other = replace(FALL, verdict=replace(FALL.verdict, case_id="resnet101"))
    said = message(RUN, "benchmarks", [FALL, FAILURE, other], resolved=["bert"])
    assert said.title == "Nightbench demo on local: 2 regressed, 1 failed"
    assert [said.body.index(name) for name in ("resnet50", "ctr", "resnet101", "bert")] == sorted(
        said.body.index(name) for name in ("resnet50", "ctr", "resnet101", "bert")
    )


def test_recovery_alone_is_told():
    said = message(RUN, "benchmarks", [], resolved=["bert", "ctr"])
    assert said.title == "Nightbench demo on local: 2 resolved"
    assert said.body.startswith("Resolved:\n- bert\n- ctr\n\nRun: ")


def test_nothing_to_say_is_an_error():
    with pytest.raises(ValueError, match="neither news nor"):
        message(RUN, "benchmarks", [])
