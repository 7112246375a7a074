"""The node's side of the contract: schemas, golden files, and what a real agent writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
sys.path.insert(0, str(ROOT / "tests" / "unit" / "node"))

from node_driver import NodeDriver, one_node, reason, verb  # noqa: E402 - found by the path above


def validator(name: str) -> Draft202012Validator:
    path = ROOT / "benchmarks" / "contract" / f"{name}.schema.json"
    return Draft202012Validator(json.loads(path.read_text()))


def problems(name: str, document: object) -> list[str]:
    errors = validator(name).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in errors]


@pytest.mark.parametrize("name", ["job", "steps", "result", "fingerprint", "preflight"])
def test_schemas_are_valid(name):
    Draft202012Validator.check_schema(validator(name).schema)


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("job", "job.json"),
        ("result", "result.json"),
        ("result", "result-failed.json"),
        ("result", "result-disturbed.json"),
        ("result", "result-hung.json"),
        ("fingerprint", "fingerprint.json"),
        ("preflight", "preflight.json"),
    ],
)
def test_golden_files_keep_the_contract(schema, file):
    assert problems(schema, json.loads((GOLDEN / file).read_text())) == []


def test_golden_steps_keep_the_contract():
    lines = (GOLDEN / "steps.jsonl").read_text().splitlines()
    assert len(lines) > 8
    assert [p for line in lines for p in problems("steps", json.loads(line))] == []


@pytest.mark.parametrize(
    ("schema", "file", "break_it"),
    [
        ("job", "job.json", lambda d: d.update(surprise=1)),
        ("job", "job.json", lambda d: d["limits"].pop("lease_s")),
        ("job", "job.json", lambda d: d["processes"][0].update(role="no role")),
        ("result", "result.json", lambda d: d.update(status="good")),
        ("result", "result.json", lambda d: d["processes"][0]["summary"].pop("window")),
        ("result", "result-disturbed.json", lambda d: d["disturbed"].pop("share")),
        ("result", "result-disturbed.json", lambda d: d["disturbed"]["reasons"].clear()),
        ("result", "result-failed.json", lambda d: d["reasons"][0].pop("observed")),
        ("result", "result-failed.json", lambda d: d.update(reasons=["it failed"])),
        ("result", "result-hung.json", lambda d: d["processes"][0].update(stack=[])),
        ("fingerprint", "fingerprint.json", lambda d: d.update(id="short")),
        ("preflight", "preflight.json", lambda d: d["clock"].pop("synchronised")),
        ("job", "job.json", lambda d: d["neighbours"].update(action="hope")),
    ],
)
def test_schemas_can_fail(schema, file, break_it):
    document = json.loads((GOLDEN / file).read_text())
    break_it(document)
    assert problems(schema, document)


def test_a_real_repeat_keeps_the_contract(tmp_path):
    document = one_node()
    assert problems("job", document) == []
    node = NodeDriver(tmp_path, document)
    node.start()
    try:
        node.go()
        assert problems("result", node.result()) == []
        for name in ("trainer-0", "trainer-1"):
            lines = (node.repeat(1) / name / "steps.jsonl").read_text().splitlines()
            assert len(lines) == 35 + 5
            assert [p for line in lines for p in problems("steps", json.loads(line))] == []
        found = json.loads((node.folder / "fingerprint.json").read_text())
        assert problems("fingerprint", found) == []
    finally:
        node.stop()


def test_an_aborted_and_a_never_launched_repeat_keep_the_contract(tmp_path):
    node = NodeDriver(tmp_path, one_node(trainers=1, pservers=1), params={"hang_at_step": 2})
    node.start()
    try:
        node.go()
        node.command("abort-001", reasons=[reason("cancelled", "enough")])
        assert problems("result", node.result()) == []
        node.command("abort-002", reasons=[reason("node_unreachable", "no answer")])
        node.command("prepare-002")
        assert problems("result", node.result(2)) == []
    finally:
        node.stop()


def test_a_hung_repeat_keeps_the_contract(tmp_path):
    document = one_node(trainers=1)
    document["limits"]["progress_s"] = 1.5
    node = NodeDriver(tmp_path, document, params={"hang_at_step": 2})
    node.start()
    try:
        node.go()
        found = node.result()
        assert problems("result", found) == []
        assert found["processes"][0]["stack"]
        assert found["boot_id"]
    finally:
        node.stop()


@pytest.mark.parametrize(
    "asked", [{}, {"neighbours": {"action": "wait", "wait_s": 1, "cpu_share": 1, "gpu": False}}]
)
def test_optional_keys_of_a_job_have_defaults_on_the_node(tmp_path, asked):
    document = one_node(trainers=1)
    for key in ("lock", "neighbours"):
        del document[key]
    document.update(asked)
    assert problems("job", document) == []
    node = NodeDriver(tmp_path, document)
    node.start()
    try:
        node.go()
        found = node.result()
        assert found["status"] == "ok", found["reasons"]
        assert problems("result", found) == []
    finally:
        node.stop()


def test_preflight_keeps_the_contract(tmp_path):
    code, found = verb("preflight", "--root", tmp_path, "--controls", "cpu", "--cpus", "0")
    assert code == 0
    assert problems("preflight", found) == []
    assert found["controls"]


def test_fingerprint_verb_keeps_the_contract():
    code, found = verb("fingerprint", "--python", sys.executable)
    assert code == 0
    assert problems("fingerprint", found) == []
    assert found["packages"]["jsonschema"]
    again = verb("fingerprint")[1]
    assert again["id"] == found["id"], "the framework's interpreter is not part of the node"
