"""The `nightbench` command: its commands by panel, each imported when it is called."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group_from_info
from typer.models import TyperInfo

from nightbench.core.errors import UserError, bounded
from nightbench.core.printable import shown, without_controls

COMMANDS = {
    "This machine": {
        "up": (
            "services",
            "Start PostgreSQL, Airflow and the local nodes; what runs already is left alone.",
        ),
        "down": ("services", "Stop everything that `up` started; no process is left."),
        "status": ("services", "Show what runs; exit code 1 where something does not."),
        "logs": (
            "services",
            "Show the end of a service's log, or with --run the whole log of a rank.",
        ),
        "airflow": (
            "services",
            "Run Airflow's own command on this machine's Airflow, e.g. `nightbench airflow dags "
            "list`.",
        ),
        "migrate": (
            "services",
            "Bring the warehouse's tables and views up to date; done twice it changes nothing.",
        ),
        "backup": ("services", "Write an archive of this machine's warehouse, while runs go on."),
        "restore": (
            "services",
            "Put an archive in the place of this machine's warehouse; what was there is kept "
            "beside it.",
        ),
    },
    "A project of your own": {
        "init": (
            "project",
            "Write a project: suites, clusters and DAG file, for a repository of your own.",
        ),
    },
    "Measure": {
        "run": (
            "run",
            "Measure a suite now: through the DAG where Airflow runs, or with --direct without it.",
        ),
        "cancel": (
            "cancel",
            "End a run, a comparison of builds or a bisect, and every process of it on all nodes.",
        ),
        "demo": (
            "run",
            "Start everything, run the suite demo on two local nodes, and show what came of it.",
        ),
        "load": (
            "exported",
            "Load the results of an exported plan: the same checks, medians and verdicts as any "
            "run's.",
        ),
        "k8s": ("exported", "Measure by Jobs of Kubernetes."),
    },
    "Compare": {
        "ab": (
            "ab",
            "Compare two builds of a framework line, in rounds of two launches on the same nodes.",
        ),
        "bisect": ("bisect", "Find the first version of a framework line that is slower."),
    },
    "Look before": {
        "validate": (
            "plan",
            "Check suites, clusters, framework lines and workloads; every problem with file and "
            "line.",
        ),
        "plan": (
            "plan",
            "List the cases of a suite with nodes, build and estimated time; nothing need run.",
        ),
        "parse": (
            "parse",
            "Show what would be read of a training script's log: steps, figures, lines left out.",
        ),
        "cluster": ("cluster", "YAML, host keys and wheels of a cluster."),
    },
    "Look after": {
        "results": (
            "results",
            "Show the medians of a run with n, spread, speed-up, efficiency and verdict.",
        ),
        "clean": (
            "results",
            "Remove orphaned processes and old jobs and environments on nodes, and old loaded "
            "runs.",
        ),
        "runs": (
            "runs",
            "List runs, newest first: how many cases were measured, and which runs go on.",
        ),
        "table": (
            "table",
            "Show the tables of a suite: newest medians beside the published figures.",
        ),
        "report": (
            "report",
            "Write a report of a run: verdicts, tables, figures, method, hardware, versions, "
            "caveats.",
        ),
        "export": (
            "export",
            "Write the history to a Parquet or CSV file, with the columns of the marts.",
        ),
        "import": (
            "history_import",
            "Load a site's older results, and show the changes that the detector sees in them.",
        ),
        "nights": (
            "nights",
            "List the scheduled nights, newest first: met, missing, late, paused.",
        ),
        "noisy": ("nights", "List noisy series: they are measured and judged, and open no alerts."),
        "drifts": (
            "nights",
            "List series that drift, the largest fall first; a drift is no regression.",
        ),
    },
    "Judge": {
        "detect": (
            "detect",
            "Find the changes of nightly histories: when, how much, how certain, and why.",
        ),
        "grade": (
            "grade",
            "Show how well the detector works: its power, its false alarms, its delay.",
        ),
        "backtest": (
            "backtest",
            "Replay history night by night under the suites' policies, and under a proposed one.",
        ),
        "drill": (
            "drill",
            "Measure a case night after night, slow the last nights down, and show the alert "
            "arrive.",
        ),
        "alert": ("alert", "List alerts, show them, and change their state."),
    },
    "Nodes": {
        "doctor": (
            "nodes",
            "Examine every node and give advice for every finding. Exit code 1 where a node is "
            "ill.",
        ),
        "nodes": (
            "nodes",
            "Show the states of a cluster's nodes; put a node into quarantine, or release it.",
        ),
        "sweep": (
            "nodes",
            "List orphaned processes of Nightbench, which no agent watches; end them with --kill.",
        ),
    },
}
"""Panel -> command -> (module beside this one, first paragraph of its help).

Held here as well, so that `nightbench --help` imports none of them; a test compares the two.
"""
_MARKUP: Literal["markdown"] = "markdown"


class Commands(TyperGroup):
    """The commands by name: known by their help until one is called."""

    @cached_property
    def _places(self) -> dict[str, tuple[str, str, str]]:
        return {
            name: (panel, module, said)
            for panel, commands in COMMANDS.items()
            for name, (module, said) in commands.items()
        }

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of their panels."""
        return list(self._places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what the help shows of a command."""
        if cmd_name not in self._places:
            return None
        panel, _, said = self._places[cmd_name]
        return TyperCommand(cmd_name, help=said, rich_help_panel=panel, rich_markup_mode=_MARKUP)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is called, which is imported now."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, self.load(str(name)), rest

    def load_all(self) -> dict[str, Any]:
        """Import all commands, for the reference and for checks."""
        return {name: self.load(name) for name in self._places}

    def load(self, name: str) -> Any:
        """Import the module of a command, and return the command with all that it takes."""
        panel, module, _ = self._places[name]
        part: typer.Typer = importlib.import_module(f"nightbench.cli.{module}").app
        group = get_group_from_info(
            TyperInfo(part, name=name),
            pretty_exceptions_short=True,
            suggest_commands=True,
            rich_markup_mode=_MARKUP,
        )
        # A module's commands stand beside those of others, unless it is a group by its own name.
        command: Any = group.commands.get(name, group)
        command.rich_help_panel = panel
        return command


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
)


@app.callback()
def nightbench() -> None:
    """Scheduled benchmarking of deep-learning training over SSH.

    Begin with `nightbench demo`: it starts everything on this machine, measures the suite demo on
    two local nodes and shows what came of it. State lies in NIGHTBENCH_HOME (.nightbench).
    """


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


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Of an `OSError`: nothing more can be written, by whatever command."""

_PATH = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES)
"""Of an `OSError`: a path is not what the command was told, or not for this user."""


def main() -> None:
    """Run the command; a `UserError` is printed without a traceback, with exit code 1."""
    try:
        _refuse_bytes(sys.argv[1:])
        app()
    except UserError as error:
        said = f"error: {error}"
    except OSError as error:
        named = error.filename is not None
        if error.errno not in _DISK and not (named and error.errno in _PATH):
            raise
        where = f"{error.filename}: " if named else ""
        said = bounded(f"error: {where}{error.strerror}")
        if error.errno in _DISK:
            said += ". Make room there, or name another state folder: NIGHTBENCH_HOME=/some/folder"
    else:
        return
    Console(stderr=True).print(
        without_controls(said), markup=False, highlight=False, soft_wrap=True
    )
    sys.exit(1)
