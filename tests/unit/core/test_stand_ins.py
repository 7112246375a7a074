"""Lines that run the cases of one that nodes cannot install: by what they support."""

from __future__ import annotations

import pytest

from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.config.validate import checked
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError
from nightbench.core.model import RunKind
from nightbench.core.stand_ins import changed_values, stand_in_lines, with_stand_in


def test_the_demo_keeps_six_cases_with_lines_that_have_the_newest_python() -> None:
    suite, cluster, catalog = resolve_request(RunRequest("demo"))
    assert "tensorflow2" in stand_in_lines(suite, "paddle2", cluster, catalog)
    cases = with_stand_in(suite, "paddle2", "tensorflow2", cluster, catalog)
    assert cases is not None
    assert [case.case_id for case in cases[4:]] == [
        "ctr_dnn-tensorflow2-ps-1ps2tr-bs2-async-smoke",
        "ctr_dnn-tensorflow2-ps-2ps2tr-bs2-async-smoke",
    ]
    assert cases[:4] == suite.cases[:4]
    assert changed_values(suite.cases, cases) == ["sync geo -> async", "pservers 1 -> 2"]


def test_two_lines_may_have_the_same_stand_in() -> None:
    request = RunRequest("demo", stand_ins=("pytorch=tensorflow2", "paddle2=tensorflow2"))
    assert checked(RunRequest, to_document(request)) == request
    cases = resolve_request(request)[0].cases
    assert {case.framework for case in cases} == {"tensorflow2", "paddle3"}
    assert len({case.case_id for case in cases}) == 6


def test_a_line_that_runs_the_same_cases_already_is_no_stand_in() -> None:
    suite, cluster, catalog = resolve_request(RunRequest("demo"))
    lines = stand_in_lines(suite, "pytorch", cluster, catalog)
    assert "paddle3" not in lines, "its cases would be measured twice"
    assert "fake" not in lines
    assert lines[-1] == "paddle2", "of the suite itself: last"
    # JAX has no parameter servers.
    assert with_stand_in(suite, "paddle2", "jax", cluster, catalog) is None


@pytest.mark.parametrize(
    ("stand_in", "said"),
    [
        ("paddle9=tensorflow2", 'stand_ins: found "paddle9"; expected one of paddle2, paddle3'),
        ("paddle2=jax", 'stand_ins: paddle2: found "jax"; expected one of '),
        ("paddle2", "stand_ins: paddle2: found "),
    ],
)
def test_what_cannot_stand_in_is_refused(stand_in: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        resolve_request(RunRequest("demo", stand_ins=(stand_in,)))


def test_nights_have_no_stand_ins() -> None:
    with pytest.raises(UserError, match="nightly together with stand_ins"):
        RunRequest("demo", run_kind=RunKind.NIGHTLY, stand_ins=("paddle2=tensorflow2",))
