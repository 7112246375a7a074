"""A project of one's own: what `nightbench init` writes, and what is found in it."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.test_command import REPO, SUITE, nightbench


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
    assert "left as it is: README.md; Nightbench's own is " in made.stdout
    assert "left as it is: suites/first.yaml" in made.stdout
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
