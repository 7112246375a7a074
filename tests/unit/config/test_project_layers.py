"""A project's lines and workloads lie over those of the package."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nightbench.config import load_catalog
from nightbench.config.suite_heads import framework_names, workload_scales
from nightbench.core.code_digest import code_digest, shipped_files
from nightbench.core.model import Catalog
from nightbench.night.code_snapshot import shipment_of_now

REPO = Path(__file__).resolve().parents[3]
BENCHMARKS = REPO / "benchmarks"
BUILT_IN = load_catalog(BENCHMARKS)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A line and a workload of its own, and a model file for the built-in workload `sleep`."""
    shutil.copytree(REPO / "tests" / "integration" / "newcomer", tmp_path, dirs_exist_ok=True)
    model = tmp_path / "workloads" / "sleep" / "relay.py"
    model.parent.mkdir()
    shutil.copy(tmp_path / "workloads" / "film" / "relay.py", model)
    return tmp_path


def changed(project: Path, path: str, **keys: object) -> Catalog:
    file = project / path
    if not file.parent.exists():
        shutil.copytree(BENCHMARKS / Path(path).parent, file.parent)
    file.write_text(json.dumps({**json.loads(file.read_text()), **keys}))
    return load_catalog(BENCHMARKS, project)


def test_they_are_found_beside_the_built_in_ones(project: Path) -> None:
    catalog = load_catalog(BENCHMARKS, project)
    assert catalog.problems == ()
    assert catalog.frameworks.keys() == {*BUILT_IN.frameworks, "relay"}
    assert catalog.workloads.keys() == {*BUILT_IN.workloads, "film"}
    assert "relay" in framework_names(BENCHMARKS, project)
    assert "film" in workload_scales(BENCHMARKS, project)


def test_a_line_takes_a_built_in_workload_and_a_workload_built_in_lines(project: Path) -> None:
    shutil.copy(BENCHMARKS / "workloads/sleep/python.py", project / "workloads/film/python.py")
    workloads = load_catalog(BENCHMARKS, project).workloads
    assert "relay" in workloads["sleep"].frameworks
    assert {"relay", "fake"} <= set(workloads["film"].frameworks)
    # What a workload is does not change by who may run it.
    assert workloads["sleep"].digest == BUILT_IN.workloads["sleep"].digest


@pytest.mark.parametrize("path", ["frameworks/fake/framework.json", "workloads/sleep/spec.json"])
def test_a_name_that_is_built_in_names_both_files_unless_it_replaces(
    project: Path, path: str
) -> None:
    shutil.rmtree(project / "workloads" / "sleep")
    (problem,) = changed(project, path).problems
    assert str(project / path) in problem
    assert f'benchmarks/{path}; expected "replaces": true' in problem
    assert changed(project, path, replaces=True).problems == ()
    own = "frameworks/relay/framework.json"
    (problem,) = changed(project, own, replaces=True).problems
    assert "replaces: found true; expected a built-in to replace" in problem


def test_an_added_file_of_a_built_in_name_is_an_error(project: Path) -> None:
    (project / "workloads" / "sleep" / "data.py").write_text("batch = weights = None\n")
    (problem,) = load_catalog(BENCHMARKS, project).problems
    assert "benchmarks/workloads/sleep/spec.json:" in problem
    assert f"{project / 'workloads/sleep/data.py'} has the name of an existing file" in problem


def test_one_tree_is_shipped_and_named(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(project, "frameworks/fake/framework.json", replaces=True)
    (project / "frameworks" / "fake" / "faults.py").unlink()
    shipped = dict(shipped_files(BENCHMARKS, project))
    assert "frameworks/fake/faults.py" not in shipped
    assert shipped["workloads/sleep/relay.py"] == project / "workloads/sleep/relay.py"
    assert shipped["workloads/sleep/spec.json"] == BENCHMARKS / "workloads/sleep/spec.json"
    digest = load_catalog(BENCHMARKS, project).code_digest
    assert digest not in (BUILT_IN.code_digest, code_digest(BENCHMARKS))
    for name, value in (("DAGS", project), ("HOME", tmp_path / "home")):
        monkeypatch.setenv(f"NIGHTBENCH_{name}", str(value))
    tree = shipment_of_now(digest, None).benchmarks
    assert code_digest(tree) == digest == load_catalog().code_digest
    assert (tree / "workloads" / "film" / "spec.json").is_file()
