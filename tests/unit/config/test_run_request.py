"""What the form says, checked once more on the worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.core.errors import UserError
from nightbench.core.model import RunKind

FIXTURES = Path(__file__).resolve().parents[2] / "dags" / "fixtures"


@pytest.fixture(autouse=True)
def _fixtures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(FIXTURES))


def test_empty_fields_mean_the_suite_s_own() -> None:
    request = RunRequest.from_params(
        {"suite": "nightly_cpu", "cluster": None, "frameworks": None, "scale": "", "repeats": None}
    )
    assert request == RunRequest("nightly_cpu")
    suite, cluster, _ = resolve_request(request)
    assert (len(suite.cases), suite.protocol.repeats, cluster.name) == (2, 7, "pair")


def test_every_field_counts() -> None:
    request = RunRequest.from_params(
        {
            "suite": "nightly_cpu",
            "cluster": "pair",
            "frameworks": ["fake"],
            "workloads": ["sleep"],
            "strategies": ["collective"],
            "builds": ["fake=2.0"],
            "repeats": 3,
            "scale": "full",
            "run_kind": "confirm",
            "night": True,
        }
    )
    suite, _, _ = resolve_request(request)
    assert RunRequest.from_params(request.to_params()) == request
    assert request.run_kind is RunKind.CONFIRM
    assert {case.scale for case in suite.cases} == {"full"}
    assert (suite.protocol.repeats, suite.builds["fake"].version) == (3, "2.0")


def test_a_case_is_asked_for_by_its_name() -> None:
    every = resolve_request(RunRequest("nightly_cpu"))[0].cases
    request = RunRequest.from_params({"suite": "nightly_cpu", "cases": [every[1].case_id]})
    assert RunRequest.from_params(request.to_params()) == request
    assert resolve_request(request)[0].cases == (every[1],)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "suite: found nothing"),
        ({"suite": "nope"}, 'suite: found "nope"; expected one of'),
        ({"suite": "by_hand", "cluster": "moon"}, 'cluster: found "moon"; expected one of pair'),
        ({"suite": "by_hand", "night": "yes"}, "night: found 'yes'; expected true or false"),
        ({"suite": "by_hand", "night": True, "outside_hours": True}, "choose one"),
        ({"suite": "by_hand", "repeats": 0}, "repeats: found 0"),
        ({"suite": "by_hand", "repeats": True}, "repeats: found True"),
        ({"suite": "by_hand", "frameworks": {"a": 1}}, "frameworks: found"),
        ({"suite": "by_hand", "frameworks": ["pytorch"]}, 'framework: found "pytorch"'),
        ({"suite": "by_hand", "cases": ["nope"]}, 'case_id: found "nope"'),
        ({"suite": "by_hand", "run_kind": "yearly"}, 'run_kind: found "yearly"'),
        (
            {"suite": "by_hand", "run_kind": "nightly", "builds": ["fake=/x"], "repeats": 3},
            "run_kind: found nightly together with builds and repeats",
        ),
        ({"suite": "by_hand", "run_kind": "nightly", "scale": "full"}, "together with scale"),
        ({"suite": "by_hand", "scale": "huge"}, "sleep has no scale huge"),
        ({"suite": "by_hand", "builds": ["fake"]}, 'build: found "fake"'),
        ({"suite": "broken"}, "broken.yaml"),
    ],
)
def test_what_cannot_be_is_said_in_words(params: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        resolve_request(RunRequest.from_params(params))
    assert words in str(error.value)


def test_a_form_opens_no_file_but_a_command_may() -> None:
    path = str(FIXTURES / "suites" / "by_hand.yaml")
    with pytest.raises(UserError, match="suite: found"):
        resolve_request(RunRequest(path))
    suite, _, _ = resolve_request(RunRequest(path), files=True)
    assert suite.name == "by_hand"
