"""One damaged file of a project takes nothing else with it, and is shown with its reason."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.damage import DAMAGES, NAMES

from nightbench.cli import common
from nightbench.config.project import validated
from nightbench.config.suite_heads import (
    command_lines,
    framework_names,
    parallel_cases,
    suite_heads,
    workload_scales,
)
from nightbench.core.printable import escaped
from nightbench.night.scheduled_suites import scheduled_suites
from nightbench.report.site import published_suites

REPO = Path(__file__).resolve().parents[3]
LINE, WORKLOAD = "benchmarks/frameworks/jax", "benchmarks/workloads/vgg16"
FILES = (
    "dags/suites/nightly_wide.yaml",
    "dags/clusters/wide.yaml",
    *(f"{LINE}/{name}" for name in ("framework.json", "launch.py", "requirements-cpu.lock")),
    *(f"{WORKLOAD}/{name}" for name in ("spec.json", "data.py", "pytorch.py")),
)
UNUSED = (
    *("paddle*", "tensorflow*", "mxnet", "oneflow", "megengine", "mindspore"),
    *("bert_large", "ctr_dnn", "gpt2", "llama", "mixtral", "se_*", "simnet*", "transformer*"),
)
"""Lines and workloads that no suite here names: without them a project is read in a tenth."""
PAIRS = [
    *((name, damage) for name in FILES[:3] for damage in DAMAGES),
    *(
        (name, damage)
        for name in FILES[3:]
        for damage in ("nuls", "latin-1", "unreadable", "folder")
    ),
]
"""YAML and JSON are read by one function, and so are modules and locks."""
HARMLESS = {
    *((f"{WORKLOAD}/pytorch.py", damage) for damage in ("unreadable", "folder")),
}
"""What is a smaller project, and no broken one: without its model file a line has no such case."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two good suites and two broken ones, with lines and workloads of its own."""
    shutil.copytree(REPO / "tests/dags/fixtures", tmp_path / "dags")
    ignored = shutil.ignore_patterns("__pycache__", *UNUSED)
    shutil.copytree(REPO / "benchmarks", tmp_path / "benchmarks", ignore=ignored)
    for name in ("dags", "benchmarks", "home"):
        monkeypatch.setenv(f"NIGHTBENCH_{name.upper()}", str(tmp_path / name))
    return tmp_path


@pytest.mark.parametrize(("name", "damage"), PAIRS)
def test_the_others_are_read_and_the_damaged_one_is_named(
    root: Path, name: str, damage: str
) -> None:
    DAMAGES[damage](root / name)
    found, wrong = validated()
    assert any("nightly_cpu.yaml: suite" in line for line in found)
    assert any("pair.yaml: cluster" in line for line in found)
    assert any(name in each or f"{Path(name).parent}/" in each for each in wrong) == (
        (name, damage) not in HARMLESS
    )

    problems = {each.suite: each.problem or "" for each in scheduled_suites()}
    assert problems["nightly_cpu"] == ""
    assert ("nightly_wide" in name or "wide.yaml" in name) == bool(problems["nightly_wide"])
    heads = {each.name for each in suite_heads(root / "dags") if each.problem is None}
    assert heads >= {"by_hand", "nightly_cpu"}
    assert parallel_cases(root / "dags").keys() == {"pair", "wide"}
    lines = (root / "benchmarks", root / "dags")
    assert {"pytorch", "jax"} <= {*framework_names(*lines)}
    assert command_lines(*lines) == ("external",)
    assert workload_scales(*lines)["bert_base"] != []


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_others_are_published_and_the_damaged_one_is_named(root: Path, damage: str) -> None:
    suites = root / "dags" / "suites"
    for name in ("by_hand", "nightly_cpu", "nightly_wide"):
        with (suites / f"{name}.yaml").open("a") as file:
            file.write("publish: {}\n")
    found, refused = published_suites()
    assert [suite.name for suite in found] == ["by_hand", "nightly_cpu", "nightly_wide"]
    assert "nightly_wide.yaml" not in str(refused)
    DAMAGES[damage](suites / "nightly_wide.yaml")
    found, refused = published_suites()
    assert [suite.name for suite in found] == ["by_hand", "nightly_cpu"]
    assert "nightly_wide.yaml" in str(refused)


@pytest.mark.parametrize("name", ["suites/a.yml", "suites/more/a.YAML", "clusters/a.Yml"])
def test_a_file_with_another_ending_is_named(root: Path, name: str) -> None:
    path = root / "dags" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("suite: a\n")
    found, wrong = validated()
    assert next(line for line in wrong if name in line).endswith("rename it to a.yaml")
    assert any("nightly_cpu.yaml: suite" in line for line in found)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_suite_can_have_is_refused_alone(root: Path, name: str) -> None:
    suites = root / "dags" / "suites"
    shutil.copy(suites / "nightly_cpu.yaml", suites / f"{name}.yaml")
    heads = {each.name: each for each in suite_heads(root / "dags")}
    head = heads[escaped(name)]
    assert "the name of the file" in str(head.problem)
    assert f"{head.dag_id} {head.name}".isprintable()
    assert heads["nightly_cpu"].problem is None
    found, wrong = validated()
    assert any("nightly_cpu.yaml: suite" in line for line in found)
    assert "\n".join([*found, *wrong]).encode()
    assert {each.suite: each.problem for each in scheduled_suites()}["nightly_cpu"] is None


def test_status_and_nights_print_what_is_not_scheduled(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common.warn_unscheduled()
    broken = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in broken] == [
        "Suite bad_schedule is not scheduled",
        "Suite broken is not scheduled",
    ]
    assert "expected a cron expression" in broken[0]
    callers = (REPO / f"plugins/nightbench/cli/{name}.py" for name in ("nights", "services"))
    assert all("common.warn_unscheduled()" in path.read_text() for path in callers)
