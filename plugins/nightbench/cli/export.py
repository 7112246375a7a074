"""export: the history as files for other programs."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from nightbench.cli import common
from nightbench.cli.common import err, say
from nightbench.config.values import shown
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.warehouse.exports import ExportFilter

app = typer.Typer()


class ExportFormat(StrEnum):
    """Formats of files."""

    PARQUET = "parquet"
    CSV = "csv"


class ExportRows(StrEnum):
    """What each row is; the names of `warehouse.exports.EXPORTS`."""

    MEASUREMENTS = "measurements"
    REPEATS = "repeats"
    VERDICTS = "verdicts"
    ALERTS = "alerts"


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="The file; it is replaced where it exists.")],
    rows: Annotated[
        ExportRows,
        typer.Option("--rows", help="What each row is: a median, a repeat, a verdict, an alert."),
    ] = ExportRows.MEASUREMENTS,
    format_: Annotated[
        ExportFormat | None,
        typer.Option("--format", "-f", help="By the file's ending (.parquet, .csv) unless given."),
    ] = None,
    suite: Annotated[str | None, typer.Option("--suite", help="Only of this suite.")] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-c", help="Only on this cluster.")
    ] = None,
    case: Annotated[str | None, typer.Option("--case", metavar="SLUG", help="Only this.")] = None,
    run: Annotated[str | None, typer.Option("--run", "-r", help="Only of this run.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only of runs that began then or later: 2026-11-01, or with a time. UTC where "
            "no offset is given.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only of runs that began before.")
    ] = None,
) -> None:
    """Write the history to a Parquet or CSV file: the columns of the marts, a row at a time.

    ExportRows are read in batches, so that a long history needs no memory.
    """
    from nightbench.warehouse.exports import ExportFilter

    chosen = ExportFilter(
        suite=suite,
        cluster=cluster,
        case_id=case,
        run_id=run,
        since=_instant("--since", since),
        until=_instant("--until", until),
    )
    _write_table(file, format_ or _format_of(file), rows, chosen)


def _format_of(file: Path) -> ExportFormat:
    """Return the format that the ending of a file names.

    Raises:
        UserError: it names none.
    """
    try:
        return ExportFormat(file.suffix.removeprefix(".").lower())
    except ValueError:
        endings = ", ".join(f".{each}" for each in ExportFormat)
        raise UserError(
            f"file: found {shown(str(file))}; expected one of the endings {endings}, or --format"
        ) from None


def _instant(option: str, text: str | None) -> datetime | None:
    """Return the instant that an option names; without an offset it is UTC.

    Raises:
        UserError: it names none.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{option}: found {shown(text)}; expected a date or a time in ISO 8601, such as "
            "2026-11-01 or 2026-11-01T22:00Z"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _write_table(file: Path, format_: ExportFormat, rows: ExportRows, chosen: ExportFilter) -> None:
    """Write rows of the warehouse to a file.

    Raises:
        UserError: nothing matches, the warehouse is away, or the file cannot be written.
    """
    from nightbench.report.export_files import FORMATS, replaced
    from nightbench.warehouse.exports import EXPORTS, ExportRepository

    given = chosen.given()
    about = {
        "nightbench.version": version("nightbench"),
        "nightbench.rows": f"{rows}, columns of {EXPORTS[rows]}",
        "nightbench.written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **{f"nightbench.filter.{name}": value for name, value in given.items()},
    }
    count = 0
    with (
        closing(common.open_warehouse("nightbench_reader")) as connection,
        replaced(file) as beside,
        _progress() as progress,
    ):
        stored = ExportRepository(connection)
        task = progress.add_task(f"{rows}, months", rows="")
        with (
            closing(FORMATS[format_](beside, stored.columns(rows), about)) as target,
            closing(stored.batches(rows, chosen)) as batches,
        ):
            for batch in batches:
                if batch.rows:
                    target.write(batch.rows)
                    count += len(batch.rows)
                done = batch.month - bool(batch.rows)
                progress.update(task, completed=done, total=batch.months, rows=f"{count:,} rows")
        if not count:
            what = " ".join(f"{name}={value}" for name, value in given.items())
            raise UserError(f"found no {rows} ({what or 'no filter'}); no file was written")
    say(f"{count:,} {rows} in {file} ({file.stat().st_size / 1e6:,.1f} MB)")


def _progress() -> Progress:
    """Return a bar of months on a terminal; none elsewhere."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rows]}", markup=False),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
