"""Options that select cases of a suite, and the suite and cluster that they result in."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.models import ArgumentInfo

from nightbench.cli import common
from nightbench.config.request_fields import described
from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.config.validate import checked
from nightbench.core.documents import to_document

if TYPE_CHECKING:
    from nightbench.core.model import Catalog, Cluster, Suite


def _help(field: str, more: str = "") -> str:
    return described(RunRequest, field, more)


_COMMAS = "Separate several with commas."
CasesOption = Annotated[
    list[str] | None, typer.Option("--case", metavar="SLUG", help=_help("cases", common.REPEATABLE))
]
RepeatsOption = Annotated[int | None, typer.Option(min=1, help=_help("repeats"))]


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A suite and its cluster, with the options of the command line applied."""

    suite: Suite
    cluster: Cluster
    catalog: Catalog
    """The catalog; its workloads contain the commands of the suite."""
    overrides: Mapping[str, Any]
    """The options of the command line as parameters of the DAG `on_demand`."""
    night: bool = False
    """Measure like a night of the suite: with its hours, time budget and order of cases."""
    outside_hours: bool = False
    """Also measure outside the cluster's allowed hours."""


@dataclasses.dataclass(frozen=True)
class Selection:
    """The selection of cases, and where and how to measure them, from the command line."""

    suite: common.SuiteArgument
    cluster: common.ClusterOption = None
    frameworks: Annotated[str, typer.Option(help=_help("frameworks", _COMMAS))] = ""
    workloads: Annotated[str, typer.Option(help=_help("workloads", _COMMAS))] = ""
    strategies: Annotated[str, typer.Option(help=_help("strategies", _COMMAS))] = ""
    cases: CasesOption = None
    repeats: RepeatsOption = None
    scale: Annotated[str | None, typer.Option(help=_help("scale"))] = None
    builds: Annotated[
        list[str] | None,
        typer.Option("--build", metavar="LINE=BUILD", help=_help("builds", common.REPEATABLE)),
    ] = None
    untried: Annotated[bool, typer.Option("--untried", help=_help("untried"))] = False
    stand_ins: Annotated[
        list[str] | None,
        typer.Option(
            "--stand-in", metavar="LINE=OTHER", help=_help("stand_ins", common.REPEATABLE)
        ),
    ] = None

    def choose(self, *, night: bool = False, outside_hours: bool = False) -> Chosen:
        """Read the suite, its cluster and the catalog, and apply the selection to them.

        Raises:
            UserError: something is wrong in a file or on the command line.
        """
        fields: dict[str, Any] = {**vars(self), "night": night, "outside_hours": outside_hours}
        for name in ("frameworks", "workloads", "strategies"):
            fields[name] = common.words(fields[name])
        request = checked(RunRequest, fields)
        suite, cluster, catalog = resolve_request(request, common.accepting_catalog(), files=True)
        asked = dataclasses.replace(request, suite=suite.name, cluster=cluster.name)
        known = catalog.with_commands(suite)
        return Chosen(suite, cluster, known, to_document(asked), night, outside_hours)


def selecting(
    *leave_out: str, **defaults: str | None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option to a command for each field of its parameter `selection`.

    A command without the option `suite` sets the suite itself.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        fields = inspect.signature(Selection, eval_str=True).parameters
        options = [
            field.replace(default=defaults.get(name, field.default))
            for name, field in fields.items()
            if name not in leave_out
        ]
        _, *own = inspect.signature(command, eval_str=True).parameters.values()

        @functools.wraps(command)
        def called(**given: Any) -> None:
            named = {option.name: given.pop(option.name) for option in options}
            command(Selection(**{"suite": "", **named}), **given)

        # Arguments first, as help shows them.
        together = [each.replace(kind=each.KEYWORD_ONLY) for each in (*options, *own)]
        together.sort(
            key=lambda each: not any(isinstance(x, ArgumentInfo) for x in get_args(each.annotation))
        )
        called.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]  # read by typer
        called.__annotations__ = {each.name: each.annotation for each in together}
        return called

    return decorate
