"""One damaged file on a node takes nothing else with it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from nodeside import commands, control_measurements, root_folder
from nodeside.compare_bundle import compare
from nodeside.containers import SETTINGS, remove_below
from nodeside.files import EventLog, read_json
from tests.damage import DAMAGES

NAMES = ("a", "b", "c")


def written(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_holds_no_object_is_absent(tmp_path: Path, damage: str) -> None:
    path = written(tmp_path / "x.json", {"key": ["value"] * 9})
    DAMAGES[damage](path)
    assert read_json(str(path)) is None


@pytest.mark.parametrize("damage", DAMAGES)
def test_environments_and_their_engines_are_listed_without_the_damaged_one(
    tmp_path: Path, damage: str
) -> None:
    for name in NAMES:
        env = tmp_path / "envs" / name
        written(env / ".ok.json", {"line": name, "variant": "cpu", "version": "1"})
        written(env / SETTINGS, {"engine": "/x/apptainer"})
    for name in (".ok.json", SETTINGS):
        DAMAGES[damage](tmp_path / "envs" / "b" / name)
    assert [each["name"] for each in root_folder.environments(str(tmp_path))] == ["a", "c"]
    assert remove_below(str(tmp_path), "run-1") == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_lines_are_read_without_the_damaged_one(tmp_path: Path, damage: str) -> None:
    for name in NAMES:
        described = {
            "variants": {"cpu": {"pythons": [f"3.1{NAMES.index(name)}"]}},
            "controls": {"cpu": "controls.py"},
        }
        written(tmp_path / "frameworks" / name / "framework.json", described)
    DAMAGES[damage](tmp_path / "frameworks" / "a" / "framework.json")
    assert root_folder._series(str(tmp_path)) == ["3.11", "3.12"]
    prefixes = {name: f"/prefix/{name}" for name in NAMES}
    found = control_measurements._script_of("cpu", str(tmp_path), str(tmp_path), prefixes)
    assert found is not None
    assert found[0] == "/prefix/b/bin/python"


@pytest.mark.parametrize("damage", DAMAGES)
def test_commands_are_read_without_the_damaged_one(tmp_path: Path, damage: str) -> None:
    control = tmp_path / "control"
    (control / "epoch-0001").mkdir(parents=True)
    for number in (1, 2, 3):
        written(control / f"prepare-{number:03d}.json", {"epoch": 1})
    DAMAGES[damage](control / "prepare-002.json")
    read = commands.CommandFolder(str(control), EventLog(os.devnull))
    read.read_new()
    assert sorted(read.commands) == [("prepare", 1), ("prepare", 3)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bundle_is_compared_without_the_damaged_repeat(tmp_path: Path, damage: str) -> None:
    original = {"case_id": "x", "unit": "samples", "throughput": 10.0, "n": 3}
    written(tmp_path / "measurement.json", {**original, "strategy": "single", "sync": None})
    window = {"steps": 10, "wall_s": 1.0, "open_s": 0.0, "close_s": 1.0}
    process = {"measured": True, "summary": {"samples_per_step": 1.0, "window": window}}
    repeats = tmp_path / "jobs" / "x" / "nodes" / "n1" / "repeats"
    for number in (1, 2, 3):
        result = {"status": "ok", "processes": [process]}
        written(repeats / f"{number:03d}" / "result.json", result)
    DAMAGES[damage](repeats / "002" / "result.json")
    assert compare(str(tmp_path))["here"] == {"median": 10.0, "n": 2, "repeats": [10.0, 10.0]}
