"""grade: the power, false alarms and delay of the detector on shadow series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from nightbench.cli import common
from nightbench.cli.common import out, say
from nightbench.config import find_clusters, find_suites, locations
from nightbench.config.source import one_of
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.warehouse import Warehouse

app = typer.Typer()

Row = Mapping[str, Any]


@app.command()
def grade(
    suite: Annotated[
        str | None, typer.Argument(help="Name of a suite; all unless given.", show_default=False)
    ] = None,
    cluster: common.OnlyClusterOption = None,
    json: common.JsonOption = False,
) -> None:
    """Show how well the detector works: its power, its false alarms, its delay.

    Every night judges copies of the suite's own series, with slowdowns of known size and without a
    change. The figures cover the 90 days before the newest night.
    """
    with common.reader() as warehouse:
        rows = warehouse.grades.latest(suite, cluster)
        if not rows:
            _refuse_unknown(warehouse, suite, cluster)
    if json:
        common.print_json(rows)
        return
    if not rows:
        said = f" of suite {suite}" if suite else ""
        say(f"No night{said} has been graded yet: a series is copied from its 21st night on.")
        return
    for (name, where, run_id), group in groupby(
        rows, key=lambda row: (row["suite"], row["cluster"], row["run_id"])
    ):
        found = list(group)
        out.print(_table(f"{name} on {where}, up to {run_id}", found))
        for row in found:
            if row["below"]:
                say(row["below"])


def _refuse_unknown(warehouse: Warehouse, suite: str | None, cluster: str | None) -> None:
    """Refuse a name that neither a file nor a run has.

    Raises:
        UserError: the suite or the cluster is unknown.
    """
    dags = locations.dags_folder()
    for what, name, files in (
        ("suite", suite, find_suites(dags)),
        ("cluster", cluster, find_clusters(dags)),
    ):
        if name is None or name in files:
            continue
        given: dict[str, Any] = {what: name}
        if not warehouse.runs.find(**given, limit=1, imported=True):
            raise UserError(
                f"{what}: {one_of(name, files)}; looked in {dags / what}s and among the runs of "
                "the warehouse"
            )


def _table(title: str, rows: Sequence[Row]) -> Table:
    numbers = ("detected", "of", "power", "95 %", "median delay", "expected")
    lines = map(cells, sorted(rows, key=_order))
    return common.table(("planted", *numbers), lines, right=numbers, title=title)


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a grade: planted, detected, of how many, rate, interval, delay, limit."""
    falls, rate, limit = not _is_quiet(row), row["rate"], row["limit_value"]
    unit = "{:.0%}" if falls else "{:.1f} in 1,000"
    bound = "{:.0%}" if falls else "{:.1f}"
    delay = row["median_delay"]
    known = rate is not None
    return (
        f"{row['measure']} slower" if falls else "nothing (false alarms)",
        str(row["hits"]),
        f"{row['trials']:,}" + ("" if falls else " nights"),
        unit.format(rate) if known else "-",
        f"{bound.format(row['low'])} to {bound.format(row['high'])}" if known else "-",
        "-" if delay is None else f"{delay:g} night{'' if delay == 1 else 's'}",
        "-" if limit is None else f"{'at least' if falls else 'at most'} {bound.format(limit)}",
    )


def _is_quiet(row: Row) -> bool:
    from nightbench.detection.grading import FALSE_ALARMS

    return bool(row["measure"] == FALSE_ALARMS)


def _order(row: Row) -> tuple[int, str]:
    from nightbench.detection.shadows import FALLS

    names = [sizes.name for sizes in FALLS]
    measure = str(row["measure"])
    return (names.index(measure) if measure in names else len(names), measure)
