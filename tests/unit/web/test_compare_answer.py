"""What a requested comparison says to a change and to a CI."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest

from nightbench.core.model import Reason, ReasonCode
from nightbench.web.compare_answer import (
    LONGEST,
    MARK,
    comment,
    conclusion,
    detectable_drop,
    headline,
    junit,
)

BEGAN = datetime(2026, 11, 1, 1, tzinfo=UTC)
DIED = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1", "code 0")


def case(name: str, verdict: str = "same", **changed: Any) -> dict[str, Any]:
    return {
        "case_id": name,
        "unit": "images",
        "verdict": verdict,
        "sentence": f"B is {verdict}",
        "ratio": 0.96,
        "low": 0.95,
        "high": 0.97,
        "level": 0.975,
        "n": 7,
        "dropped": [],
        "stopped": None,
    } | changed


def row(state: str = "done", *cases: dict[str, Any], **changed: Any) -> dict[str, Any]:
    verdicts = [each["verdict"] for each in cases]
    result = {
        "verdict": "slower" if "slower" in verdicts else "same",
        "min_effect": 0.01,
        "rounds": 7,
        "cases": list(cases),
        "combined": None,
        "not_combined": "some cases are slower and others faster",
        "shared": False,
    }
    return {
        "experiment_id": 12,
        "kind": "compare",
        "request": {},
        "state": state,
        "a": "pytorch=2.12.0",
        "b": "pytorch=2.13.0",
        "suite": "demo",
        "cluster": "local",
        "cases": ["one", "two"],
        "rounds": 7,
        "min_effect": 0.01,
        "change_commit": "c0ffee",
        "estimate_s": 3600.0,
        "spent_s": 0.0,
        "started_at": BEGAN,
        "why": "",
        "decided_by": None,
        "cancelled_by": None,
        "replaced_by": None,
        "profile": None,
        "profile_why": None,
        "result": result if cases else None,
    } | changed


def test_a_result_shows_the_worst_case_first_with_interval_and_what_was_dropped() -> None:
    dropped = [{"arm": "b", "status": "failed", "round": 1, "reasons": [DIED.to_json()]}] * 2
    text = comment(
        row("done", case("one"), case("two", "slower", dropped=dropped)), link="https://x/12"
    )
    lines = text.splitlines()
    assert lines[0] == MARK
    assert lines[1] == "### Nightbench: B is slower than A"
    cells = [line for line in lines if line.startswith("| ")]
    assert cells[1].startswith("| two | **slower** | - | 0.9600 | 0.9500 to 0.9700 | 7 | 2.0%")
    assert "- two: 2 launches of B dropped: process exited" in text
    assert "[Request 12](https://x/12)" in text
    assert "`pytorch=2.13.0`" in text


def test_the_smallest_fall_that_would_have_shown_grows_with_the_interval() -> None:
    narrow, wide = case("one", low=0.999, high=1.001), case("one", low=0.95, high=1.05)
    assert detectable_drop(narrow, 0.01) == pytest.approx(0.011, abs=1e-4)
    assert detectable_drop(wide, 0.01) == pytest.approx(0.058, abs=1e-3)
    assert detectable_drop(case("one", low=None), 0.01) is None


def test_a_verdict_waits_for_its_profile() -> None:
    def said(profile: str, **more: Any) -> tuple[str, str]:
        found = row("done", case("one"), profile=profile, **more)
        assert "ada" not in comment(found)
        return conclusion(found), headline(found)

    assert said("running") == ("pending", "B is as fast as A; now with the profiler")
    assert said("queued") == (
        "pending",
        "B is as fast as A; the profile is in the queue",
    )
    assert said("cancelled", profile_why="late") == ("success", "B is as fast as A")
    why = "a node of the cluster failed\nn1: /home/ada"
    failed = "B is as fast as A (no profile: a node of the cluster failed)"
    assert said("failed", profile_why=why) == ("success", failed)
    lacking = "no profile of two: B: process exited\ntwo: n1: /home/ada"
    early = "its budget of 100 s is used up"
    assert said("done", profile_why=lacking, why=early) == (
        "success",
        f"B is as fast as A ({early}; no profile of two: B: process exited)",
    )


def test_the_operators_that_differ_most_stand_below_the_table() -> None:
    kernel = f"void at::native::{'x' * 200}"
    names = ("conv_2d", "a|b", kernel, "add")
    operators = [{"name": x, "a_s": 0.001, "b_s": 0.0035, "difference_s": 0.0025} for x in names]
    found = row("done", case("one", "slower"))
    why = "A has no profile: n1: /home/ada"
    found["result"]["profile"] = {
        "id": "profile-compare-1-1",
        "cases": [
            {"case_id": "one", "why": None, "operators": operators},
            {"case_id": "two", "why": why, "operators": []},
        ],
    }
    text = comment(found)
    assert "| one | conv\\_2d | 1.000 | 3.500 | +2.500 |" in text
    assert r"| one | a\|b |" in text
    assert f"| {kernel[:158]} … |" in text
    assert "| one | add |" not in text
    assert "ada" not in text


def test_of_nodes_folders_and_people_nothing_is_said() -> None:
    secret = "node gpu07 (10.1.2.3:22): /home/sshuser/.node is full; user sshuser"
    reason = Reason(ReasonCode.REMOTE_FAILURE, "gpu07", "10.1.2.3:22", secret)
    launch = {"arm": "b", "status": "failed", "round": 1, "reasons": [reason.to_json()]}
    stopped = f"launches of B failed 3 times in a row, the last: {secret}"
    rows = [
        row("failed", why=f"a build could not be installed on the nodes\n{secret}"),
        row("failed", why=secret),
        row("done", case("one", "inconclusive", n=0, dropped=[launch], stopped=stopped)),
        row("running", cancelled_by="carol"),
        row("cancelled", cancelled_by="carol", why="a typo"),
        row("refused", decided_by="carol"),
        row(
            "queued",
            a="pytorch=/home/sshuser/prefix",
            b="pytorch=/home/sshuser/torch-2-py3-x-y.whl",
        ),
    ]
    said = [text(each) for each in rows for text in (comment, junit, headline)]
    for word in ("gpu07", "10.1.2.3", "/home", "sshuser", "carol"):
        assert not [text for text in said if word in text]
    assert "The measurement failed: a build could not be installed" in said[0]
    assert "1 launches of B dropped: remote failure" in comment(rows[2])
    assert "B `pytorch=torch-2-py3-x-y.whl`" in comment(rows[-1])


def test_a_merge_base_is_named_once_it_is_known() -> None:
    found = row("done", case("one"), a="toy=commit:tiny@merge-base", b="toy=commit:tiny@c0ffee")
    assert "A `toy=commit:tiny@merge-base`" in comment(found)
    found["result"]["commits"] = {"a": {"commit": "abc"}, "b": {"commit": "c0ffee"}}
    assert "A `toy=commit:tiny@abc`, B `toy=commit:tiny@c0ffee`" in comment(found)


@pytest.mark.parametrize(
    ("changed", "conclusion_of_it", "words"),
    [
        ({"state": "held"}, "pending", "waits until an operator"),
        ({"state": "queued"}, "pending", "In the queue, takes about 1 h"),
        ({"state": "running"}, "pending", "since 2026-11-01 01:00 UTC"),
        (
            {"state": "running", "cancelled_by": "bob"},
            "pending",
            "Cancelled; stops when the current launch ends",
        ),
        (
            {"state": "failed", "why": "no such wheel\n/x"},
            "error",
            "The measurement failed: no such wheel",
        ),
        ({"state": "refused", "decided_by": "op"}, "neutral", "An operator refused the request"),
        (
            {"state": "cancelled", "replaced_by": 13},
            "neutral",
            "Replaced by request 13 for a newer commit",
        ),
    ],
)
def test_every_state_has_a_sentence_and_a_conclusion(
    changed: dict[str, Any], conclusion_of_it: str, words: str
) -> None:
    found = row(**changed)
    assert conclusion(found) == conclusion_of_it
    assert words in headline(found)
    assert words.split(" at ")[0] in comment(found)


def test_a_queued_one_says_when_it_begins_or_what_it_waits_for() -> None:
    queued = row("queued")
    assert "expected to begin about 2026-11-01 03:00 UTC" in comment(
        queued, starts_at=BEGAN + timedelta(hours=2)
    )
    assert "waiting because ada has measured 4 h" in comment(
        queued, waits_for="ada has measured 4 h"
    )


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("same", "success"),
        ("faster", "success"),
        ("slower", "failure"),
        ("inconclusive", "neutral"),
    ],
)
def test_the_conclusion_is_that_of_the_verdict(verdict: str, expected: str) -> None:
    found = row("done", case("one", verdict))
    found["result"]["verdict"] = verdict
    assert conclusion(found) == expected


def test_what_people_and_processes_wrote_is_shown_as_it_is() -> None:
    bad = "<img src=x> @team [click](http://x) | `"
    text = comment(row("cancelled", why=bad, b=f"pytorch={bad}\n# title"))
    title = text.splitlines()[1]
    assert r"\<img src=x\> @" in title
    assert "@team" not in title
    assert r"\[click\](http://x) \| \`" in title
    assert "\n# title" not in text
    code = text.splitlines()[3]
    assert code.count("`") == 6  # those around A, B and the commit


def test_a_comment_of_very_many_cases_fits() -> None:
    text = comment(row("done", *(case(f"case-{n}" * 20) for n in range(1000))))
    assert len(text) < 65_536
    assert len(text) > LONGEST - 1000
    assert text.endswith("The rest is left out, because a comment can contain no more text.\n")


def test_junit_has_a_test_for_each_case() -> None:
    found = ElementTree.fromstring(
        junit(row("done", case("one"), case("two", "slower"), case("three", "inconclusive")))
    )
    assert {name: found.get(name) for name in ("tests", "failures", "skipped", "errors")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
        "errors": "0",
    }
    assert [child.tag for test in found for child in test] == ["system-out", "failure", "skipped"]


def test_junit_of_what_could_not_be_measured_is_an_error_and_valid_xml() -> None:
    found = ElementTree.fromstring(junit(row("failed", why="died: \x1b[31m \x00 <&\nmore")))
    assert (found.get("tests"), found.get("errors")) == ("2", "2")
    assert found[0][0].get("message") == "The measurement failed: died: ?[31m ? <&"


CHANGED = {"kind": "changed", "sentence": "training changed from step 3 on: x 1 -> 2", "step": 3}
SAME = {"kind": "same", "sentence": "trains the same", "step": None}


def test_a_change_of_training_comes_first_and_fails_a_faster_build() -> None:
    cases = [case("one", "faster", training=CHANGED), case("two", training=SAME)]
    found = row("done", *cases)
    assert conclusion(found) == "failure"
    assert conclusion(row("done", case("two", training=SAME))) == "success"
    assert headline(found).startswith("Training changed in 1 of 2 cases, so their speeds cannot be")
    text = comment(found)
    assert "| one | **faster** | **changed** from step 3 | 0.9600 |" in text
    assert "| two | **same** | same | 0.9600 |" in text
    assert "- one: training changed from step 3 on: x 1 -\\> 2." in text
    suite = ElementTree.fromstring(junit(found))
    assert (suite.get("failures"), suite.get("tests")) == ("1", "2")
    (failure,) = suite.iter("failure")
    assert failure.get("message") == CHANGED["sentence"]


def test_a_result_that_was_stored_without_losses_says_nothing_of_training() -> None:
    assert "| one | **same** | - | 0.9600 |" in comment(row("done", case("one")))
