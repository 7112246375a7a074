"""The catalog: from descriptions in folders, and what is said of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nightbench.config import find_clusters, find_suites, load_catalog, load_cluster, load_suite
from nightbench.core.errors import UserError

REPO = Path(__file__).resolve().parents[3]

LINE = {
    "line": "thing",
    "title": "Thing",
    "version": "1.0",
    "python": "3.11",
    "variants": ["cpu"],
    "strategies": ["single"],
    "precisions": {"cpu": ["fp32"]},
}
SPEC = {
    "name": "net",
    "title": "Net",
    "unit": "images",
    "strategies": ["single"],
    "scales": {"full": {"size": 224, "layers": [1, 2]}},
}


def tree(tmp_path: Path, line: dict[str, object], spec: dict[str, object]) -> Path:
    for path, document in (
        ("frameworks/thing/framework.json", line),
        ("workloads/net/spec.json", spec),
    ):
        file = tmp_path / "benchmarks" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=2))
    (tmp_path / "benchmarks/workloads/net/thing.py").write_text("")
    return tmp_path / "benchmarks"


def test_what_is_in_the_folders_is_in_the_catalog(tmp_path: Path) -> None:
    catalog = load_catalog(tree(tmp_path, LINE, SPEC))
    assert catalog.frameworks["thing"].python == "3.11"
    assert catalog.workloads["net"].frameworks == ("thing",)
    assert catalog.workloads["net"].scales["full"] == {"size": 224, "layers": [1, 2]}


def test_a_mended_title_or_a_new_scale_starts_no_new_history(tmp_path: Path) -> None:
    first = load_catalog(tree(tmp_path, LINE, SPEC)).workloads["net"].digest
    scales = {**SPEC["scales"], "smoke": {"size": 32}}
    other = load_catalog(tree(tmp_path, LINE, {**SPEC, "title": "The net", "scales": scales}))
    assert other.workloads["net"].digest == first
    changed = load_catalog(tree(tmp_path, LINE, {**SPEC, "definition": {"optimiser": "sgd"}}))
    assert changed.workloads["net"].digest != first


def test_all_wrong_descriptions_are_said_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = {**LINE, "line": "thin", "strategies": ["singel"], "extra": 1}
    spec = {**SPEC, "scales": {"full": {"converges": "yes"}}}
    with pytest.raises(UserError) as caught:
        load_catalog(tree(tmp_path, line, spec))
    assert str(caught.value).splitlines() == [
        'benchmarks/frameworks/thing/framework.json:2: line: found "thin"; expected the name of '
        'its folder, "thing"',
        'benchmarks/frameworks/thing/framework.json:10: strategies[0]: found "singel"; expected '
        'one of collective, parameter_server, single (did you mean "single"?)',
        'benchmarks/frameworks/thing/framework.json:17: extra: found the unknown key "extra"; '
        "expected one of compilers, for_tests, line, package, precisions, python, remarks, "
        "size_bytes, strategies, sync_modes, title, variants, version",
        'benchmarks/workloads/net/spec.json:10: scales.full.converges: found "yes"; expected true '
        "or false",
    ]


def test_everything_in_the_repository_is_in_order() -> None:
    catalog = load_catalog(REPO / "benchmarks")
    for path in find_clusters(REPO / "dags").values():
        load_cluster(path, catalog=catalog)
    suites = {name: load_suite(p, catalog) for name, p in find_suites(REPO / "dags").items()}
    assert [case.case_id for case in suites["demo"].cases] == [
        "resnet50_v1.5-pytorch-collective-1x1-bs2-smoke",
        "resnet50_v1.5-pytorch-collective-2x1-bs2-smoke",
        "resnet50_v1.5-paddle3-collective-1x1-bs2-smoke",
        "resnet50_v1.5-paddle3-collective-2x1-bs2-smoke",
        "ctr_dnn-paddle1-ps-1ps2tr-bs2-smoke",
        "ctr_dnn-paddle1-ps-1ps2tr-bs2-async-smoke",
    ]
