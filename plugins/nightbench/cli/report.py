"""The report of a run: one page to mail or print."""

from datetime import UTC, datetime
from pathlib import Path

from nightbench.cli import common
from nightbench.cli.common import say
from nightbench.cli.results import addresses_to_share
from nightbench.core.atomic_files import replaced_file
from nightbench.core.errors import UserError
from nightbench.core.printable import shown
from nightbench.report import from_warehouse, report_page, report_text


def write_report(run_id: str | None, path: Path) -> None:
    """Write the report of a loaded run, the newest by default: a page, or Markdown.

    Raises:
        UserError: there is no such run, or the file has another suffix.
    """
    from nightbench.night.run_report_data import gather

    if path.suffix not in (".html", ".md"):
        raise UserError(f"--report: found {shown(str(path))}; expected a file *.html or *.md")
    with common.reader() as stored:
        wanted = run_id or stored.runs.latest()
        chosen = stored.runs.get(wanted) if wanted else None
        if chosen is None:
            raise UserError(
                f"--run: found {shown(wanted or 'no run')}; expected the id of a loaded run "
                "(`nightbench runs` lists them)"
            )
        rows = from_warehouse(stored.runs.results(chosen.run_id))
        log = f"Show a log: nightbench logs --run {chosen.run_id} --case CASE"
        notes = [*addresses_to_share(chosen.run_id), log]
        made = gather(stored, chosen, rows, common.spool().run(chosen.run_id), notes)
    is_page = path.suffix == ".html"
    text = report_page(made, datetime.now(UTC)) if is_page else report_text(made)
    with replaced_file(path) as new:
        new.write_text(text, encoding="utf-8")
    say(f"{path.absolute()}: {len(rows)} cases of {chosen.run_id}")
