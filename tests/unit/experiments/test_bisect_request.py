"""Which versions are candidates, and what a comparison says of one."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nodeside import versions as node_side

from nightbench.config.experiment_requests import BisectRequest
from nightbench.core.errors import UserError
from nightbench.experiments.bisect import judged
from nightbench.experiments.bisect_request import between, store_bisect
from nightbench.experiments.version_search import VersionResult
from nightbench.gang.installable_versions import versions_of
from nightbench.spool import Spool


def names(*files: str) -> list[dict[str, Any]]:
    return [{"name": file} for file in files]


def test_versions_are_those_of_wheels_that_run_there() -> None:
    files = names(
        "torch-2.9.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.10.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-cp311-cp311-manylinux_2_28_aarch64.whl",
        "torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.12.0-cp311-cp311-win_amd64.whl",
        "torch_geometric-2.13.0-py3-none-any.whl",
        "torch-nonsense.whl",
    )
    files += [
        {"name": "torch-2.14.0-py3-none-any.whl", "yanked": True},
        {"name": "torch-2.15.0-py3-none-any.whl", "requires_python": ">=3.12"},
        {"name": "torch-2.16.0-py3-none-any.whl", "requires_python": ">=3.9"},
    ]
    assert versions_of(files, "torch", ["3.11"], "x86_64") == ("2.9.0", "2.10.0", "2.16.0")


def test_candidates_lie_between_in_the_order_of_versions() -> None:
    known = ["1.9", "1.10.0+cpu", "1.11rc1", "1.11", "1.12.0+cpu", "1.12.1"]
    assert between(known, "1.9", "1.12.0") == ("1.9", "1.10.0+cpu", "1.11", "1.12.0")
    # Whoever measures nightly builds looks for a nightly build.
    nightly = between(["1.1.dev1", "1.1.dev2", "1.1.dev10"], "1.1.dev1", "1.1.dev10")
    assert nightly == ("1.1.dev1", "1.1.dev2", "1.1.dev10")


@pytest.mark.parametrize(("good", "bad"), [("2", "1"), ("1", "1.0"), ("one", "2")])
def test_bad_must_be_a_newer_version(good: str, bad: str) -> None:
    with pytest.raises(UserError, match="expected"):
        between([], good, bad)


@pytest.mark.parametrize(
    ("verdict", "low", "high", "result"),
    [
        ("slower", 0.88, 0.92, VersionResult.BAD),
        ("same", 0.97, 1.02, VersionResult.GOOD),
        ("faster", 1.02, 1.05, VersionResult.GOOD),
        # Half of the fall is 5 %: above that it is good, whatever a comparison by itself says.
        ("inconclusive", 0.96, 1.08, VersionResult.GOOD),
        ("inconclusive", 0.93, 0.97, VersionResult.UNSURE),
        ("inconclusive", None, None, VersionResult.SKIPPED),
    ],
)
def test_half_of_the_fall_decides(
    verdict: str, low: float | None, high: float | None, result: VersionResult
) -> None:
    row = {
        "verdict": verdict,
        "low": low,
        "high": high,
        "ratio": None if low is None else 0.9,
        "n": 0 if low is None else 5,
        "stopped": "launches failed",
        "sentence": "",
    }
    found, why = judged(row, 0.05)
    assert found is result
    assert why


# --- on the node ----------------------------------------------------------------------------


@pytest.fixture
def code(tmp_path: Path) -> Path:
    line = tmp_path / "code/frameworks/tiny"
    line.mkdir(parents=True)
    described = {"line": "tiny", "version": "1.0", "package": "Tiny_Main"}
    (line / "framework.json").write_text(
        json.dumps({**described, "variants": {"cpu": {"device": "cpu", "pythons": ["3.11"]}}})
    )
    (line / "requirements-cpu.lock").write_text("tiny-main==1.0\n")
    return tmp_path / "code"


def asked(code: Path, monkeypatch: pytest.MonkeyPatch, **env: str) -> dict[str, Any]:
    for name in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    words = {"line": "tiny", "variant": "cpu", "index_url": None, "find_links": []}
    words["root"] = str(code.parent)
    return node_side.versions(argparse.Namespace(**words), str(code))


def test_a_node_tells_of_its_folders_and_indexes(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, index = tmp_path / "wheels", tmp_path / "simple"
    wheels.mkdir()
    (index / "tiny-main").mkdir(parents=True)
    (wheels / "tiny_main-1.1-py3-none-any.whl").touch()
    (wheels / "tiny_other-1.1-py3-none-any.whl").touch()
    (index / "tiny-main/index.html").write_text(
        '<a href="../f/tiny_main-1.2-py3-none-any.whl#sha256=0" '
        'data-requires-python="&gt;=3.8">x</a>'
        '<a href="tiny_main-1.3-py3-none-any.whl" data-yanked="">x</a>'
        '<a href="tiny_main-1.3.tar.gz">x</a>'
    )
    told = asked(code, monkeypatch, PIP_FIND_LINKS=str(wheels), PIP_INDEX_URL=f"file://{index}")
    found = {file["name"].split("-")[1]: file for file in told["files"]}
    assert sorted(found) == ["1.1", "1.2", "1.3"]
    assert found["1.2"]["requires_python"] == ">=3.8"
    assert found["1.3"]["yanked"]
    assert told["problems"] == []


def test_a_source_that_is_away_is_told_and_hides_no_other(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny_main-1.1-py3-none-any.whl").touch()
    told = asked(
        code,
        monkeypatch,
        PIP_FIND_LINKS=f"{tmp_path} {tmp_path}/away",
        PIP_INDEX_URL="http://me:secret@127.0.0.1:9/simple",
    )
    assert [file["name"] for file in told["files"]] == ["tiny_main-1.1-py3-none-any.whl"]
    assert len(told["problems"]) == 2
    assert "secret" not in json.dumps(told)


def test_a_bisect_is_not_continued_for_another_metric(tmp_path: Path) -> None:
    asked = BisectRequest("case", "demo", "local", "1", "2", ("1", "2"), "fake")
    folder = Spool(tmp_path).comparison("bisect-1")
    store_bisect(folder, asked, "ada", "demo", "local")
    store_bisect(folder, replace(asked, budget_s=9.0), "ada", "demo", "local")
    with pytest.raises(UserError, match="metric changed since the experiment began"):
        store_bisect(folder, replace(asked, metric="training"), "ada", "demo", "local")
