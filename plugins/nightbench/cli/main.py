"""The `nightbench` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise

import typer
from rich.console import Console

from nightbench.cli import (
    ab,
    alert,
    backtest,
    bisect,
    cluster,
    detect,
    drill,
    export,
    grade,
    history_import,
    k8s,
    load,
    nights,
    nodes,
    parse,
    plan,
    report,
    results,
    run,
    runs,
    services,
    table,
)
from nightbench.cli.common import quiet
from nightbench.config.values import shown
from nightbench.core.errors import UserError
from nightbench.core.printable import without_controls

app = typer.Typer(
    name="nightbench",
    help="Scheduled benchmarking of deep-learning training over SSH.\n\n"
    "Begin with `nightbench demo`: it starts everything on this machine, measures the suite demo "
    "on two local nodes and shows what came of it. State lies in NIGHTBENCH_HOME (.nightbench).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
# One flat list of commands, in panels.
_PANELS = {
    "This machine": services.app,
    "Measure": run.app,
    "Compare": ab.app,
    "Look before": plan.app,
    "Look after": results.app,
    "Judge": detect.app,
    "Nodes": nodes.app,
}
detect.app.registered_commands += [
    *grade.app.registered_commands,
    *backtest.app.registered_commands,
    *drill.app.registered_commands,
]
results.app.registered_commands += [
    *runs.app.registered_commands,
    *table.app.registered_commands,
    *report.app.registered_commands,
    *export.app.registered_commands,
    *history_import.app.registered_commands,
    *nights.app.registered_commands,
]
ab.app.registered_commands += bisect.app.registered_commands
plan.app.registered_commands += parse.app.registered_commands
run.app.registered_commands += load.app.registered_commands
for _panel, _part in _PANELS.items():
    for _command in _part.registered_commands:
        _command.rich_help_panel = _panel
        app.registered_commands.append(_command)
app.add_typer(cluster.app, name="cluster", rich_help_panel="Look before")
app.add_typer(k8s.app, name="k8s", rich_help_panel="Measure")
app.add_typer(alert.app, name="alert", rich_help_panel="Judge")


def _refuse_bytes(words: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8, which Python passes on as lone surrogates.

    Raises:
        UserError: an argument is not UTF-8. This holds for file names too: no message and no
            row of the warehouse could hold them.
    """
    for before, word in pairwise(["", *words]):
        try:
            word.encode()
        except UnicodeEncodeError:
            of = f"{before}: " if before.startswith("-") else ""
            found = os.fsencode(word).decode(errors="backslashreplace")
            raise UserError(f"{of}found {shown(found)}, expected text in UTF-8") from None


def main() -> None:
    """Run the command; a `UserError` is printed without a traceback, with exit code 1."""
    quiet()
    try:
        _refuse_bytes(sys.argv[1:])
        app()
    except UserError as error:
        said = without_controls(f"error: {error}")
        Console(stderr=True).print(said, markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
