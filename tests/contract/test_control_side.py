"""The control plane's side of the contract: what it writes and reads, by the same golden files."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from nightbench.config import load_catalog, load_cluster, load_suite
from nightbench.core.model import (
    Build,
    Case,
    EnvironmentPolicy,
    JobSpec,
    Limits,
    NeighbourPolicy,
    Node,
    Process,
    Protocol,
    RankResult,
    Reason,
    ReasonCode,
    RepeatRecord,
    reasons_from_json,
    reasons_to_json,
)
from nightbench.core.run_plan import resolve
from nightbench.core.sentences import sentence, sentences
from nightbench.core.summarize import repeat_record, summarize_repeat
from nightbench.gang.decisions import NodeView, ProcessView
from nightbench.gang.progress import ProgressDocument
from nightbench.gang.repeat_status import repeat_end

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text())


def validate(schema: str, document: object) -> None:
    path = ROOT / "benchmarks" / "contract" / f"{schema}.schema.json"
    Draft202012Validator(json.loads(path.read_text())).validate(document)


def golden_job() -> JobSpec:
    """The job of golden/job.json as the control plane holds it."""
    document = golden("job.json")
    return JobSpec(
        run_id=document["run_id"],
        case=Case.from_axes(document["case"]),
        generation=document["generation"],
        cluster=document["cluster"],
        build=Build("fake"),
        protocol=Protocol(**document["protocol"]),
        nodes=tuple(
            Node(n["name"], host=n["data_address"], ssh_conn_id="x", cpus=tuple(n["cpus"]))
            for n in document["nodes"]
        ),
        processes=tuple(Process(**process) for process in document["processes"]),
        unit=document["workload"]["unit"],
        workload_params=document["workload"]["params"],
        seed=document["workload"]["seed"],
        env=document["env"],
        role_env=document["role_env"],
        limits=Limits(**document["limits"]),
        code_digest=document["code_digest"],
        definition_digest=document["definition_digest"],
        environments=EnvironmentPolicy(),
    )


def test_a_job_is_written_as_the_golden_file_has_it() -> None:
    assert golden_job().to_json() == golden("job.json")


def test_everything_that_a_job_may_ask_for_is_in_the_schema() -> None:
    document = dataclasses.replace(
        golden_job(),
        protocol=Protocol(5, 30, 20, min_repeats=5, confidence=0.01),
        neighbours=NeighbourPolicy(action="wait", wait_s=60.0, cpu_share=0.05, gpu=False),
        lock="devices",
    ).to_json()
    validate("job", document)
    assert document["protocol"]["confidence"] == 0.01
    assert document["lock"] == "devices"
    assert document["neighbours"] == {
        "action": "wait",
        "wait_s": 60.0,
        "cpu_share": 0.05,
        "gpu": False,
    }
    for optional in ("neighbours", "lock"):
        del document[optional]
    validate("job", document)


@pytest.mark.parametrize("suite", ["demo", "cpu", "fluid"])
def test_every_job_of_our_suites_keeps_the_schema(suite: str) -> None:
    catalog = load_catalog(ROOT / "benchmarks")
    cluster = load_cluster(ROOT / "dags" / "clusters" / "local.yaml")
    read = load_suite(ROOT / "dags" / "suites" / f"{suite}.yaml", catalog, cluster=cluster)
    for case in read.cases:
        validate("job", resolve(case, read, cluster, catalog, "run-1").to_json())


def test_the_schema_refuses_a_job_that_says_something_else() -> None:
    document = golden_job().to_json()
    document["protocol"]["repeats"] = "three"
    with pytest.raises(ValidationError):
        validate("job", document)


def test_a_node_s_result_is_read_without_loss() -> None:
    document = golden("result.json")
    for process in document["processes"]:
        said = process["summary"]
        assert RankResult.from_json("n1", process).sent_bytes_per_step is None
        assert RankResult.from_json("n1", process).data_wait_s is None
        said |= {"sent_bytes_per_step": 204_720, "data_wait_s": 0.25}
        said |= {"expert_tokens": [[3, 5], [8, 0]]}
        said |= {"reported": {"tflops_per_device": 253.41, "mfu_percent": 25.62}}
        validate("result", document)
        rank = RankResult.from_json("n1", process)
        assert rank.sent_bytes_per_step == 204_720
        assert rank.data_wait_s == 0.25
        assert rank.expert_tokens == [[3, 5], [8, 0]]
        assert rank.reported == said["reported"]
        assert rank.step_seconds == tuple(said["step_seconds"])
        assert rank.step_end_s == tuple(said["step_end_s"])
        assert rank.window_wall_s == said["window"]["wall_s"]
        assert rank.window_close_s - rank.window_open_s == pytest.approx(rank.window_wall_s)
        assert rank.loss_window == tuple(said["loss"]["window"])
        assert rank.weights_digest == said["weights_digest"]
        assert rank.peak_resident_bytes == said["peak_memory"]["resident_bytes"]
        assert rank.versions == said["versions"]


def test_a_golden_result_has_the_throughput_that_its_steps_say() -> None:
    document = golden("result.json")
    ranks = tuple(RankResult.from_json("n1", process) for process in document["processes"])
    case = dataclasses.replace(
        golden_job().case, nodes=1, devices_per_node=len(ranks), trainers=len(ranks)
    )
    record = RepeatRecord(1, document["status"], (), ranks)
    summary = summarize_repeat(record, case)
    samples = sum(rank.samples_per_step * len(rank.step_seconds) for rank in ranks)
    slowest = max(rank.window_wall_s for rank in ranks)
    assert summary.throughput == pytest.approx(samples / slowest)
    assert summary.step_throughput == pytest.approx(summary.throughput, rel=0.01)


def test_a_failed_result_is_read_too() -> None:
    document = golden("result-failed.json")
    assert document["status"] == "failed"
    ranks = [RankResult.from_json("n1", process) for process in document["processes"]]
    assert [rank.name for rank in ranks] == [p["name"] for p in document["processes"]]
    reason, raised = reasons_from_json(document["reasons"])
    assert (reason.code, reason.node) == (ReasonCode.PROCESS_EXITED, "n1")
    assert sentence(reason) == "n1: trainer-1 exited with code 1"
    assert sentences([reason, raised]) == (
        "n1: trainer-1 exited with code 1: ValueError: the batch has no labels "
        "(workloads/sleep/python.py, line 21)"
    )
    assert reasons_to_json([reason, raised]) == document["reasons"]


def test_the_error_of_the_blamed_process_is_the_repeat_s() -> None:
    failed = golden("result-failed.json")
    aborted = {**golden("result.json"), "status": "aborted"}
    aborted["processes"][0]["error"] = "killed beside it"
    error = repeat_end(
        ("n0", "n1"),
        {"n0": aborted, "n1": failed},
        (),
        clocks={},
        rebooted=(),
        died=(),
        abort_was_sent=True,
        counts_disturbance=False,
    ).error
    assert error is not None
    assert error.startswith("[n1 trainer-1]\nTraceback (most recent call last):")
    after = "after it [n0 trainer-0] killed beside it\n[n1 trainer-0] ended properly after 6 steps"
    assert f"\nValueError: the batch has no labels\n{after}" in error
    record = {"repeat": 1, "status": "failed", "reasons": failed["reasons"], "error": error}
    assert repeat_record(record, {"n1": failed}).error == error


def test_every_reason_of_a_node_is_known_and_has_its_sentence() -> None:
    told = (ROOT / "benchmarks" / "nodeside" / "reasons.py").read_text()
    codes = re.findall(r'^[A-Z_]+ = "(\w+)"$', told, re.MULTILINE)
    assert len(codes) > 15
    for code in [*codes, *ReasonCode]:
        assert sentence(Reason(ReasonCode(code), "n1", "it", "so", "otherwise")).startswith("n1: ")


def test_reasons_that_count_others_are_followed_by_them() -> None:
    ended = Reason(ReasonCode.PROCESS_EXITED, "n2", "trainer-1", "code 1")
    failed = Reason(ReasonCode.LAUNCHES_FAILED, observed="2 of 3 launches")
    assert sentences([failed, ended]) == (
        "2 of 3 launches failed; the last failure: n2: trainer-1 exited with code 1"
    )
    assert sentences([ended, ended]) == "n2: trainer-1 exited with code 1"
    assert sentences([]) == ""


def test_a_disturbed_and_a_hung_result_are_read_too() -> None:
    disturbed = golden("result-disturbed.json")
    assert disturbed["status"] == "ok", "what to do about it is the control plane's business"
    ranks = [RankResult.from_json("n1", process) for process in disturbed["processes"]]
    assert [rank.step_seconds for rank in ranks] == [
        tuple(p["summary"]["step_seconds"]) for p in golden("result.json")["processes"]
    ]
    hung = golden("result-hung.json")
    assert RankResult.from_json("n1", hung["processes"][0]).step_seconds == ()


def test_null_in_the_losses_is_a_loss_that_is_not_finite() -> None:
    process = copy.deepcopy(golden("result.json")["processes"][0])
    process["summary"]["loss"]["window"][0] = None
    process["summary"]["loss_finite"] = False
    assert math.isnan(RankResult.from_json("n1", process).loss_window[0])


def test_a_fingerprint_names_itself() -> None:
    document = golden("fingerprint.json")
    validate("fingerprint", document)
    assert len(document["id"]) == 64


def test_progress_is_told_from_step_records() -> None:
    """Phases and steps as a rank writes them are those that the live view counts."""
    lines = [json.loads(line) for line in (GOLDEN / "steps.jsonl").read_text().splitlines()]
    for line in lines:
        validate("steps", line)
    job = golden_job()
    before_window = job.protocol.warmup_steps
    windows = [x for x in lines if x["kind"] == "step" and x["phase"] == "window"]
    assert windows
    for line in windows:
        seen = ProcessView(line["phase"], line["step"], line["t_s"])
        views = [
            NodeView(node, answered_s=0.0, state="running", processes={name: seen})
            for node, name in (("n1", "trainer-0"), ("n2", "trainer-1"))
        ]
        told = ProgressDocument(job).document("running", 1, views)
        assert (told["phase"], told["step"]) == ("window", before_window + line["step"])
