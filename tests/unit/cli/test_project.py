"""A project of one's own: what `nightbench init` writes, and what is found in it."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.cli.test_command import REPO, SUITE, nightbench
from tests.wheels import make_wheel

from nightbench.cli.db import upgrades_of


def test_a_new_project_is_valid_and_planned(tmp_path: Path) -> None:
    made = nightbench(tmp_path, "init", "mine")
    assert made.returncode == 0, made.stderr
    project = tmp_path / "mine"
    for folder in ("frameworks", "workloads"):
        assert (project / folder).is_dir()
    for words in (["validate"], ["plan", "first"], ["plan", "suites/first.yaml"]):
        done = nightbench(project, *words, NIGHTBENCH_DAGS="")
        assert done.returncode == 0, done.stderr
        assert str(REPO) not in done.stdout
    assert "resnet50_v1.5-pytorch-collective-2x1-bs2-smoke" in done.stdout


def test_what_is_there_is_left_and_named(tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    for name in ("README.md", "suites/first.yaml"):
        (tmp_path / name).write_text("mine\n")
    made = nightbench(tmp_path, "init")
    assert (tmp_path / "README.md").read_text() == "mine\n"
    assert "kept: README.md; Nightbench's version is " in made.stdout
    assert "kept: suites/first.yaml" in made.stdout
    assert "wrote dags/nightbench_dags.py" in made.stdout
    again = nightbench(tmp_path, "init")
    assert "wrote" not in again.stdout
    assert "dags/nightbench_dags.py" not in again.stdout


def test_the_project_is_that_of_the_folder_in_which_one_stands(tmp_path: Path) -> None:
    nightbench(tmp_path, "init", "mine")
    (tmp_path / "mine" / "suites" / "trial.yaml").write_text(SUITE.replace("pair", "local"))
    inside = tmp_path / "mine" / "suites"
    assert nightbench(inside, "plan", "trial", NIGHTBENCH_DAGS="").returncode == 0
    outside = nightbench(tmp_path, "plan", "trial", NIGHTBENCH_DAGS="")
    assert 'suite: found "trial"' in outside.stderr


def test_what_an_airflow_lacks_is_said_with_how_to_add_it(tmp_path: Path) -> None:
    nightbench(tmp_path, "init", "dags")
    done = nightbench(tmp_path, "check", "--json", AIRFLOW__API__BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 1, done.stderr
    found = {each["subject"]: each for each in json.loads(done.stdout)}
    ok = ("versions", "provider", "pages", "executor", "links", "spool", "project")
    assert {name: found[name]["state"] for name in ok} == dict.fromkeys(ok, "ok")
    wrong = found.keys() - set(ok)
    assert wrong > {"api-server", "connection nightbench_warehouse_reader", "warehouse"}
    for name in wrong:
        assert found[name]["state"] == "missing"
        assert found[name]["advice"], name
    assert "AIRFLOW_CONN_NIGHTBENCH_LOCAL" in found["connection nightbench_local"]["advice"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], 'LINE: found "nothing"; expected one of external, fake'),
        (["pytorch", "gpu"], 'VARIANT: found "gpu"; pytorch has cpu, '),
        (["fake"], "fake has none, because the line has no locks"),
    ],
)
def test_a_lock_is_of_a_line_and_a_variant(tmp_path: Path, words: list[str], said: str) -> None:
    done = nightbench(tmp_path, "lock", *words)
    assert done.returncode == 1
    assert said in done.stderr


def test_a_lock_that_gains_a_python_keeps_versions_and_has_the_hashes_of_all_wheels(
    tmp_path: Path,
) -> None:
    line, wheels = tmp_path / "frameworks" / "thing", tmp_path / "main" / "thing"
    line.mkdir(parents=True)
    build = {"device": "cpu", "pythons": ["3.11", "3.12"]}
    (line / "framework.json").write_text(json.dumps({"variants": {"cpu": build}}))
    (line / "requirements-cpu.in").write_text("thing\n")
    hashes = {}
    for version, tag in (("1.0", "cp311"), ("1.0", "cp312"), ("2.0", "cp312")):
        made = make_wheel(wheels, "thing", version, ballast=8)
        made = made.rename(wheels / f"thing-{version}-{tag}-none-any.whl")
        hashes[made.name] = f"sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}"
    first, second, _ = hashes
    for folder, names in ((wheels, list(hashes)), (tmp_path / "extra" / "thing", [second])):
        folder.mkdir(parents=True, exist_ok=True)
        links = (f'<a href="{wheels}/{x}#{hashes[x].replace(":", "=")}">{x}</a>' for x in names)
        (folder / "index.html").write_text("<!DOCTYPE html>" + "".join(links))
    lock = line / "requirements-cpu.lock"
    lock.write_text(
        f"thing==1.0 \\\n    --hash={hashes[first]}\n    # via -r requirements-cpu.in\n"
    )
    indexes = {
        "UV_DEFAULT_INDEX": f"file://{tmp_path}/main",
        "UV_INDEX": f"file://{tmp_path}/extra",
    }
    done = nightbench(tmp_path, "lock", "thing", NIGHTBENCH_DAGS=str(tmp_path), **indexes)
    assert done.returncode == 0, done.stderr
    text = lock.read_text()
    assert "thing==1.0" in text
    assert "thing==2.0" not in text
    assert {hashes[name] in text for name in (first, second)} == {True}


def test_the_way_back_is_told_by_upgrade_with_the_archive_from_before(tmp_path: Path) -> None:
    made, later = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 11, 26, 9, tzinfo=UTC)
    (tmp_path / "warehouse-before-0003-c-20261126T090000.backup").touch()
    second = timedelta(seconds=1)
    applied = [("0001-a", made), ("0002-b", made + second), ("0003-c", later)]
    applied += [("0004-d", later + second), ("0005-e", later + timedelta(days=1))]
    newest, first = upgrades_of(applied, tmp_path)
    assert (newest["migrations"], newest["archives"]) == (["0005-e"], [])
    assert first["migrations"] == ["0003-c", "0004-d"]
    assert first["archives"] == [str(tmp_path / "warehouse-before-0003-c-20261126T090000.backup")]
    assert upgrades_of(applied[:2], tmp_path) == []


def test_without_a_warehouse_there_is_no_way_back(tmp_path: Path) -> None:
    done = nightbench(tmp_path, "db", "downgrade-plan", NIGHTBENCH_HOME=str(tmp_path))
    assert done.returncode != 0
    assert "There is no warehouse yet" in done.stderr
