"""What the form says, checked once more on the worker."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from nightbench.config import load_catalog
from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.config.scales import scales_of
from nightbench.config.source import display
from nightbench.config.suites import case_names
from nightbench.config.validate import checked
from nightbench.core.documents import to_document
from nightbench.core.errors import UserError
from nightbench.core.model import RunKind

SCALES = ", ".join(sorted(scales_of(load_catalog())))
FIXTURES = Path(__file__).resolve().parents[2] / "dags" / "fixtures"


@pytest.fixture(autouse=True)
def _fixtures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(FIXTURES))


def test_empty_fields_mean_the_suite_s_own() -> None:
    request = checked(
        RunRequest,
        {"suite": "nightly_cpu", "cluster": None, "frameworks": None, "scale": "", "repeats": None},
    )
    assert request == RunRequest("nightly_cpu")
    suite, cluster, _ = resolve_request(request)
    assert (len(suite.cases), suite.protocol.repeats, cluster.name) == (2, 7, "pair")


def test_every_field_counts() -> None:
    request = checked(
        RunRequest,
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
        },
    )
    suite, _, _ = resolve_request(request)
    assert checked(RunRequest, to_document(request)) == request
    assert request.run_kind is RunKind.CONFIRM
    assert {case.scale for case in suite.cases} == {"full"}
    assert (suite.protocol.repeats, suite.builds["fake"].version) == (3, "2.0")


def test_a_case_is_asked_for_by_its_name() -> None:
    every = resolve_request(RunRequest("nightly_cpu"))[0].cases
    request = checked(RunRequest, {"suite": "nightly_cpu", "cases": [every[1].case_id]})
    assert checked(RunRequest, to_document(request)) == request
    assert resolve_request(request)[0].cases == (every[1],)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "suite: is missing; expected: Suite to measure"),
        ({"suite": " "}, "suite: found nothing; expected the name of a suite"),
        ({"suite": "nope"}, 'suite: found "nope"; expected one of'),
        ({"suite": "by_hand", "cluster": "moon"}, 'cluster: found "moon"; expected one of pair'),
        ({"suite": "by_hand", "night": "yes"}, 'night: found "yes"; expected true or false'),
        ({"suite": "by_hand", "night": True, "outside_hours": True}, "choose one"),
        ({"suite": "by_hand", "repeats": 0}, "repeats: found 0"),
        (
            {"suite": "by_hand", "repeats": 100},
            "repeats: found 100; expected a number of at most",
        ),
        ({"suite": "by_hand", "suit": "x"}, 'suit: found the unknown key "suit"; expected one of'),
        ({"suite": "by_hand", "cases": ["x"] * 2001}, "cases: found 2001 entries; expected no mo"),
        (
            {"suite": "by_hand", "repeats": True},
            "repeats: found true (a switch); expected a whole",
        ),
        ({"suite": "by_hand", "frameworks": {"a": 1}}, "frameworks: found"),
        (
            {"suite": "by_hand", "frameworks": [""]},
            "frameworks: found an empty name; expected",
        ),
        ({"suite": "by_hand", "cases": ["x", " "]}, "cases: found an empty name"),
        ({"suite": "by_hand", "frameworks": ["pytorch"]}, 'framework: found "pytorch"'),
        ({"suite": "by_hand", "cases": ["nope"]}, 'case_id: found "nope"'),
        ({"suite": "by_hand", "run_kind": "yearly"}, 'run_kind: found "yearly"'),
        (
            {"suite": "by_hand", "run_kind": "nightly", "builds": ["fake=/x"], "repeats": 3},
            "run_kind: found nightly together with builds and repeats",
        ),
        ({"suite": "by_hand", "run_kind": "nightly", "scale": "full"}, "together with scale"),
        ({"suite": "by_hand", "scale": "huge"}, f'scale: found "huge"; expected one of {SCALES}'),
        ({"suite": "by_hand", "builds": ["fake"]}, 'build: found "fake"'),
        ({"suite": "broken"}, "broken.yaml"),
    ],
)
def test_what_cannot_be_is_said_in_words(params: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        resolve_request(checked(RunRequest, params))
    assert words in str(error.value)


def test_a_form_opens_no_file_but_a_command_may() -> None:
    path = str(FIXTURES / "suites" / "by_hand.yaml")
    with pytest.raises(UserError, match="suite: found"):
        resolve_request(RunRequest(path))
    suite, _, _ = resolve_request(RunRequest(path), files=True)
    assert suite.name == "by_hand"


@pytest.mark.parametrize("field", ["suite", "cluster", "scale", "run_kind"])
def test_long_input_is_not_echoed_whole(field: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve_request(
            checked(RunRequest, {"suite": "by_hand", field: "begin" + "x" * 5000 + "end"})
        )
    said = str(caught.value)
    assert len(said) < 2500
    assert "begin" in said
    assert "xxx" * 200 not in said


def test_a_suite_anywhere_finds_the_clusters_of_the_project(tmp_path: Path) -> None:
    text = (FIXTURES / "suites" / "by_hand.yaml").read_text()
    suite = tmp_path / "deep" / "mine" / "by_hand.yaml"
    suite.parent.mkdir(parents=True)
    suite.write_text(text)
    found, cluster, _ = resolve_request(RunRequest(str(suite)), files=True)
    assert (found.name, cluster.name) == ("by_hand", found.cluster)
    own = suite.parent / "clusters"
    own.mkdir()
    shutil.copy(FIXTURES / "clusters" / f"{cluster.name}.yaml", own)
    where = own / f"{cluster.name}.yaml"
    where.write_text(where.read_text() + "\ndescription: of my own\n")
    assert resolve_request(RunRequest(str(suite)), files=True)[1].description == "of my own"


def test_a_message_says_where_a_cluster_was_looked_for(tmp_path: Path) -> None:
    text = (FIXTURES / "suites" / "by_hand.yaml").read_text()
    suite = tmp_path / "by_hand.yaml"
    suite.write_text(re.sub(r"(?m)^cluster: .*", "cluster: moon", text))
    with pytest.raises(UserError) as caught:
        resolve_request(RunRequest(str(suite)), files=True)
    said = str(caught.value)
    assert 'cluster: found "moon"; expected one of' in said
    for folder in (tmp_path / "clusters", FIXTURES / "clusters"):
        assert any(str(each) in said for each in (folder, display(folder)))


def test_the_form_offers_the_cases_of_the_suites(tmp_path: Path) -> None:
    offered = case_names(FIXTURES, ["nightly_cpu", "by_hand", "unknown"])
    for name in ("nightly_cpu", "by_hand"):
        cases = resolve_request(RunRequest(name))[0].cases
        assert {case.case_id for case in cases} <= set(offered)
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "broken.yaml").write_text("matrix: [")
    (tmp_path / "suites" / "scripts.yaml").write_text(
        "suite: scripts\nowner: tests\ncluster: one\n"
        "commands: {mine: {argv: [train], unit: images, log: {format: keras}}}\n"
        "matrix: [{command: mine, strategy: single, batch_size_per_device: 2}]\n"
    )
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "one.yaml").write_text(
        "cluster: one\nnodes: [{hosts: 127.0.0.2, ssh_conn_id: nowhere}]\n"
    )
    (tmp_path / "suites" / "scaled.yaml").write_text(
        "suite: scaled\nowner: tests\ncluster: one\nscale: smoke\n"
        "protocol: {full: {repeats: 7}, smoke: {repeats: 3}}\n"
        "matrix: [{workload: word2vec, frameworks: paddle1, strategy: parameter_server,"
        " devices: fit, trainers: {full: 32, smoke: 2}, batch_size_per_device: 2}]\n"
    )
    assert case_names(tmp_path, ["broken", "scripts", "scaled"]) == [
        "mine-external-single-1x1-bs2",
        "word2vec-paddle1-ps-1ps2tr-1x2-bs2-smoke",
    ]
