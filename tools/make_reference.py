#!/usr/bin/env python3
"""Write docs/reference/*.md from the code that they are about; `--check` only compares.

.venv/bin/python tools/make_reference.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from nightbench.cli.main import app
from nightbench.config.reference import PAGES, page
from nightbench.report.rows import FIELDS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"


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
    lines += [f"| `{name}` | {meaning} |" for name, meaning in FIELDS.items()]
    return "\n".join(lines) + "\n"


def commands_page() -> str:
    """Return the page on the commands, from their help texts."""
    lines = [
        "<!-- Made by tools/make_reference.py from plugins/nightbench/cli. Do not edit. -->",
        "",
        "# Commands",
        "",
        "What `--help` says of each command. State lies in `NIGHTBENCH_HOME` (`.nightbench`).",
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
