"""`make release`: what is missing is said and nothing changes; what it makes can be checked."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[3]
PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "nightbench"
version = "0.2.0.dev0"
requires-python = ">=3.11"

[tool.hatch.build]
include = ["thing.py"]
"""
LOCK = (
    "numpy==2.1.0 \\\n    --hash=sha256:" + "a" * 64 + " \\\n    --hash=sha256:" + "b" * 64 + "\n"
)


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("release", REPO / "tools/release.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project that can be released as 0.2.0."""
    monkeypatch.chdir(tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "tests")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "tests@example.org")
    texts = {
        "pyproject.toml": PROJECT,
        "thing.py": "",
        ".gitignore": "/build/\n/dist/\n",
        "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- New.\n\n## 0.1.0\n\n- Old.\n",
        "requirements/control.lock": LOCK,
        **dict.fromkeys(tool().IMAGES, "image: nightbench:0.1.0\nchart: 10.1.0\n"),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "all")
    (tmp_path / "build").mkdir()
    (tmp_path / "build/ci-passed").write_text(git("rev-parse", "HEAD"))
    return tmp_path


def test_a_release_is_built_hashed_and_tagged_and_nothing_is_published(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool().main(["0.2.0"]) == 0
    assert "git push origin HEAD 0.2.0" in capsys.readouterr().out
    folder = project / "dist/0.2.0"
    files = ["nightbench-0.2.0-py3-none-any.whl", "nightbench-0.2.0.tar.gz", "sbom.cdx.json"]
    sums = (folder / "SHA256SUMS").read_text().splitlines()
    assert sums == [f"{hashlib.sha256((folder / x).read_bytes()).hexdigest()}  {x}" for x in files]
    (component,) = json.loads((folder / "sbom.cdx.json").read_text())["components"]
    assert component["purl"] == "pkg:pypi/numpy@2.1.0"
    assert [each["content"] for each in component["hashes"]] == ["a" * 64, "b" * 64]
    assert git("describe", "--exact-match") == "0.2.0\n"
    assert git("status", "--porcelain") == ""
    assert 'version = "0.2.0"' in (project / "pyproject.toml").read_text()
    for name in tool().IMAGES:
        assert (project / name).read_text() == "image: nightbench:0.2.0\nchart: 10.1.0\n"
    changelog = (project / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 0.2.0 (2" in changelog
    assert changelog.index("- New.") > changelog.index("## 0.2.0")
    # The tag holds all that is needed to build the same again.
    before = {name: (folder / name).read_bytes() for name in files}
    folder.rename(project / "dist/before")
    (project / "build/ci-passed").unlink()
    assert tool().main(["--build", "0.2.0"]) == 0
    assert {name: (folder / name).read_bytes() for name in files} == before


def test_before_the_first_release_the_images_name_the_coming_version() -> None:
    version = tool().image_version
    assert version(PROJECT, "# Changelog\n\n## Unreleased\n\n- New.\n") == "0.2.0"
    assert (
        version(PROJECT, "## Unreleased\n\n## 0.1.1 (2026-01-01)\n\n## 0.1.0 (2025-01-01)\n")
        == "0.1.1"
    )


def test_what_is_missing_is_said_and_nothing_has_changed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(version: str = "0.2.0") -> str:
        head = git("rev-parse", "HEAD"), git("status", "--porcelain")
        assert tool().main([version]) == 1
        assert (git("rev-parse", "HEAD"), git("status", "--porcelain")) == head
        return capsys.readouterr().err

    assert 'VERSION: found ""; expected one like 1.2.0' in refused("")
    assert 'VERSION: found "0.2.0rc1"; expected a final one' in refused("0.2.0rc1")
    assert "pyproject.toml is at 0.2.0.dev0; expected less than 0.1.9" in refused("0.1.9")
    (project / "thing.py").write_text("1 +")
    assert "the working tree is not clean:\nM thing.py" in refused()
    git("commit", "-qam", "changed")
    assert ".ci/run last passed for " in refused()
    (project / "build/ci-passed").write_text(git("rev-parse", "HEAD"))
    (project / "pyproject.toml").write_text(PROJECT.replace('["thing.py"]', "1"))
    git("commit", "-qam", "broken")
    (project / "build/ci-passed").write_text(git("rev-parse", "HEAD"))
    assert "the build failed:" in refused()
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- Old.\n")
    git("commit", "-qam", "nothing new")
    assert "CHANGELOG.md says nothing under Unreleased" in refused()
    git("tag", "0.2.0")
    assert "the tag 0.2.0 is there already" in refused()
