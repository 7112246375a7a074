"""What an alert says."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from nightbench.alerts import AlertItem, EndedAlert, Links, message
from nightbench.core.model import HistoryPoint, Run, RunKind, Verdict, VerdictKind
from nightbench.core.model.alerts import (
    Cause,
    CauseEvidence,
    CauseKind,
    Confirmation,
    ConfirmationResult,
)

RUN = Run("demo-20260301T010000-0000", "demo", "local", RunKind.NIGHTLY,
          datetime(2026, 3, 1, 1, tzinfo=UTC), dag_id="nightbench__demo",
          dag_run_id="scheduled__2026-03-01T01:00:00+00:00")  # fmt: skip
FALL = AlertItem(
    Verdict("resnet50", "local", RUN.run_id, VerdictKind.REGRESSED, "90 is 10.0% below.", 90.0,
            100.0, -0.1, 20, level_change=-0.097, low=-0.104, high=-0.091,
            since=datetime(2026, 2, 27, 1, tzinfo=UTC)),
    unit="images",
    alert_id=7,
    first_bad=HistoryPoint(datetime(2026, 2, 27, 1, tzinfo=UTC), 90.5, "demo-20260227"),
    last_good=HistoryPoint(datetime(2026, 2, 26, 1, tzinfo=UTC), 100.25, "demo-20260226"),
    changes=("pytorch: 2.12.0 -> 2.13.0", "kernel: 6.17 -> 6.18 (on n1, n2)"),
    cause=Cause(CauseKind.FRAMEWORK_VERSION, "pytorch changed, and nothing else.",
                (CauseEvidence("tensorflow2 on the same nodes is steady"),)),
    confirmation=Confirmation(ConfirmationResult.CONFIRMED, "2.13.0 against 2.12.0 on n1.",
                              .903, .9, .907, 7),
    reproduce="nightbench compare pytorch=2.12.0 pytorch=2.13.0 --suite demo --case resnet50",
)  # fmt: skip
FAILURE = AlertItem(Verdict("ctr", "local", RUN.run_id, VerdictKind.FAILED, "n2 does not answer"))


def test_fall_says_what_how_much_since_when_why_and_where():
    said = message(RUN, "benchmarks", [FALL], links=Links("http://localhost:8080"))
    assert said.title == "Nightbench demo on local: resnet50 regressed by 10.0%, confirmed"
    assert said.body == (
        "resnet50 on local: regressed by 10.0%, confirmed\n90 is 10.0% below.\n- tonight: 90 "
        "images/s\n- baseline: 100 images/s\n- level change: -9.7% (90% interval -10.4% to "
        "-9.1%)\n- cause: framework version: pytorch changed, and nothing else.\n  - Tensorflow2 "
        "on the same nodes is steady.\n- since: 2026-02-27 01:00 UTC\n- last good: 100.25 images/s "
        "on 2026-02-26, run demo-20260226\n- first bad: 90.5 images/s on 2026-02-27, run "
        "demo-20260227\n- changed between these runs:\n  - pytorch: 2.12.0 -> 2.13.0\n  - kernel: "
        "6.17 "
        "-> 6.18 (on n1, n2)\n- confirmed: 2.13.0 against 2.12.0 on n1. (ratio 0.9030, 95% "
        "interval 0.9000 to 0.9070, n = 7)\n- reproduce: nightbench compare pytorch=2.12.0 "
        "pytorch=2.13.0 --suite demo --case resnet50\n- alert: "
        "http://localhost:8080/plugin/benchmarks/alerts/7\n\nRun: demo-20260301T010000-0000 "
        "(nightly), suite demo, owner benchmarks\nResults: "
        "http://localhost:8080/plugin/benchmarks/runs/demo-20260301T010000-0000\nAirflow: "
        "h"
        "t"
        "t"
        "p://localhost:8080/dags/nightbench__demo/runs/scheduled__2026-03-01T01%3A00%3A00%2B00%3A00"
    )


def test_an_untried_mode_is_said_of_one_and_of_several():
    why = "pytorch is written for ROCm, and nobody has run it there"
    untried = replace(FALL, untried=why)
    line = f"- untried configuration, never run on this kind of device: {why}\n"
    assert line in message(RUN, "benchmarks", [untried]).body
    assert "untried" not in message(RUN, "benchmarks", [FALL]).body
    cause = replace(FALL.cause, group="g")
    both = [replace(each, cause=cause) for each in (untried, FALL)]
    rows = message(RUN, "benchmarks", both).body.splitlines()
    assert [
        row.endswith(", untried configuration") for row in rows if row.startswith("  - resnet50")
    ] == [
        True,
        False,
    ]


def test_failure_has_its_reason_and_no_figures():
    said = message(RUN, "benchmarks", [FAILURE])
    assert said.title == "Nightbench demo on local: ctr failed"
    assert said.body.startswith(
        "ctr on local: failed\nn2 does not answer\n- since: 2026-03-01 01:00 UTC\n\nRun: "
    )
    assert "baseline" not in said.body
    assert "Results" not in said.body


def test_nothing_recorded_differs_is_said_and_not_known_is_not():
    assert "nothing that is recorded" in message(RUN, "b", [replace(FALL, changes=())]).body
    assert "changed between" not in message(RUN, "b", [replace(FALL, changes=None)]).body
    many = replace(FALL, changes=tuple(f"package {k}: 1 -> 2" for k in range(30)))
    assert "package 11: 1 -> 2\n  - and 18 more\n" in message(RUN, "b", [many]).body


def test_all_news_of_a_run_is_one_message_in_their_order():
    other = replace(FALL, verdict=replace(FALL.verdict, case_id="resnet101", change=-0.2))
    said = message(RUN, "benchmarks", [other, FALL, FAILURE], resolved=[EndedAlert("bert")])
    assert said.title == "Nightbench demo on local: 2 regressed, 1 failed"
    places = [said.body.index(f"{name} on") for name in ("resnet101", "resnet50", "ctr")]
    assert [*places, said.body.index("- bert")] == sorted([*places, said.body.index("- bert")])


def test_an_outcome_of_a_confirmation_is_in_the_headline():
    refuted = Confirmation(
        ConfirmationResult.NOT_CONFIRMED, "As fast as before.", 1.001, 0.99, 1.01, 7
    )
    said = message(RUN, "benchmarks", [replace(FALL, confirmation=refuted)])
    assert "resnet50 on local: regressed by 10.0%, not confirmed" in said.body


def test_one_cause_that_hits_forty_series_is_one_item_with_forty_rows():
    cause = Cause(CauseKind.DRIVER, "The driver went from 550 to 560.", (), "driver 560")
    forty = [
        replace(
            FALL,
            verdict=replace(FALL.verdict, case_id=f"case-{k:02}", change=-0.10 - k / 1000),
            cause=cause,
        )
        for k in reversed(range(40))
    ]
    said = message(RUN, "benchmarks", [*forty, FAILURE])
    assert said.title == "Nightbench demo on local: 40 regressed, 1 failed"
    assert said.body.startswith("40 regressed on local, one cause\n- cause: driver: The driver")
    assert said.body.count("The driver went") == 1
    assert said.body.count("changed between these runs") == 1
    assert "- most affected case: case-39" in said.body
    rows = [line for line in said.body.splitlines() if line.startswith("  - case-")]
    assert len(rows) == 40
    assert rows[-1] == (
        "  - case-00: regressed by 10.0%, confirmed, level change -9.7% (90% interval -10.4% to "
        "-9.1%), 90 images/s, baseline 100 images/s"
    )
    alone = message(RUN, "benchmarks", forty)
    assert alone.title == "Nightbench demo on local: 40 regressed, one cause: driver"


def test_urgent_is_said_with_what_is_still_to_come():
    waiting = replace(FALL, confirmation=None, is_awaited=True)
    said = message(RUN, "benchmarks", [waiting], is_urgent=True)
    assert said.title == "Nightbench demo on local, urgent: resnet50 regressed by 10.0%"
    assert "- status: the case is being measured again\n" in said.body


def test_recovery_alone_is_told():
    back = EndedAlert("bert", "100 is as before.", 7)
    said = message(RUN, "benchmarks", [], [back, EndedAlert("ctr")], Links("http://air"))
    assert said.title == "Nightbench demo on local: 2 resolved"
    lines = [
        "- bert: 100 is as before.",
        "  - alert: http://air/plugin/benchmarks/alerts/7",
        "- ctr",
    ]
    assert said.body.startswith("\n".join(["Resolved:", *lines, "", "Run: "]))
    alone = message(RUN, "benchmarks", [], [back])
    assert alone.title == "Nightbench demo on local: bert resolved"


def test_nothing_to_say_is_an_error():
    with pytest.raises(ValueError, match="neither news nor"):
        message(RUN, "benchmarks", [])


def test_a_failure_has_the_end_of_its_traceback():
    error = "[n1 trainer-0]\nTraceback (most recent call last):\nKeyError: 'lr'"
    shown = "    Traceback (most recent call last):\n    KeyError: 'lr'\n"
    failed = replace(FAILURE, error=error)
    assert shown in message(RUN, "benchmarks", [failed]).body
    assert "KeyError" not in message(RUN, "benchmarks", [FAILURE]).body
    cause = Cause(CauseKind.FRAMEWORK_VERSION, "pytorch changed.", (), group="one")
    several = [replace(failed, cause=cause), replace(failed, cause=cause)]
    assert message(RUN, "benchmarks", several).body.count(shown) == 1
