"""The catalog: from descriptions in folders, and what is said of wrong ones."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from nightbench.config import find_clusters, find_suites, load_catalog, load_cluster, load_suite
from nightbench.config.suite_heads import framework_names, workload_scales
from nightbench.core.capabilities import refusal_of
from nightbench.core.model import Build, Case, Cluster, Node, Role, RunKind, Strategy, Suite
from nightbench.core.run_plan import make_plan
from nightbench.spool import Spool
from nightbench.spool.plans import store_plan

REPO = Path(__file__).resolve().parents[3]

LINE = {
    "line": "thing",
    "title": "Thing",
    "version": "1.0",
    "api": "lang",
    "devices": {"cpu": True, "gpu": True},
    "variants": {"cpu": {"device": "cpu", "pythons": ["3.11"]}},
    "axes": {"strategy": {"single": True}},
}
SPEC = {
    "name": "net",
    "title": "Net",
    "unit": "images",
    "strategies": ["single"],
    "scales": {"full": {"size": 224, "layers": [1, 2]}},
}

CODE = {
    "workloads/net/lang.py": "from workloads.other.lang import loss, model\n",
    "workloads/net/data.py": "def batch(params): params['size'], params['layers']\nweights = 1\n",
    "frameworks/thing/requirements-cpu.lock": "thing==1.0+cpu\n",
    "frameworks/thing/launch.py": "def processes(job, node, ports, python, code): ...\n",
    "frameworks/thing/runtime.py": "class Runtime: ...\n",
    "frameworks/thing/trainer.py": "class Trainer: ...\n",
}


def tree(tmp_path: Path, line: dict[str, object], spec: dict[str, object]) -> Path:
    for path, document in (
        ("frameworks/thing/framework.json", line),
        ("workloads/net/spec.json", spec),
    ):
        file = tmp_path / "benchmarks" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=2))
    for name, text in CODE.items():
        (tmp_path / "benchmarks" / name).write_text(text)
    return tmp_path / "benchmarks"


def test_what_is_in_the_folders_is_in_the_catalog(tmp_path: Path) -> None:
    catalog = load_catalog(tree(tmp_path, LINE, SPEC))
    assert catalog.frameworks["thing"].variants["cpu"].pythons == ("3.11",)
    assert catalog.frameworks["thing"].oldest_python == "3.11"
    assert catalog.workloads["net"].frameworks == ("thing",)
    assert catalog.workloads["net"].scales["full"] == {"size": 224, "layers": [1, 2]}


def test_all_processes_of_a_measured_role_are_measured(tmp_path: Path) -> None:
    roles = {"single": {"worker": {"count": "trainers", "measured": True}}}
    catalog = load_catalog(tree(tmp_path, {**LINE, "roles": roles}, SPEC))
    expected = (Role(name="worker", count="trainers", measured=True),)
    assert catalog.frameworks["thing"].roles_of(Strategy.SINGLE) == expected


def test_a_line_may_refuse_a_workload_of_its_api(tmp_path: Path) -> None:
    catalog = load_catalog(tree(tmp_path, {**LINE, "refused_workloads": {"net": "no"}}, SPEC))
    assert catalog.workloads["net"].frameworks == ()
    case = Case(framework="thing", workload="net", strategy=Strategy.SINGLE)
    refusal = refusal_of(case, catalog)
    assert refusal
    assert (refusal.axis, refusal.message) == ("framework", "thing does not run net: no")


def test_every_trainer_beside_servers_is_measured() -> None:
    benchmarks = Path(__file__).parents[3] / "benchmarks"
    roles = load_catalog(benchmarks).frameworks["paddle1"].roles_of(Strategy.PARAMETER_SERVER)
    assert [(role.name, role.measured, role.measured_ranks) for role in roles] == [
        ("pserver", False, "all"),
        ("trainer", True, "all"),
    ]


def test_a_mended_title_or_a_new_scale_starts_no_new_history(tmp_path: Path) -> None:
    first = load_catalog(tree(tmp_path, LINE, SPEC)).workloads["net"].digest
    scales = {**SPEC["scales"], "smoke": {"size": 32}}
    other = load_catalog(tree(tmp_path, LINE, {**SPEC, "title": "The net", "scales": scales}))
    assert other.workloads["net"].digest == first
    changed = load_catalog(tree(tmp_path, LINE, {**SPEC, "definition": {"optimizer": "sgd"}}))
    assert changed.workloads["net"].digest != first


def test_ranks_with_the_same_samples_have_a_first_and_a_third_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    losses = {"scale": "full", "batch_size_per_device": 8, "first": [7.0], "third": {"1": [6.5]}}
    spec = {**SPEC, "losses": {**losses, "together": {"2": [7.0, 6.8, 6.5]}}}
    (complaint,) = load_catalog(tree(tmp_path, LINE, spec)).problems
    assert complaint.startswith("benchmarks/workloads/net/spec.json:")
    assert complaint.endswith(
        " losses.together.2: found 3 losses; expected two: of the first and third step"
    )


def test_all_wrong_descriptions_are_said_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = {**LINE, "line": "thin", "axes": {"strategi": {}}, "extra": 1}
    wrong = {"converges": "yes", "units_per_example": 0, "by_sequence_length": {"128": 20}}
    spec = {**SPEC, "scales": {"full": wrong}}
    assert list(load_catalog(tree(tmp_path, line, spec)).problems) == [
        'benchmarks/frameworks/thing/framework.json:2: line: found "thin"; expected the name of '
        'its folder, "thing"',
        'benchmarks/frameworks/thing/framework.json:19: axes.strategi: found "strategi"; expected '
        "one of compiler, compression, context, data, execution, expert, layout, "
        "micro_batches, precision, recompute, schedule, shard_stage, state_precision, "
        'strategy, sync, tensor, tuning (did you mean "strategy"?)',
        'benchmarks/frameworks/thing/framework.json:21: extra: found the unknown key "extra"; '
        "expected one of api, axes, commands, controls, devices, for_tests, "
        "keeps_casts, launcher_env, libraries, line, package, refused_combinations, "
        "refused_workloads, replaces, roles, shares_ends, size_bytes, title, variants, version, "
        "whole_weights",
        'benchmarks/workloads/net/spec.json:10: scales.full.converges: found "yes"; expected true '
        "or false",
        "benchmarks/workloads/net/spec.json:11: scales.full.units_per_example: found 0; expected "
        "a whole number of at least 1",
        "benchmarks/workloads/net/spec.json:12: scales.full.by_sequence_length: found a mapping; "
        'expected lengths with their parameters, as {"128": {"predictions": 20}}',
    ]


TRAINER = {"count": "trainers", "measured": True}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "devices",
            {"cpu": False},
            "devices.cpu: found false (a switch); expected true, the reason",
        ),
        ("devices", {"cpu": {"untried": ""}}, "devices.cpu: found a mapping; expected true, the "),
        ("devices", {"cpu": {"untried": "x", "y": 1}}, "devices.cpu: found a mapping; expected tr"),
        ("devices", {"tpu": True}, 'devices.tpu: found "tpu"; expected one of cpu, gpu'),
        ("devices", {"cpu": "why"}, "devices: found no device kind with true; expected one that "),
        ("variants", {}, "variants: found an empty mapping; expected at least one entry"),
        ("variants", {"cpu": {"device": "cpus"}}, 'variants.cpu.device: found "cpus"; expected on'),
        (
            "variants",
            {"cpu": {"device": "cpu", "axes": {"strategy": {"ring": True}}}},
            'variants.cpu.axes.strategy.ring: found "ring"; expected',
        ),
        (
            "variants",
            {"cpu": {"device": "cpu", "axes": {"precision": {"bf16": {"gpu": True}}}}},
            "variants.cpu.axes.precision.bf16: found an answer for gpu; expected one for each of c",
        ),
        (
            "variants",
            {"x": LINE["variants"]["cpu"]},
            "variants.x: found no requirements-x.lock in this ",
        ),
        ("axes", {"strategy": {"single": 1}}, "axes.strategy.single: found 1; expected true, the "),
        ("axes", {"strategy": {"sngle": True}}, 'axes.strategy.sngle: found "sngle"; expected one'),
        ("axes", {"strategy": {"single": "no"}}, "axes.strategy: found no strategy with true; exp"),
        ("axes", {}, "axes: found no strategy with true; expected one of collective, parameter_s"),
        (
            "axes",
            {**LINE["axes"], "precision": {"bf16": {"gpu": True}}},
            "axes.precision.bf16: found an answer for gpu; expected one for each of cpu, gpu",
        ),
        (
            "axes",
            {"strategy": {"parameter_server": True}},
            "axes.strategy.parameter_server: found true; expected also `roles.parameter_server`",
        ),
        (
            "roles",
            {"single": {"t": {}}},
            "roles.single.t.count: is missing; expected: Number of processes",
        ),
        ("roles", {"single": {"t": {"count": 0}}}, "roles.single.t.count: found 0; expected a who"),
        (
            "roles",
            {"single": {"t": {"count": "workers"}}},
            'roles.single.t.count: found "workers"; expected a whole number of at least 1, or nod',
        ),
        (
            "roles",
            {"single": {"t": {**TRAINER, "place": "any"}}},
            'roles.single.t.place: found "any"; expected one of fill, lead, spread',
        ),
        ("roles", {"pair": {"t": TRAINER}}, 'roles.pair: found "pair"; expected one of collectiv'),
        ("roles", {"single": {"s": {"count": 1}}}, "roles.single: found no role with measured: t"),
        ("controls", {"gpu": "a.py"}, 'controls.gpu: found "a.py", which is not in this folder; '),
        (
            "refused_workloads",
            {"nett": "no"},
            "refused_workloads.nett: found nett, which has no lang.py; expected one with this file",
        ),
        (
            "refused_combinations",
            [{"when": {"strategy": "single"}, "refused": "no"}],
            "refused_combinations[0].when: found strategy; expected several axes: write a",
        ),
        (
            "refused_combinations",
            [{"when": {"strategy": "single", "sharding": "zero"}, "refused": "no"}],
            'refused_combinations[0].when.sharding: found "sharding"; expected one of compiler, co',
        ),
        (
            "refused_combinations",
            [{"when": {"strategy": "single", "precision": []}, "refused": "no"}],
            "refused_combinations[0].when.precision: found []; expected a value, or a list of va",
        ),
        (
            "refused_combinations",
            [{"when": {"strategy": "single", "precision": "fp23"}, "refused": "no"}],
            'refused_combinations[0].when.precision: found "fp23"; expected fp32 (did you mean "f',
        ),
        (
            "refused_combinations",
            [{"when": {"workload": ["net", "nett"], "precision": "fp32"}, "refused": "no"}],
            'refused_combinations[0].when.workload: found "nett"; expected net (did you mean "net',
        ),
        (
            "refused_combinations",
            [{"when": {"device": "cpus", "precision": "fp32"}, "refused": "no"}],
            'refused_combinations[0].when.device: found "cpus"; expected',
        ),
        (
            "refused_combinations",
            [{"when": {"replicas": 2, "precision": "fp32"}, "refused": "no"}],
            'refused_combinations[0].when.replicas: found "2"; expected several',
        ),
    ],
)
def test_a_mistake_in_a_line_is_named_with_file_key_value_and_expectation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: object, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (complaint,) = load_catalog(tree(tmp_path, {**LINE, key: value}, SPEC)).problems
    file, _, message = complaint.split(":", 2)
    assert file == "benchmarks/frameworks/thing/framework.json"
    assert message.strip().startswith(said)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("frameworks/thing/framework.json", "frameworks/thing/framework.json: no such file"),
        ("frameworks/thing/launch.py", "framework.json:1: found no launch.py in benchmarks/fr"),
        ("frameworks/thing/runtime.py", "framework.json:1: found no runtime.py in benchmarks/"),
        ("frameworks/thing/trainer.py", "framework.json:1: found no trainer.py in benchmarks/"),
        ("workloads/net/spec.json", "workloads/net/spec.json: no such file"),
        ("workloads/net/data.py", "net/spec.json:1: found no data.py in benchmarks/workloads/net"),
    ],
)
def test_a_file_that_a_folder_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    benchmarks = tree(tmp_path, LINE, SPEC)
    (benchmarks / file).unlink()
    (complaint,) = load_catalog(benchmarks).problems
    assert said in complaint


def test_what_editors_and_file_managers_leave_is_ignored(tmp_path: Path) -> None:
    benchmarks = tree(tmp_path, LINE, SPEC)
    expected = load_catalog(benchmarks)
    for stray in (
        "frameworks/.DS_Store",
        "frameworks/notes.txt",
        "frameworks/.idea/workspace.xml",
        "frameworks/gone/.DS_Store",
        "frameworks/__pycache__/launch.cpython-311.pyc",
        "frameworks/thing/._launch.py",
        "workloads/.ipynb_checkpoints/lang.py",
        "workloads/net/._lang.py",
        "workloads/net/._data.py",
    ):
        (benchmarks / stray).parent.mkdir(exist_ok=True)
        (benchmarks / stray).write_bytes(b"\x00\x05\x16")
    (benchmarks / "workloads" / "net" / ".#lang.py").symlink_to("me@host.4711")
    found = load_catalog(benchmarks)
    assert (found.frameworks, found.workloads) == (expected.frameworks, expected.workloads)
    assert found.problems == ()
    names = framework_names(benchmarks), list(workload_scales(benchmarks))
    assert names == (["thing"], ["net"])


def test_a_folder_without_its_description_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    benchmarks = tree(tmp_path, LINE, SPEC)
    (benchmarks / "frameworks" / "other").mkdir()
    (benchmarks / "frameworks" / "other" / "launch.py").touch()
    catalog = load_catalog(benchmarks)
    assert catalog.problems == ("benchmarks/frameworks/other/framework.json: no such file",)
    assert catalog.frameworks["thing"].problem is None


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("frameworks/thing/runtime.py", "x = 1\ndef f(:\n", "thing/runtime.py:2: not valid Python"),
        (
            "frameworks/thing/trainer.py",
            "return\x00",
            "thing/trainer.py:1: not valid Python 3.11: ",
        ),
        ("apis/lang/trainer.py", "class\n", "apis/lang/trainer.py:1: not valid Python 3.11: "),
        ("workloads/net/lang.py", "\nif x\n", "net/lang.py:2: not valid Python 3.11: "),
        ("workloads/net/data.py", "(n := 1)\n", "net/data.py:1: not valid Python 3.7: "),
    ],
)
def test_a_syntax_error_is_found_without_running_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    benchmarks = tree(tmp_path, LINE, SPEC)
    (benchmarks / file).parent.mkdir(parents=True, exist_ok=True)
    (benchmarks / file).write_text(text)
    (complaint,) = load_catalog(benchmarks).problems
    assert said in complaint


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "workloads/net/lang.py",
            "if 1:\n    def model(params): ...\n",
            "workloads/net/lang.py:1: defines no `loss`; found model",
        ),
        (
            "workloads/net/data.py",
            "size = layers = batch = 1\n",
            "workloads/net/data.py:1: defines no `weights`; found batch, layers, size",
        ),
        (
            "frameworks/thing/trainer.py",
            "size = _Trainer = 1\n",
            "frameworks/thing/trainer.py:1: defines no `Trainer`; found size",
        ),
        (
            "frameworks/thing/runtime.py",
            "",
            "frameworks/thing/runtime.py:1: defines no `Runtime`; found nothing",
        ),
        (
            "frameworks/thing/requirements-cpu.lock",
            "other==3\nthing[x]==2.1 \\\n    --hash=sha256:00\n",
            'frameworks/thing/framework.json:4: version: found "1.0", but requirements-cpu.lock '
            "pins thing 2.1; expected the same",
        ),
    ],
)
def test_what_a_file_lacks_or_contradicts_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, said: str
) -> None:
    benchmarks = tree(tmp_path, LINE, SPEC)
    monkeypatch.chdir(benchmarks)
    (benchmarks / file).write_text(text)
    assert load_catalog(benchmarks).problems == (said,)


def test_a_build_may_have_a_version_of_its_own_and_older_ones_for_older_pythons(
    tmp_path: Path,
) -> None:
    line = json.loads(json.dumps(LINE))
    line["variants"]["cpu"]["version"] = "1.10"
    benchmarks = tree(tmp_path, line, SPEC)
    lock = benchmarks / "frameworks/thing/requirements-cpu.lock"
    lock.write_text("thing==1.9 ; a \\\n    --hash=sha256:00\nthing==1.10 ; b\n")
    catalog = load_catalog(benchmarks)
    assert catalog.problems == ()
    assert catalog.frameworks["thing"].versions_of("cpu") == ("1.9", "1.10")
    assert catalog.frameworks["thing"].versions_of("gpu") == ("1.0",)
    lock.write_text("thing==1.9 ; a\n")
    (problem,) = load_catalog(benchmarks).problems
    assert 'variants.cpu.version: found "1.10", but requirements-cpu.lock pins' in problem


@pytest.mark.parametrize(
    "text", ["from other import *\n", "try:\n    model = loss = 1\nfinally: 1\n"]
)
def test_a_model_may_come_from_elsewhere(tmp_path: Path, text: str) -> None:
    benchmarks = tree(tmp_path, LINE, SPEC)
    (benchmarks / "workloads/net/lang.py").write_text(text)
    assert load_catalog(benchmarks).problems == ()


def test_a_broken_folder_makes_its_own_cases_unavailable_and_no_others(tmp_path: Path) -> None:
    benchmarks = tree(tmp_path, LINE, SPEC)
    shutil.copytree(benchmarks / "frameworks/thing", benchmarks / "frameworks/other")
    (benchmarks / "frameworks/other/framework.json").write_text("{")
    catalog = load_catalog(benchmarks)
    case = Case("net", "thing", Strategy.SINGLE, batch_size_per_device=2, scale="full")
    ill = dataclasses.replace(case, framework="other")
    cluster = Cluster("c", (Node("n1", "n1", "ssh"),), device_kind="cpu", devices_per_node=1)
    suite = Suite("s", "me", "c", (case, ill))
    made = make_plan(suite, cluster, catalog, run_kind=RunKind.ON_DEMAND)
    assert [job.case for job in made.jobs] == [case]
    assert [each.planned.case for each in made.cases] == [case, ill]
    folder = store_plan(made, Spool(tmp_path / "spool"))
    outcome = folder.case(ill.case_id).outcome()
    assert outcome is not None
    assert outcome["status"] == "unavailable"
    assert outcome["faults"] == []
    assert "other/framework.json:1: not valid JSON" in outcome["reasons"][0]["observed"]
    assert folder.case(case.case_id).outcome() is None


GPU = {"variants": {kind: {"device": kind, "pythons": ["3.11"]} for kind in ("cpu", "gpu")}}


@pytest.mark.parametrize(
    ("device", "builds", "available"),
    [
        ("cpu", {}, True),
        ("gpu", {}, False),
        ("cpu", {"thing": Build("thing", "gpu")}, False),
        ("gpu", {"thing": Build("thing", "", "path", None, "/opt/thing")}, True),
    ],
    ids=["another variant", "the device's", "the suite's", "a prefix, which needs no lock"],
)
def test_a_lock_that_is_missing_makes_the_cases_of_its_variant_unavailable(
    tmp_path: Path, device: str, builds: dict[str, Build], available: bool
) -> None:
    catalog = load_catalog(tree(tmp_path, {**LINE, **GPU}, SPEC))
    (problem,) = catalog.problems
    assert "variants.gpu: found no requirements-gpu.lock in this folder" in problem
    assert "`nightbench lock thing gpu`" in problem
    case = Case("net", "thing", Strategy.SINGLE, batch_size_per_device=2, scale="full")
    cluster = Cluster("c", (Node("n1", "n1", "ssh"),), device_kind=device, devices_per_node=1)
    suite = Suite("s", "me", "c", (case,), builds=builds)
    made = make_plan(suite, cluster, catalog, run_kind=RunKind.ON_DEMAND)
    assert [job.case for job in made.jobs] == ([case] if available else [])
    assert [why.observed for why in made.unavailable.values()] == ([] if available else [problem])


def test_a_variant_says_why_no_lock_of_it_ships(tmp_path: Path) -> None:
    said = "its wheels lie elsewhere; make lock-line makes one"
    gpu = {"device": "gpu", "pythons": ["3.11"], "unlocked": said}
    line = {**LINE, **GPU, "variants": {**GPU["variants"], "gpu": gpu}}
    folder = tree(tmp_path, line, SPEC)
    catalog = load_catalog(folder)
    assert catalog.problems == ()
    case = Case("net", "thing", Strategy.SINGLE, batch_size_per_device=2, scale="full")
    cluster = Cluster("c", (Node("n1", "n1", "ssh"),), device_kind="gpu", devices_per_node=1)
    suite = Suite("s", "me", "c", (case,))
    made = make_plan(suite, cluster, catalog, run_kind=RunKind.ON_DEMAND)
    (why,) = made.unavailable.values()
    assert str(why.observed).endswith(said)
    for place in ({"images": {"thing": "thing.sif"}}, {"paths": {"thing": "/opt/thing"}}):
        prepared = dataclasses.replace(
            cluster, environments=cluster.environments.model_copy(update=place)
        )
        made = make_plan(suite, prepared, catalog, run_kind=RunKind.ON_DEMAND)
        assert [job.case for job in made.jobs] == [case]
    (folder / "frameworks/thing/requirements-gpu.lock").write_text("thing==1.0\n")
    made = make_plan(suite, cluster, load_catalog(folder), run_kind=RunKind.ON_DEMAND)
    assert made.unavailable == {}
    assert [job.case for job in made.jobs] == [case]


def test_a_folder_that_holds_nothing_but_compiled_code_is_no_line(tmp_path: Path) -> None:
    benchmarks = tree(tmp_path, LINE, SPEC)
    (benchmarks / "frameworks/gone/__pycache__").mkdir(parents=True)
    assert list(load_catalog(benchmarks).frameworks) == ["thing"]


def test_a_description_that_is_yaml_and_no_json_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    benchmarks = tree(tmp_path, LINE, SPEC)
    file = benchmarks / "frameworks/thing/framework.json"
    file.write_text(file.read_text().replace('"single": true', '"single": yes'))
    assert list(load_catalog(benchmarks).problems) == [
        "benchmarks/frameworks/thing/framework.json:20: not valid JSON, in column 17: "
        "Expecting value"
    ]


def test_everything_in_the_repository_is_in_order() -> None:
    catalog = load_catalog(REPO / "benchmarks")
    assert catalog.problems == ()
    for path in find_clusters(REPO / "dags").values():
        load_cluster(path, catalog=catalog)
    suites = {name: load_suite(p, catalog) for name, p in find_suites(REPO / "dags").items()}
    assert [case.case_id for case in suites["demo"].cases] == [
        "resnet50_v1.5-pytorch-collective-1x1-bs2-smoke",
        "resnet50_v1.5-pytorch-collective-2x1-bs2-smoke",
        "resnet50_v1.5-paddle3-collective-1x1-bs2-smoke",
        "resnet50_v1.5-paddle3-collective-2x1-bs2-smoke",
        "ctr_dnn-paddle2-ps-1ps2tr-bs2-async-smoke",
        "ctr_dnn-paddle2-ps-1ps2tr-bs2-geo-smoke",
    ]


@pytest.mark.parametrize("series", ["x y", "3", "3.x", "3.11\n", "inf", "3.11.2", ""])
def test_an_interpreter_is_a_series(tmp_path: Path, series: str) -> None:
    line = {**LINE, "variants": {"cpu": {"device": "cpu", "pythons": ["3.7", series]}}}
    (found,) = load_catalog(tree(tmp_path, line, SPEC)).problems
    assert "variants.cpu.pythons" in found
    assert 'found "' in found


def test_pythons_are_ascending_and_machines_known(tmp_path: Path) -> None:
    cpu = {"device": "cpu", "pythons": ["3.11", "3.9"], "machines": ["x86"]}
    text = "\n".join(
        load_catalog(tree(tmp_path, {**LINE, "variants": {"cpu": cpu}}, SPEC)).problems
    )
    assert "variants.cpu.pythons: found 3.11, 3.9; expected 3.9, 3.11" in text
    assert "variants.cpu.machines" in text


def test_the_oldest_python_of_a_line_is_that_of_all_its_variants(tmp_path: Path) -> None:
    cpu, gpu = {"device": "cpu", "pythons": ["3.10"]}, {"device": "gpu", "pythons": ["3.9", "3.10"]}
    for variants, oldest in (({"cpu": cpu, "gpu": gpu}, "3.9"), ({"gpu": {"device": "gpu"}}, None)):
        benchmarks = tree(tmp_path, {**LINE, "variants": variants}, SPEC)
        assert load_catalog(benchmarks).frameworks["thing"].oldest_python == oldest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'{{"a": {"9" * 5000}}}', "not valid JSON: Exceeds the limit"),
        (f'{{"a": {"[" * 20000}{"]" * 20000}}}', "found hundreds of nested lists or mappings"),
    ],
)
def test_a_file_beyond_the_parser_is_one_problem(tmp_path: Path, text: str, said: str) -> None:
    benchmarks = tree(tmp_path, LINE, SPEC)
    (benchmarks / "workloads/net/spec.json").write_text(text)
    (found,) = load_catalog(benchmarks).problems
    assert said in found
