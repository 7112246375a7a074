"""init, check, lock: set up a project and check the Airflow that runs it."""

import json as jsonlib
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import FAILED, JsonOption, out, say
from nightbench.cli.entry import quiet
from nightbench.config import locations
from nightbench.core.code_digest import layers
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model.catalog import MACHINES
from nightbench.core.package_files import package_folder
from nightbench.local.home import uv_env

app = typer.Typer()
_TEMPLATE = Path(__file__).with_name("template")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Project folder; it may exist.")] = Path("."),
) -> None:
    """Create a project for your own repository: suites, clusters and a DAG file.

    Existing files are kept and listed. If the folder is part of a larger repository, the CI file is
    written to .github in the repository's root, where GitHub reads it.
    """
    files = {file.relative_to(_TEMPLATE): file for file in sorted(_TEMPLATE.rglob("*.*"))}
    # The two nodes of `nightbench up`: a first suite runs before there is a cluster.
    files[Path("clusters/local.yaml")] = package_folder("dags") / "clusters" / "local.yaml"
    left: list[tuple[Path, Path, bytes]] = []
    root = _repository(folder)
    for name, file in files.items():
        if not file.is_file() or "__pycache__" in name.parts:
            continue
        path, text = folder / name, file.read_bytes()
        if root is not None and name.parts[0] == ".pre-commit-config.yaml":
            say(f"left out: {name}, as pre-commit reads it in {root} only; its hook is in {file}")
            continue
        if root is not None and name.parts[0] == ".github":
            path, text = _ci_of_a_folder(root, folder, name, text)
        if path.exists():
            left.append((path, file, text))
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        say(f"wrote {path}")
    for path, file, text in left:
        if path.read_bytes() != text:
            say(f"kept: {path}; Nightbench's version is {file}")
    say(f"Next: {folder / 'README.md'}")


def _repository(folder: Path) -> Path | None:
    """Return the root of the repository that contains a folder; None if the folder is the root."""
    place = folder.absolute()
    roots = [each for each in (place, *place.parents) if (each / ".git").exists()]
    return roots[0] if roots and roots[0] != place else None


def _ci_of_a_folder(root: Path, folder: Path, name: Path, text: bytes) -> tuple[Path, bytes]:
    """Return path and text of the CI file for a project that is a folder of a repository."""
    inside = folder.absolute().relative_to(root).as_posix()
    own = name.with_stem(f"{name.stem}-{inside.replace('/', '-')}")
    where = f"defaults: {{run: {{working-directory: {jsonlib.dumps(inside)}}}}}\njobs:\n"
    return root / own, text.replace(b"jobs:\n", where.encode(), 1)


@app.command()
def check(json: JsonOption = False) -> None:
    """Check whether the Airflow of this environment has what Nightbench needs, and print fixes.

    Call this command in the environment of the `airflow` command.

    Exit codes:

    - 0: nothing is missing.
    - 1: something is missing.
    """
    common.configure_airflow()
    from nightbench.orchestration.airflow_check import findings

    quiet()
    found = list(findings())
    if json:
        common.print_json(found)
    else:
        rows = ((each.subject, each.state, each.observed) for each in found)
        out.print(common.table(("what", "state", "found"), rows))
        for each in found:
            if each.advice:
                say(f"{each.subject}: {each.advice}")
    if any(each.state == "missing" for each in found):
        raise typer.Exit(FAILED)


@app.command()
def lock(
    line: Annotated[str, typer.Argument(help="Framework line, of the project or built in.")],
    variant: Annotated[str, typer.Argument(help="Variant of the lock, such as cu126.")] = "cpu",
) -> None:
    """Resolve the package versions of a framework line again after you edited its `.in` file.

    The lock covers all Python versions and CPU architectures that framework.json lists for the
    variant.
    """
    lines = layers("frameworks", locations.benchmarks_folder(), locations.dags_folder())
    if line not in lines:
        raise UserError(f"LINE: {one_of(line, lines)}")
    folder = lines[line][-1]
    described = jsonlib.loads((folder / "framework.json").read_text(encoding="utf-8"))
    build = described["variants"].get(variant, {})
    if not build.get("pythons"):
        locked = [name for name, each in described["variants"].items() if each.get("pythons")]
        have = ", ".join(locked) or "none, because the line has no locks"
        raise UserError(f'VARIANT: found "{variant}"; {line} has {have}')
    wanted, made = folder / f"requirements-{variant}.in", folder / f"requirements-{variant}.lock"
    if not wanted.is_file():
        raise UserError(f"{wanted}: no such file; expected the packages of the line")
    uv = locations.uv_binary()
    if uv is None:
        raise UserError("found no uv; expected it on PATH: pip install uv")
    index = build.get("index") or {}
    extra = list(index.get("options") or (["--index", index["url"]] if index else []))
    head = f"# Made from {wanted.name} by\n#   nightbench lock {line} {variant}\n"
    # Extra indexes and folders often hold a part of a release's files; a lock names all of them.
    partial = {"UV_INDEX", "UV_INDEX_STRATEGY"} | (set() if index else {"UV_FIND_LINKS"})
    settings = {k: v for k, v in {**uv_env(), **os.environ}.items() if k not in partial}
    if "UV_FIND_LINKS" in settings:
        # If a folder contains the wheel, the folder replaces the variant's index.
        extra = []
    with tempfile.TemporaryDirectory(prefix="nightbench-lock-") as scratch:
        shutil.copy(wanted, scratch)
        if made.is_file():  # Keep its versions only: with its hashes, uv would add no other files.
            pins = re.sub(r" \\$|^ .*\n", "", made.read_text(encoding="utf-8"), flags=re.MULTILINE)
            Path(scratch, made.name).write_text(pins, encoding="utf-8")
        # uv reads the environments of a lock from a pyproject.toml alone.
        own = folder / "uv.toml"
        written = tomllib.loads(own.read_text(encoding="utf-8")) if own.is_file() else {}
        for name in written.get("pip", {}).get("no-emit-package", ()):
            extra += ["--no-emit-package", name]
        Path(scratch, "pyproject.toml").write_text(_lock_settings(build), encoding="utf-8")
        command = [
            *(str(uv), "pip", "compile", "-q", "--generate-hashes", "--no-header"),
            *("--universal", "--python-version", build["pythons"][0], *extra),
            *(wanted.name, "-o", made.name),
        ]
        done = subprocess.run(command, cwd=scratch, env=settings, check=False)
        resolved = Path(scratch, made.name)
        if done.returncode == 0:
            made.write_text(head + resolved.read_text(encoding="utf-8"), encoding="utf-8")
    if done.returncode:
        raise typer.Exit(done.returncode)
    say(f"wrote {made}")


def _lock_settings(build: Mapping[str, Any]) -> str:
    """Return the pyproject.toml that states the Python versions and CPU architectures of a lock."""
    major, minor = build["pythons"][-1].split(".")
    newest = f"python_full_version < '{major}.{int(minor) + 1}'"
    places = [
        f"sys_platform == 'linux' and platform_machine == '{machine}' and {newest}"
        for machine in build.get("machines", MACHINES)
    ]
    return f"[tool.uv]\nenvironments = {jsonlib.dumps(places)}\n"
