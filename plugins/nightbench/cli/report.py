"""report: one page about a run, to be mailed or printed."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nightbench.cli import common
from nightbench.cli.common import say
from nightbench.cli.results import addresses_to_share
from nightbench.core.errors import UserError
from nightbench.core.printable import shown
from nightbench.core.whole_files import replaced
from nightbench.report import from_warehouse, report_page, report_text

app = typer.Typer()


class ReportFormat(StrEnum):
    """Formats of reports."""

    HTML = "html"
    MARKDOWN = "md"


@app.command()
def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN|SUITE", help="Id of a run; or a suite: its newest run.")
    ],
    format_: Annotated[
        ReportFormat,
        typer.Option("--format", "-f", help="html: one page without scripts and other files."),
    ] = ReportFormat.HTML,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file. [default: <run>.html or <run>.md in reports/ of the state folder]",
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-c", help="Of a suite: its newest run there.")
    ] = None,
) -> None:
    """Write a report of a run: verdicts, tables, figures, method, hardware, versions, caveats.

    The nights keep one of each run in the folder reports/ of the spool.
    """
    from nightbench.night.run_digest import gather

    with common.reader() as stored:
        chosen = stored.runs.get(run)
        if chosen is not None and cluster not in (None, chosen.cluster):
            raise UserError(
                f"--cluster: found {shown(str(cluster))}, but {run} ran on {chosen.cluster}"
            )
        if chosen is None and (newest := stored.runs.latest(run, cluster)) is not None:
            chosen = stored.runs.get(newest)
        if chosen is None:
            where = f" on {cluster}" if cluster else ""
            raise UserError(
                f"run: found {shown(run)}; expected the id of a loaded run or a suite that has "
                f"one{where} (`nightbench runs` lists them)"
            )
        rows = from_warehouse(stored.runs.results(chosen.run_id))
        log = f"Show a log: nightbench logs --run {chosen.run_id} --case CASE"
        notes = [*addresses_to_share(chosen.run_id), log]
        made = gather(stored, chosen, rows, common.spool().run(chosen.run_id), notes)
    is_page = format_ is ReportFormat.HTML
    text = report_page(made, datetime.now(UTC)) if is_page else report_text(made)
    # Not the working directory: that is a project, which git watches.
    path = output or common.home().reports / f"{chosen.run_id}.{format_}"
    if output is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as beside:
        beside.write_text(text, encoding="utf-8")
    say(f"{path.absolute()}: {len(rows)} cases of {chosen.run_id}")
