#!/usr/bin/env python3
"""Write docs/reference/*.md from the code that they are about; `--check` only compares.

.venv/bin/python tools/make_reference.py
"""

from __future__ import annotations

import re
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from nightbench.cli.main import app
from nightbench.config.cluster_schema import ClusterFile
from nightbench.config.schema import RepeatsFile, SuiteFile
from nightbench.config.validate import fields_of
from nightbench.core.model import FrameworkInfo, WorkloadInfo
from nightbench.core.model.values import Words
from nightbench.report.rows import COLUMNS, OWN

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"

PAGES: dict[str, tuple[str, type[BaseModel]]] = {
    "suites": ("Suites: `dags/suites/<suite>.yaml`", SuiteFile),
    "clusters": ("Clusters: `dags/clusters/<cluster>.yaml`", ClusterFile),
    "frameworks": ("Framework lines: `benchmarks/frameworks/<line>/framework.json`", FrameworkInfo),
    "workloads": ("Workloads: `benchmarks/workloads/<workload>/spec.json`", WorkloadInfo),
}
_FROM_CONFIG = (
    "<!-- Made by tools/make_reference.py from plugins/nightbench/config. Do not edit. -->"
)
_PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything"}


def page(name: str) -> str:
    """Return a reference page as Markdown.

    Args:
        name: one of `PAGES`.
    """
    title, model = PAGES[name]
    parts = [_FROM_CONFIG, f"# {title}", _summary(model), _table(model)]
    for key, inner in _inner_models(model):
        parts += [f"## `{key}`", _summary(inner), _table(inner)]
    return "\n\n".join(parts) + "\n"


def _summary(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().split("\n")[0]


def _table(model: type[BaseModel]) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, field in fields_of(model).items():
        meaning = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{name}` | {_words(field)} | {_default(field)} | {meaning} |")
    return "\n".join(lines)


def _inner_models(
    model: type[BaseModel], prefix: str = ""
) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in fields_of(model).items():
        inner = _model_in(field.annotation)
        if inner is None:
            continue
        mark = _mark(field.annotation)
        yield f"{prefix}{name}{mark}", inner
        yield from _inner_models(inner, f"{prefix}{name}{mark}.")


def _mark(annotation: Any) -> str:
    """How the key of an inner model goes on: `[]` in a list, `.<name>` in a mapping of names."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _mark(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is tuple:
        return "[]"
    if typing.get_origin(annotation) is dict:
        key, value = typing.get_args(annotation)
        return f".<{_type_words(key)}>{_mark(value)}"
    return ""


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in typing.get_args(annotation):
        found = _model_in(part)
        if found is not None:
            return found
    return None


def _words(field: FieldInfo) -> str:
    named = [each.text for each in field.metadata if isinstance(each, Words)]
    return named[0] if named else _type_words(field.annotation)


def _type_words(annotation: Any) -> str:
    """Say in words what a type takes."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        named = [each.text for each in arguments[1:] if isinstance(each, Words)]
        return named[-1] if named else _type_words(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_words(each) for each in arguments if each is not type(None))
    if origin in (list, tuple):
        return f"list of {_type_words(arguments[0])}"
    if origin is dict:
        return f"{_type_words(arguments[0])}: {_type_words(arguments[1])}"
    if _model_in(annotation) is not None:
        return "mapping, see below"
    return _PLAIN.get(annotation, str(annotation))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or value in ((), {}, ""):
        return ""
    if isinstance(value, RepeatsFile):
        return f"`{value}`"
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, tuple):
        value = "-".join(str(each) for each in value)
    named = {each.text for each in field.metadata if isinstance(each, Words)}
    if "duration" in named:
        value = f"{value:g}s"
    if "size" in named:
        value = f"{value / 1e9:g}GB"
    if "percentage" in named:
        value = f"{value * 100:g}%"
    return f"`{value}`"


def results_page() -> str:
    """Return the page on the rows of `nightbench results --json`."""
    lines = [
        "<!-- Made by tools/make_reference.py from plugins/nightbench/report. Do not edit. -->",
        "",
        "# Results: `nightbench results --json`",
        "",
        "A list with one object for each planned case of the run.",
        "",
        "| field | meaning |",
        "|---|---|",
    ]
    warehouse = (FOLDER / "warehouse.md").read_text(encoding="utf-8")
    meanings = {}
    for view, names in COLUMNS.items():
        _, _, after = warehouse.partition(f"### `{view}`")
        rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (.*) \|$", after.split("\n### ")[0], re.M)
        meanings |= {name: dict(rows)[name] for name in names}
    meanings |= OWN
    lines += [f"| `{name}` | {meaning} |" for name, meaning in meanings.items()]
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """Return the page on the commands, from their help texts."""
    lines = [
        "<!-- Made by tools/make_reference.py from plugins/nightbench/cli. Do not edit. -->",
        "",
        "# Commands",
        "",
        "The help text of each command. State is stored in `NIGHTBENCH_HOME`: `.nightbench` of a "
        "checkout, else `nightbench` of Airflow's home.",
    ]
    panel = None
    for name, command in _commands("nightbench", typer.main.get_command(app).load_all()):
        if command.rich_help_panel != panel:
            panel = command.rich_help_panel
            lines += ["", f"## {panel}"]
        lines += ["", f"### {name}", "", *_help(command.help or "")]
        if rows := [_parameter(each) for each in command.params if each.name != "help"]:
            lines += ["", "| | |", "|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _commands(name: str, commands: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield commands with their names; those of a group under its panel."""
    for word, command in commands.items():
        if hasattr(command, "commands"):
            for inner_name, inner in _commands(f"{name} {word}", command.commands):
                inner.rich_help_panel = command.rich_help_panel
                yield inner_name, inner
        else:
            yield f"{name} {word}", command


def _help(text: str) -> list[str]:
    return [line.replace("\b", "").replace("<", r"\<") for line in text.splitlines()]


def _parameter(parameter: Any) -> str:
    """Return the row of an argument or an option."""
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        name = ", ".join(f"`{word}`" for word in parameter.opts)
    said = " ".join((parameter.help or "").split()).replace("|", r"\|").replace("<", r"\<")
    return f"| {name} | {said} |"


def pages() -> dict[Path, str]:
    """Return every page by its path."""
    made = {FOLDER / f"{name}.md": page(name) for name in PAGES}
    made[FOLDER / "commands.md"] = commands_page()
    return made | {FOLDER / "results.md": results_page()}


def main() -> int:
    """Write the pages, or say which are out of date."""
    stale = [
        path
        for path, text in pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path} is out of date: run tools/make_reference.py", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(pages()[path], encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
