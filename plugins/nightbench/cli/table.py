"""table: print a suite's tables in the form of the public benchmark that it is named after."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nightbench.cli import common
from nightbench.cli.common import out, say, warn
from nightbench.config import load_suite
from nightbench.config.clusters import cluster_of
from nightbench.config.locations import suite_file
from nightbench.config.scales import FULL
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model import Suite, SuiteTable
from nightbench.core.tables import Cell

app = typer.Typer()


class Format(StrEnum):
    """Output formats of tables."""

    TEXT = "text"
    MARKDOWN = "md"
    CSV = "csv"
    JSON = "json"


@app.command()
def table(
    suite: common.SuiteArgument,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", "-c", help="Cluster of the measurements. [default: the suite's]"),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help=f"Scale of the workloads. Published values are shown only for the scale {FULL}, "
            "because other scales do different work. [default: the scale of the newest run]",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME", help="Table to include. Repeatable."),
    ] = None,
    format_: Annotated[Format, typer.Option("--format", "-f", help="Output format.")] = Format.TEXT,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw the tables as SVG and PNG into DIR.")
    ] = None,
) -> None:
    """Show a suite's tables: newest medians next to the published values.

    A cell without a value states the reason: not run yet, unsupported here, failed, quarantined.
    """
    from nightbench.report import suite_tables

    where, chosen, filled = _filled_tables(suite, cluster, scale, only or [])
    if format_ is Format.JSON:
        common.print_json(
            [cell for each, cells in filled for cell in suite_tables.to_documents(each, cells)]
        )
    elif format_ is Format.CSV:
        typer.echo(suite_tables.to_csv(filled), nl=False)
    elif format_ is Format.MARKDOWN:
        typer.echo("\n".join(suite_tables.to_markdown(*each) for each in filled))
    else:
        say(f"{where}, scale {chosen}")
        for each, cells in filled:
            out.print(suite_tables.to_rich(each, cells))
            for line in suite_tables.footnotes(cells):
                say(line)
            say("")
        if chosen != FULL:
            say(f"Published values need --scale {FULL}; other scales do different work.")
    if figures is not None:
        _draw(filled, figures)


def _draw(filled: Sequence[tuple[SuiteTable, list[Cell]]], folder: Path) -> None:
    from nightbench.report import suite_tables

    for each, cells in filled:
        try:
            paths = suite_tables.write_charts(each, cells, folder)
        except OSError as error:
            raise UserError(
                f"--figures: {folder} cannot be written: {error.strerror}; expected a folder"
            ) from error
        drawn = ", ".join(map(str, paths)) or f"no diagram of {each.name}, which has no value yet"
        warn(f"diagram: {drawn}")


def _tables_of(suite: Suite, only: list[str]) -> list[SuiteTable]:
    if not suite.tables:
        raise UserError(f"suite {suite.name}: found no `tables:`; expected at least one")
    names = [each.name for each in suite.tables]
    for name in only:
        if name not in names:
            raise UserError(f"table: {one_of(name, names)}")
    return [each for each in suite.tables if not only or each.name in only]


def _filled_tables(
    named: str, cluster: str | None, scale: str | None, only: list[str]
) -> tuple[str, str, list[tuple[SuiteTable, list[Cell]]]]:
    from nightbench.night.run_report_data import fill_tables

    catalog = common.catalog()
    path = suite_file(named, files=True)
    place = cluster_of(cluster, catalog, files=True) if cluster else None
    suite = load_suite(path, catalog, cluster=place)
    _tables_of(suite, only)
    with common.reader() as warehouse:
        stored = warehouse.tables
        chosen = scale or stored.newest_scale(suite.name, suite.cluster) or suite.scale
        suite = load_suite(path, catalog, cluster=place, scale=chosen)
        filled = fill_tables(suite, chosen, stored, only)
    return f"{suite.name} on {suite.cluster}", chosen, filled
