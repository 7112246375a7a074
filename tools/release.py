"""Make a release: checks, version, wheel, sdist, SBOM, hashes, tag. It publishes nothing.

    make release VERSION=0.2.0

What is missing is said in a sentence, and nothing is changed. Wheel, sdist, the bill of materials
(CycloneDX, of requirements/control.lock) and SHA256SUMS lie in dist/VERSION/; the tag is VERSION,
on a commit that sets the version, of the image too, and gives CHANGELOG.md its section. To
publish, push the tag: .github/workflows/release.yaml builds the same files again and compares.

`tools/release.py --build VERSION` only builds, from what is checked out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import InvalidVersion, Version

from nightbench.gang.wheels import packages_of

CI_PASSED = Path("build/ci-passed")
"""What `.ci/run` leaves where all stages are ok: the commit."""
UNRELEASED = "## Unreleased\n"
IMAGES = (
    *("docker/kubernetes/values.yaml", "docker/kubernetes/pod_template.yaml"),
    "docs/kubernetes.md",
)
"""Files that name the image of the newest release, or of the coming one before the first."""
_RELEASED = re.compile(r"^## ([0-9]\S*)", re.MULTILINE)
_VERSION = re.compile(r'^version = "(.*)"$', re.MULTILINE)


class Refused(Exception):
    """Why there is no release."""


def main(words: list[str]) -> int:
    """Make the release in the working directory; return the exit code."""
    try:
        if words[:1] == ["--build"]:
            build(words[1])
        else:
            release(words[0] if words else "")
    except Refused as refusal:
        print(f"release: {refusal}", file=sys.stderr)
        return 1
    return 0


def release(version: str) -> None:
    """Check, set the version, build, commit, tag.

    Raises:
        Refused: something is missing; nothing has changed.
    """
    project, changelog = Path("pyproject.toml"), Path("CHANGELOG.md")
    files = (project, changelog, *map(Path, IMAGES))
    before = {path: path.read_text(encoding="utf-8") for path in files}
    refuse(version, before[project], before[changelog])
    project.write_text(_VERSION.sub(f'version = "{version}"', before[project], count=1))
    title = f"## {version} ({datetime.now(UTC):%Y-%m-%d})\n"
    changelog.write_text(before[changelog].replace(UNRELEASED, f"{UNRELEASED}\n{title}", 1))
    named = image_version(before[project], before[changelog])
    for path in map(Path, IMAGES):
        path.write_text(re.sub(rf"\b{re.escape(named)}\b", version, before[path]))
    try:
        folder = build(version)
    except Refused:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
        raise
    git("commit", "-q", "-m", f"release: {version}", *map(str, before))
    git("tag", "-a", version, "-m", f"Nightbench {version}")
    print(f"tagged {version}; its files lie in {folder}")
    print(f"to publish: git push origin HEAD {version}; then set the next .dev0 in pyproject.toml")


def image_version(project: str, changelog: str) -> str:
    """Return the version that `IMAGES` name: the newest release, or the coming first one."""
    if newest := _RELEASED.search(changelog):
        return newest[1]
    coming = _VERSION.search(project)
    if coming is None:
        raise Refused('pyproject.toml: found no line `version = "..."`')
    return Version(coming[1]).base_version


def refuse(version: str, project: str, changelog: str) -> None:
    """Raise the first reason why this version cannot be released from here.

    Raises:
        Refused: the reason.
    """
    try:
        wanted = Version(version)
    except InvalidVersion:
        raise Refused(f'VERSION: found "{version}"; expected one like 1.2.0') from None
    if wanted.is_prerelease or wanted.local or str(wanted) != version:
        raise Refused(f'VERSION: found "{version}"; expected a final one like 1.2.0')
    if git("tag", "--list", version):
        raise Refused(f"the tag {version} is there already")
    now = _VERSION.search(project)
    if now is None or Version(now[1]) >= wanted:
        raise Refused(f"pyproject.toml is at {now and now[1]}; expected less than {version}")
    if changed := git("status", "--porcelain"):
        raise Refused(f"the working tree is not clean:\n{changed}")
    section = changelog.partition(UNRELEASED)[2].partition("\n## ")[0]
    if "\n- " not in section:
        raise Refused("CHANGELOG.md says nothing under Unreleased")
    passed = CI_PASSED.read_text().strip() if CI_PASSED.exists() else "none"
    head = git("rev-parse", "HEAD")
    if passed != head:
        raise Refused(f".ci/run last passed for {passed[:12]}, HEAD is {head[:12]}: run it here")


def build(version: str) -> Path:
    """Build wheel, sdist, SBOM and hashes of what is checked out; return their folder.

    Raises:
        Refused: the build failed, or what it made is of another version.
    """
    folder = Path("dist") / version
    if folder.exists():
        raise Refused(f"{folder} is there already: remove it")
    # Without that variable hatchling dates all files alike: the same commit makes the same bytes.
    env = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", folder]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"the build failed:\n{done.stderr}")
    made = sorted(path.name for path in folder.iterdir())
    if not all(f"-{version}" in name for name in made):
        raise Refused(f"expected files of {version}; the build made {', '.join(made)}")
    lock = Path("requirements/control.lock").read_text(encoding="utf-8")
    (folder / "sbom.cdx.json").write_text(json.dumps(materials(version, lock), indent=1) + "\n")
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
    ]
    (folder / "SHA256SUMS").write_text("".join(sums))
    return folder


def materials(version: str, lock: str) -> dict[str, object]:
    """Return the bill of materials of the control plane: CycloneDX 1.5, every package by hash."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "nightbench", "version": version}
        },
        "components": [
            {
                "type": "library",
                "name": each.name,
                "version": each.version,
                "purl": f"pkg:pypi/{each.name}@{each.version}",
                "hashes": [{"alg": "SHA-256", "content": x} for x in sorted(each.hashes)],
            }
            for each in packages_of(lock, "nightbench", None, replaced=False)
        ],
    }


def git(*words: str) -> str:
    """Return what git prints; a failure of it ends the program."""
    return subprocess.run(
        ["git", *words], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
