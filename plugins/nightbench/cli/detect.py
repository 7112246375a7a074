"""detect: find changes in any history, from a file or as a stream."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json as jsonlib
import math
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass
from rich.padding import Padding
from rich.progress import TimeRemainingColumn
from rich.text import Text

from nightbench.cli import common
from nightbench.cli.common import out, say
from nightbench.config.validate import parsed
from nightbench.core.errors import UserError
from nightbench.core.history_file import (
    EARLIEST,
    LATEST,
    DetectRow,
    HistoryFile,
    lacking,
    read_nights,
    shown,
)
from nightbench.core.model import HistoryPoint

if TYPE_CHECKING:
    from nightbench.detection.history import History, HistoryChange, HistoryReport

app = typer.Typer()

STANDARD_INPUT = Path("/dev/stdin")

FOLLOWED = 256
"""Number of series in memory; other series of a stream are judged from their start again."""


@app.command()
def detect(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV with the columns series, t, value and optionally n, spread, "
            "fingerprint, control; or a file for `nightbench import`. `-` is standard input."
        ),
    ] = None,
    json: common.JsonOption = False,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help='Read {"id", "t", "value", "within"} per line of standard input; print for '
            "each line a JSON list of the indices of the changes detected so far.",
        ),
    ] = False,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="Lower values are better (times, sizes).")
    ] = False,
    min_change: Annotated[
        str, typer.Option(help="Omit changes whose whole 90 % interval is smaller: 3% or 0.03.")
    ] = "0",
) -> None:
    """Find changes in nightly histories: date, size, certainty and reason.

    Each night gets a verdict as if it were the last night, so the dates show when a change would
    have been detected. Values are the medians of nights; an empty value is a missing night.
    """
    smallest = _share(min_change)
    if stream == (file is not None):
        raise UserError("detect: found both a file and --stream, or neither; expected one of them")
    if stream:
        given = ["--lower-is-better"] * lower_is_better + ["--min-change"] * (smallest > 0)
        if given:
            raise UserError(
                f"--stream: found {' and '.join(given)} too; expected --stream alone, because "
                "--stream prints every change, increases and drops"
            )
        answer_stream(sys.stdin, sys.stdout)
        return
    assert file is not None
    from nightbench.detection.history import judge_histories

    with common.progress_bar(TimeRemainingColumn()) as progress:
        reading = progress.add_task(f"reading {file}", total=None)
        histories = _read_histories(file)
        progress.remove_task(reading)
        reports = judge_histories(histories, lower_is_better, smallest)
        watched = progress.track(reports, len(histories), description="judging")
        (print_documents if json else show_reports)(watched)


def _share(text: str) -> float:
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share < 1:
        raise UserError(f"--min-change: found {shown(text)}, expected a share such as 3% or 0.03")
    return share


def _read_histories(path: Path) -> list[History]:
    """Return the series of a file for `nightbench detect` or for `nightbench import`."""
    file = HistoryFile(STANDARD_INPUT if str(path) == "-" else path)
    if lacking(DetectRow, file.columns):
        # Imported here: this imports the warehouse's driver, which other files do not need.
        from nightbench.alerts.backtest import pasts_in
        from nightbench.warehouse.history_import import is_import_file

        if is_import_file(file):
            return [
                (f"{case_id} on {cluster}", past.points)
                for past in pasts_in(file)
                for case_id, cluster in [past.series]
            ]
    return list(read_nights(file).items())


def answer_stream(source: TextIO, sink: TextIO) -> None:
    """Answer each line of `source` with the changes of its history.

    If a line continues the history of an earlier line with the same id, only the new nights are
    judged; the answer is the same as for the whole history.

    Raises:
        UserError: a line is malformed.
    """
    from nightbench.detection.incremental import IncrementalDetector
    from nightbench.detection.series import series_from

    detector_of = functools.lru_cache(FOLLOWED)(lambda _: IncrementalDetector())
    for number, line in enumerate(source, start=1):
        if number == 1:
            # Skip a byte order mark, which some editors and shells write.
            line = line.removeprefix("\ufeff")
        if not line.strip():
            continue
        asked = _question(number, line)
        series, usable = series_from(asked.t, asked.value, asked.within or [])
        found = [usable[change.first] for change in detector_of(str(asked.id)).extend(series)]
        sink.write(f"{jsonlib.dumps(found)}\n")
        sink.flush()


def document(report: HistoryReport) -> dict[str, Any]:
    """Return a report as JSON: times in ISO 8601, changes as fractions."""
    return {
        "series": report.series,
        "status": report.status,
        "nights": report.nights,
        "missing": report.missing,
        "absent": report.absent,
        "changes": [_change_document(found) for found in report.changes],
        "segments": [
            {
                "t": _iso(segment.first),
                "fingerprint": segment.fingerprint,
                "step": _change_document(segment.step) if segment.step else None,
            }
            for segment in report.segments
        ],
        "drift": _drift_document(report),
        "smallest_slowdown": report.smallest_slowdown,
    }


def _drift_document(report: HistoryReport) -> dict[str, Any] | None:
    drift, since = report.drift, report.drift_since
    if drift is None or since is None:
        return None
    return {
        "since": _iso(since),
        "nights": drift.nights,
        "change": drift.change,
        "error": drift.error,
    }


def _change_document(found: HistoryChange) -> dict[str, Any]:
    nights = {"first_bad", "last_good", "detected"}
    plain = {k: v for k, v in vars(found).items() if k not in nights | {"control"}}
    control = {"control": dataclasses.asdict(found.control) if found.control else None}
    return (
        plain
        | control
        | {
            name: {"t": _iso(night), "value": night.value, "fingerprint": night.fingerprint_id}
            for name, night in ((name, getattr(found, name)) for name in sorted(nights))
        }
    )


def _iso(night: HistoryPoint) -> str:
    return night.at.isoformat()


def _day(night: HistoryPoint) -> str:
    return f"{night.at:%Y-%m-%d}"


def print_documents(reports: Iterable[HistoryReport]) -> None:
    """Print a JSON list; print each element as soon as it is known."""
    mark = "["
    for report in reports:
        element = jsonlib.dumps(document(report), indent=2, ensure_ascii=False)
        say(f"{mark} {textwrap.indent(element, '  ').lstrip()}")
        mark = ","
    say("]")


_STYLES = {"regressed": "red", "improved": "green", "drift": "yellow"}


def show_reports(reports: Iterable[HistoryReport]) -> None:
    """Print each history with its changes as soon as the history is judged."""
    statuses: Counter[str] = Counter()
    for report in reports:
        if not statuses:
            say(f"{'status':17} {'nights':>6} {'missing':>7} {'detectable':>10}  series")
        statuses[report.status] += 1
        smallest = report.smallest_slowdown
        detectable = "-" if smallest is None else f"{smallest:.1%}"
        row = Text(f"{report.status:17}", style=_STYLES.get(report.status, ""))
        row.append(
            f" {report.nights - report.missing:6} {report.missing + (report.absent or 0):7} "
            f"{detectable:>10}  {report.series}",
            style="not bold default",
        )
        out.print(row, soft_wrap=True)
        for line in _explanations(report):
            _print_indented(line)
    if statuses.total() > 1:
        counts = ", ".join(f"{number} {status}" for status, number in statuses.most_common())
        say(f"{statuses.total()} series: {counts}")


def _print_indented(line: str) -> None:
    if out.is_terminal:
        out.print(Padding(Text(line), (0, 0, 0, 4)))
    else:
        # One line for each explanation, so that grep finds it.
        say(f"    {line}")


def _explanations(report: HistoryReport) -> Iterator[str]:
    for found in report.changes:
        yield (
            f"{found.kind} on {_day(found.first_bad)} (last good {_day(found.last_good)}): "
            f"{found.sentence}"
        )
    for segment in report.segments:
        first, step = segment.first, segment.step
        began = f"; it began with a step: {step.sentence}" if step else ""
        yield f"new baseline from {_day(first)}: fingerprint {segment.fingerprint}{began}"
    if report.drift and report.drift_since:
        yield (
            f"drifts by {report.drift.change:+.1%} (± {2 * report.drift.error:.1%}) since "
            f"{_day(report.drift_since)}, over its last {report.drift.nights} nights"
        )


_Time = Annotated[float, Field(gt=EARLIEST, lt=LATEST, strict=True)]
_Number = Annotated[
    Annotated[float, Field(strict=True, allow_inf_nan=False)] | None,
    BeforeValidator(lambda found: None if found != found else found),
]
"""A number; nothing or NaN if it is missing."""


@dataclass(frozen=True)
class _Question:
    """A line of a stream: the nights of a series, and the sigma of their repeats."""

    t: list[_Time]
    """Unix seconds of each night."""
    value: list[_Number]
    """Median of each night."""
    within: list[_Number] | None = None
    id: Any = ""

    def __post_init__(self) -> None:
        nights = len(self.value)
        if len(self.t) != nights:
            raise UserError(
                f"t: found {len(self.t)} times; expected one for each of {nights} values"
            )
        if any(b <= a for a, b in itertools.pairwise(self.t)):
            raise UserError("t: found times out of order; expected increasing ones")
        if self.within and len(self.within) > nights:
            raise UserError(f"within: found {len(self.within)} numbers; expected {nights} at most")


def _question(number: int, line: str) -> _Question:
    place = f"standard input:{number}"
    try:
        asked = jsonlib.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: found invalid JSON ({error}); expected an object") from error
    if not isinstance(asked, dict):
        raise UserError(f"{place}: found {shown(asked)}, expected a JSON object")
    try:
        return parsed(_Question, asked)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
