"""export, import: write the history for other programs, and load a site's older results."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nightbench.cli import common
from nightbench.cli.common import say, warn
from nightbench.cli.detect import STANDARD_INPUT, show_reports
from nightbench.config import find_suites, locations
from nightbench.config.suites import readable_suites
from nightbench.core.atomic_files import replaced_file
from nightbench.core.errors import UserError
from nightbench.core.history_file import HistoryFile
from nightbench.core.model import RegressionPolicy
from nightbench.core.printable import shown
from nightbench.core.prometheus import prometheus_text

if TYPE_CHECKING:
    from nightbench.detection.history import HistoryReport
    from nightbench.night.imported_series import ImportedSeries
    from nightbench.warehouse import Warehouse
    from nightbench.warehouse.exports import ExportFilter

app = typer.Typer()

Row = dict[str, Any]


class ExportFormat(StrEnum):
    """Formats of files."""

    PARQUET = "parquet"
    CSV = "csv"
    MLPERF = "mlperf"
    BUNDLE = "bundle"
    PROMETHEUS = "prometheus"


class ExportRows(StrEnum):
    """The kinds of rows: the names of `warehouse.exports.EXPORTS`."""

    MEASUREMENTS = "measurements"
    REPEATS = "repeats"
    VERDICTS = "verdicts"
    ALERTS = "alerts"


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="File (for mlperf: folder) to write or replace.")],
    rows: Annotated[
        ExportRows | None,
        typer.Option(help="Rows to write as Parquet or CSV. [default: measurements]"),
    ] = None,
    format_: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format",
            "-f",
            help="Mlperf: logs of MLPerf Training for the cases of a run. Bundle: an archive of a "
            "case with everything needed to measure it again. Prometheus: the newest medians and "
            "verdicts. [default: by the file's ending: .parquet, .csv, .tar.gz, .prom]",
        ),
    ] = None,
    suite: common.OnlySuiteOption = None,
    cluster: common.OnlyClusterOption = None,
    case: Annotated[str | None, typer.Option(metavar="SLUG", help="Case to include.")] = None,
    run: Annotated[str | None, typer.Option("--run", "-r", help="Run to include.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Include runs from this time on: 2026-11-01, or 2026-11-01T22:00. The default "
            "zone is UTC.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Include runs that began before.")
    ] = None,
) -> None:
    """Write the history to a Parquet or CSV file, with the columns of the schema marts.

    Rows are read in batches, so a long history needs little memory.
    """
    from nightbench.warehouse.exports import ExportFilter

    chosen_format = format_ or _format_of(file)
    if chosen_format in (ExportFormat.MLPERF, ExportFormat.BUNDLE):
        given = {"--rows": rows, "--suite": suite, "--cluster": cluster}
        run_id = _run_of(run, {**given, "--since": since, "--until": until})
        (_write_mlperf if chosen_format is ExportFormat.MLPERF else _write_bundle)(
            file, run_id, case
        )
        return
    if chosen_format is ExportFormat.PROMETHEUS:
        given = {"--rows": rows, "--run": run, "--since": since, "--until": until}
        _write_metrics(file, ExportFilter(suite=suite, cluster=cluster, case_id=case), given)
        return
    chosen = ExportFilter(
        suite=suite,
        cluster=cluster,
        case_id=case,
        run_id=run,
        since=common.instant("--since", since) if since else None,
        until=common.instant("--until", until) if until else None,
    )
    _write_table(file, chosen_format, rows or ExportRows.MEASUREMENTS, chosen)


def _format_of(file: Path) -> ExportFormat:
    named = {
        ".parquet": ExportFormat.PARQUET,
        ".csv": ExportFormat.CSV,
        ".tar.gz": ExportFormat.BUNDLE,
        ".prom": ExportFormat.PROMETHEUS,
    }
    for ending, found in named.items():
        if file.name.lower().endswith(ending):
            return found
    raise UserError(
        f"file: found {shown(str(file))}; expected one of the endings {', '.join(named)}, or "
        "--format"
    )


def _write_table(file: Path, format_: ExportFormat, rows: ExportRows, chosen: ExportFilter) -> None:
    from nightbench.report.export_files import FORMATS
    from nightbench.warehouse.exports import EXPORTS

    given = chosen.given()
    about = {
        "nightbench.version": version("nightbench"),
        "nightbench.rows": f"{rows}, columns of {EXPORTS[rows]}",
        "nightbench.written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **{f"nightbench.filter.{name}": value for name, value in given.items()},
    }
    count = 0
    with (
        common.reader() as warehouse,
        replaced_file(file) as new,
        common.progress_bar(
            TextColumn("{task.fields[rows]}", markup=False), TimeElapsedColumn()
        ) as progress,
    ):
        stored = warehouse.exports
        task = progress.add_task(f"{rows}, months", rows="")
        with (
            FORMATS[format_](new, stored.columns(rows), about) as write,
            closing(stored.batches(rows, chosen)) as batches,
        ):
            for batch in batches:
                if batch.rows:
                    write(batch.rows)
                    count += len(batch.rows)
                done = batch.month - bool(batch.rows)
                progress.update(task, completed=done, total=batch.months, rows=f"{count:,} rows")
        if not count:
            what = " ".join(f"{name}={value}" for name, value in given.items())
            raise UserError(f"found no {rows} ({what or 'no filter'}); nothing was written")
    say(f"{count:,} {rows} in {file} ({file.stat().st_size / 1e6:,.1f} MB)")


def _write_metrics(file: Path, chosen: ExportFilter, others: Mapping[str, object]) -> None:
    """Write newest medians and verdicts as Prometheus's textfile collector reads them."""
    _refuse(others, "prometheus, which writes newest medians", "--suite, --cluster or --case")
    with common.reader() as warehouse:
        rows = warehouse.exports.metrics(chosen)
    # Write an empty file if nothing is measured: without it, old values would stay.
    with replaced_file(file) as new:
        new.write_text("".join(prometheus_text(rows)), encoding="utf-8")
    say(f"{len(rows):,} series in {file}")


def _refuse(options: Mapping[str, object], format_: str, expected: str) -> None:
    for option, value in options.items():
        if value is not None:
            raise UserError(f"{option}: found with {format_}; expected {expected}")


def _run_of(run: str | None, others: Mapping[str, object]) -> str:
    _refuse(others, "mlperf or bundle", "--run and --case")
    if run is None:
        raise UserError("--run: found none; expected the id of a run (see `nightbench runs`)")
    return run


def _measured(warehouse: Warehouse, run: str, case: str | None) -> tuple[list[Row], list[Row]]:
    """Return the repeats and the measurements that passed their checks, of a run or of one case."""
    measurements = warehouse.exports.of_run("measurements", run, case)
    if not measurements:
        what = f" of {case}" if case else ""
        raise UserError(f"run {shown(run)}: found no measurement{what} that passed its checks")
    return measurements, warehouse.exports.of_run("repeats", run, case)


def _write_mlperf(folder: Path, run: str, case: str | None) -> None:
    from nightbench.report.export_files import counted, mlperf_lines

    with common.reader() as warehouse:
        measurements, repeats = _measured(warehouse, run, case)
    for measurement in measurements:
        case_id = measurement["case_id"]
        own = counted([row for row in repeats if row["case_id"] == case_id])
        if not own:
            warn(f"left out, imported without repeats: {case_id}")
            continue
        path = folder / f"{case_id}.log"
        with replaced_file(path) as new:
            new.write_text("".join(mlperf_lines(measurement, own)), encoding="utf-8")
        say(f"{path}: {len(own)} repeats; read it with: nightbench parse mlperf {path} --warmup 0")


def _write_bundle(file: Path, run: str, case: str | None) -> None:
    from nightbench.night.reproduction_bundle import write_bundle

    if case is None:
        raise UserError("--case: found none; expected the case to bundle")
    with common.reader() as warehouse:
        measurements, repeats = _measured(warehouse, run, case)
        causes = warehouse.causes
        nodes = {row["node"]: row["fingerprint_id"] for row in causes.nodes([case], [run])}
        known = causes.fingerprints({each for each in nodes.values() if each})
        fingerprints = {node: known[each] for node, each in nodes.items() if each in known}
    with replaced_file(file) as new:
        lacks = write_bundle(new, common.spool().run(run), measurements[0], repeats, fingerprints)
    say(f"{file}: {case} of {run}; its README.md says how to measure it again")
    if lacks is not None:
        warn(f"the archive is not complete: {lacks}")


@app.command("import")
def import_history(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header line.")],
    alerts: Annotated[
        bool,
        typer.Option(
            "--alerts", help="Open an alert for each series that dropped in its last nights."
        ),
    ] = False,
) -> None:
    """Load older results from a file, and show the changes that the detector finds in them."""
    from nightbench.night.imported_series import judge_imported, open_alerts
    from nightbench.warehouse import Warehouse
    from nightbench.warehouse.history_import import read_history

    try:
        entries = read_history(HistoryFile(STANDARD_INPUT if str(file) == "-" else file))
    except UserError as error:
        raise UserError(f"Nothing was imported:\n{error}") from None
    with closing(common.open_warehouse()) as connection:
        warehouse, policy = Warehouse(connection), RegressionPolicy()
        runs, changed = warehouse.runs.store_history(entries)
        say(f"{len(entries)} medians of {runs} runs; {changed} were new or different")
        series = frozenset((planned.case_id, run.cluster) for run, planned, _ in entries)
        _warn_of_unplanned(series)
        found: list[ImportedSeries] = []

        def kept(each: ImportedSeries) -> HistoryReport:
            found.append(each)
            return each.report

        with common.progress_bar(TimeRemainingColumn()) as progress:
            judged = judge_imported(warehouse, series, policy.reported_from)
            show_reports(progress.track(map(kept, judged), len(series), description="judging"))
        if alerts:
            opened = open_alerts(warehouse, found, policy.clear_change)
            names = ", ".join(f"{each.case_id} on {each.cluster}" for each in opened)
            say(f"opened {len(opened)} alerts" + (f": {names}" if names else ""))
        elif any(each.report.status == "regressed" for each in found):
            say("Some series dropped in their last 30 nights. To open alerts, use --alerts")


def _warn_of_unplanned(series: frozenset[tuple[str, str]]) -> None:
    try:
        suites = readable_suites(find_suites(locations.dags_folder()), common.catalog())
    except UserError as error:
        warn(f"It was not checked whether a suite has the imported cases: {error}")
        return
    planned = {(case.case_id, suite.cluster) for suite in suites.values() for case in suite.cases}
    if apart := sorted(series - planned):
        names = "\n".join(f"  {case_id} on {cluster}" for case_id, cluster in apart)
        warn(
            f"No suite in {locations.dags_folder() / 'suites'} has these cases on these clusters. "
            f"If one should, compare the names with `nightbench plan SUITE`:\n{names}"
        )
