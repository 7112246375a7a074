"""series: list noisy series and series that drift."""

import typer

from nightbench.cli import common
from nightbench.cli.common import say

app = typer.Typer(help="List noisy series, or series that drift.", no_args_is_help=True)


@app.command()
def noisy(json: common.JsonOption = False) -> None:
    """List noisy series. They are still measured and get verdicts, but a drop opens no alert."""
    with common.reader() as warehouse:
        rows = warehouse.series.noisy()
    if common.all_said(rows, "No series is noisy.", json=json):
        return
    for row in rows:
        since = f"{row['since_at']:%Y-%m-%d}"
        say(f"{row['case_id']} on {row['cluster']}, since {since}: {row['sentence']}")


@app.command("drifts")
def list_drifts(
    suite: common.OnlySuiteOption = None,
    cluster: common.OnlyClusterOption = None,
    json: common.JsonOption = False,
) -> None:
    """List series that drift, the largest drop first; a drift is not a regression."""
    from nightbench.alerts.notes import drift_notes

    with common.reader() as warehouse:
        rows = warehouse.series.drifts(suite=suite, cluster=cluster)
    if common.all_said(rows, "No series drifts.", json=json):
        return
    for row, note in zip(rows, drift_notes(rows), strict=True):
        say(f"{note} ({row['since']:%Y-%m-%d} to {row['seen_at']:%Y-%m-%d})")
