"""The `nightbench` command: its commands by panel, each imported when it is called."""

import errno
import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group_from_info
from typer.models import TyperInfo

from nightbench.core.errors import UserError, bounded
from nightbench.core.printable import shown, without_controls

COMMANDS = {
    "This machine": {
        "up": "services",
        "down": "services",
        "status": "services",
        "logs": "services",
        "airflow": "services",
    },
    "Your own Airflow": {
        "init": "project",
        "check": "project",
        "db": "db",
        "lock": "project",
    },
    "Measure": {
        "run": "run",
        "cancel": "cancel",
        "demo": "run",
        "offline": "offline",
    },
    "Compare": {"compare": "compare"},
    "Look before": {"validate": "plan", "plan": "plan", "parse": "parse", "cluster": "cluster"},
    "Look after": {
        "results": "results",
        "clean": "results",
        "runs": "runs",
        "table": "table",
        "publish": "publish",
        "export": "export",
        "import": "export",
        "nights": "nights",
        "series": "series",
    },
    "Judge": {
        "detect": "detect",
        "grade": "grade",
        "drill": "drill",
        "alert": "alert",
    },
    "Nodes": {"accept": "accept", "doctor": "nodes", "nodes": "nodes"},
}
"""Panel -> command -> module in this package."""

_MARKUP: Literal["markdown"] = "markdown"


def help_of(name: str, module: str) -> str:
    """Return the first paragraph of a command's help, read from its module without importing it."""
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    docstring = rf'^(?:@app\.command\("{name}"\)|def {name}\().*?"""(.+?)(?:\n\n|""")'
    of_group = rf'^(?:app|{name}) = typer\.Typer\(help="(.+?)"'
    found = re.search(docstring, source, re.M | re.S) or re.search(of_group, source, re.M)
    return " ".join(found[1].split()) if found else ""


class Commands(TyperGroup):
    """The commands by name: known by their help until one is called."""

    _places: ClassVar[Mapping[str, tuple[str, str]]] = {
        name: (panel, module)
        for panel, commands in COMMANDS.items()
        for name, module in commands.items()
    }

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of their panels."""
        return list(self._places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what the help shows of a command."""
        if cmd_name not in self._places:
            return None
        panel, module = self._places[cmd_name]
        said = help_of(cmd_name, module)
        return TyperCommand(cmd_name, help=said, rich_help_panel=panel, rich_markup_mode=_MARKUP)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the called command and return it."""
        from nightbench.cli.former_names import refuse_former_name
        from nightbench.config.control_plane import take_settings

        refuse_former_name(args)
        name, _, rest = super().resolve_command(ctx, args)
        take_settings()
        return name, self.load(str(name)), rest

    def load_all(self) -> dict[str, Any]:
        """Import all commands, for the reference and for checks."""
        return {name: self.load(name) for name in self._places}

    def load(self, name: str) -> Any:
        """Import the module of a command, and return the command with its parameters."""
        panel, module = self._places[name]
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


def _version(wanted: bool) -> None:
    if wanted:
        print(f"nightbench {version('nightbench')}")
        raise typer.Exit


@app.callback()
def nightbench(
    is_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Scheduled benchmarking of deep-learning training over SSH.

    Begin with `nightbench demo`: the command starts all on this machine, measures the suite
    demo on two local nodes and shows the results. State is stored in NIGHTBENCH_HOME. [default:
    .nightbench of a checkout, otherwise nightbench of Airflow's home]
    """


def _refuse_bytes(words: Sequence[str]) -> None:
    """Refuse lone surrogates: messages and rows of the warehouse cannot contain them."""
    for before, word in pairwise(["", *words]):
        try:
            word.encode()
        except UnicodeEncodeError:
            of = f"{before}: " if before.startswith("-") else ""
            found = os.fsencode(word).decode(errors="backslashreplace")
            raise UserError(f"{of}found {shown(found)}, expected UTF-8") from None


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Error numbers of an `OSError` after which no command can write."""

_PATH = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES)
"""Error numbers of an `OSError` for a wrong or forbidden path."""


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
            said += ". Make room there, or use another state folder: NIGHTBENCH_HOME=/some/folder"
    else:
        return
    Console(stderr=True).print(
        without_controls(said), markup=False, highlight=False, soft_wrap=True
    )
    sys.exit(1)
