"""What the command imports: its help next to nothing, a command no more than it uses."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import typer.main
from packaging.requirements import Requirement
from typer.main import get_command_name

import nightbench.cli
from nightbench.cli.main import COMMANDS, app, help_of

HEAVY = {
    "airflow", "asyncssh", "fsspec", "great_expectations", "httpx", "jinja2", "numpy", "pandas",
    "psycopg2", "pydantic", "scipy", "sqlalchemy", "yaml",
}  # fmt: skip
CONFIGURED = {"pydantic", "yaml"}
"""What reads suites and clusters."""
STORED = CONFIGURED | {"fsspec"}
"""What opens the spool as well, which may be an object store."""
OVER_HTTP = STORED | {"httpx", "jinja2"}
USED = {
    **dict.fromkeys(("run", "cancel", "demo"), OVER_HTTP),
    **dict.fromkeys(("compare", "drill"), CONFIGURED | {"jinja2"}),
    **dict.fromkeys(("results", "clean"), STORED | {"psycopg2", "jinja2"}),
    "runs": STORED,
}
"""Command -> what of HEAVY it may import as it starts, where that is more than CONFIGURED."""


def modules(code: str) -> set[str]:
    code = f"import json, sys\n{code}\njson.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return set(json.loads(done.stdout))


def test_the_help_imports_no_command() -> None:
    asked = (
        "import contextlib, io\n"
        "from nightbench.cli.main import app\n"
        "with contextlib.redirect_stdout(io.StringIO()) as said:\n"
        "    app(['--help'], standalone_mode=False)\n"
        "assert 'Measure without SSH' in said.getvalue()"
    )
    found = modules(asked)
    assert not HEAVY & found
    ours = {"cli", "cli.main", "core", "core.errors", "core.printable"}
    expected = {"nightbench", *(f"nightbench.{name}" for name in ours)}
    assert {name for name in found if name.partition(".")[0] == "nightbench"} == expected
    # Of these are 160 the interpreter's, 150 Typer's and Rich's.
    assert len(found) < 400


FORKS = """
import os, typer.main
from nightbench.cli.main import COMMANDS, app
import pydantic, yaml, nightbench.cli.common, nightbench.config
command = typer.main.get_command(app)
found = {"": sorted(sys.modules)}
for name in [name for panel in COMMANDS.values() for name in panel]:
    inner, outer = os.pipe()
    if os.fork() == 0:
        os.close(inner)
        command.load(name)
        with open(outer, "w") as answer:
            json.dump(sorted(sys.modules), answer)
        os._exit(0)
    os.close(outer)
    with open(inner) as answer:
        found[name] = json.load(answer)
    os.wait()
json.dump(found, sys.stdout)
"""
"""What may be there for every command is imported once; each goes on from there in a fork."""


def test_a_command_imports_what_it_uses() -> None:
    asked = [sys.executable, "-c", f"import json, sys{FORKS}"]
    done = subprocess.run(asked, capture_output=True, check=True)
    found = {name: HEAVY & set(modules) for name, modules in json.loads(done.stdout).items()}
    assert found.pop("") == CONFIGURED
    assert found.keys() == {name for panel in COMMANDS.values() for name in panel}
    allowed = {name: USED.get(name, CONFIGURED) for name in found}
    too_many = {name: each - allowed[name] for name, each in found.items()}
    assert {name: each for name, each in too_many.items() if each} == {}


def test_detect_needs_only_what_the_package_depends_on(tmp_path: Path) -> None:
    history = tmp_path / "history.csv"
    nights = [f"a,{1_728_000_000 + 86_400 * k},{100 if k < 40 else 80}.{k}" for k in range(60)]
    history.write_text("\n".join(["series,t,value", *nights]))
    found = modules(
        "import contextlib, io\n"
        "from nightbench.cli.main import app\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    app(['detect', {str(history)!r}], standalone_mode=False)"
    )
    of = metadata.packages_distributions()
    used = {_name(name) for each in found for name in of.get(each, ())}
    assert "numpy" in used
    # The first is imported by a .pth file of its own, the second by NumPy where it is there.
    by_chance = {"setuptools", "charset-normalizer"}
    assert used - by_chance <= {"nightbench"} | _closure("nightbench")


def _closure(name: str) -> set[str]:
    """All distributions that one needs, by their names."""
    needed: set[str] = set()
    todo = [name]
    while todo:
        for line in metadata.requires(todo.pop()) or ():
            requirement = Requirement(line)
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if wanted and _name(requirement.name) not in needed:
                needed.add(_name(requirement.name))
                todo.append(requirement.name)
    return needed


def _name(distribution: str) -> str:
    return distribution.lower().replace("_", "-")


def test_the_help_says_of_each_command_what_the_command_says() -> None:
    commands = typer.main.get_command(app).load_all()
    told = {
        name: help_of(name, module) for panel in COMMANDS.values() for name, module in panel.items()
    }
    first = {
        name: " ".join((command.help or "").split("\n\n")[0].split())
        for name, command in commands.items()
    }
    assert told == first


def test_no_command_of_a_module_is_left_out() -> None:
    told = {(module, name) for panel in COMMANDS.values() for name, module in panel.items()}
    found = set()
    for each in pkgutil.iter_modules(nightbench.cli.__path__):
        part = getattr(importlib.import_module(f"nightbench.cli.{each.name}"), "app", None)
        if each.name == "main" or part is None:
            continue
        inner = {get_command_name(i.name or i.callback.__name__) for i in part.registered_commands}
        is_group = isinstance(part.info.help, str)
        inner |= {group.name for group in part.registered_groups}
        found |= {(each.name, name) for name in ({each.name} if is_group else inner)}
    parts = {(name, name) for name in ("bisect", "confirm", "profile")}  # of compare
    assert found - parts == told
