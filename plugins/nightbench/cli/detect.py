"""detect: judge any history, from a file or as a stream."""

from __future__ import annotations

import dataclasses
import itertools
import json as jsonlib
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.table import Table

from nightbench.cli import common
from nightbench.cli.common import out, say
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.detection.history import HistoryChange, HistoryReport
    from nightbench.detection.observations import Observation

app = typer.Typer()


@app.command()
def detect(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV or JSON lines with the columns series, t, value, and where known n, spread, "
            "fingerprint and control."
        ),
    ] = None,
    json: common.JsonOption = False,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help='Read {"id", "t", "value", "within"} a line from standard input; answer each '
            "with a JSON list of the indices of the changes detected so far.",
        ),
    ] = False,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="Times or sizes: a rise is the regression.")
    ] = False,
    min_change: Annotated[
        float, typer.Option(min=0, help="Smallest relative change that is reported.")
    ] = 0.0,
) -> None:
    """Find the changes of nightly histories: when, how much, how certain, and why.

    Each night is judged as if it were the last one, so the dates show when a change would have
    been detected. Values are medians of a night; an empty value is a missing night.
    """
    if stream == (file is not None):
        raise UserError("detect takes either a file or --stream: found both or neither")
    if stream:
        given = ["--lower-is-better"] * lower_is_better + ["--min-change"] * (min_change > 0)
        if given:
            raise UserError(
                f"--stream: found {' and '.join(given)} beside it, expected neither: the answer "
                "to a line is every change of its values, be it a rise or a fall"
            )
        answer_stream(sys.stdin, sys.stdout)
        return
    assert file is not None
    from nightbench.detection.history import judge_history
    from nightbench.detection.observations import read_observations

    reports = [
        judge_history(name, nights, lower_is_better, min_change)
        for name, nights in read_observations(file).items()
    ]
    if json:
        common.print_json([document(report) for report in reports])
        return
    show_reports(reports)


def answer_stream(source: TextIO, sink: TextIO) -> None:
    """Answer each line of `source` with the changes of the history that it holds.

    A line that continues the history of an earlier one with the same id costs only its new nights;
    the answer is the same as for the line alone.

    Raises:
        UserError: a line is malformed.
    """
    from nightbench.detection.changes import Followers
    from nightbench.detection.series import series_from

    followers = Followers()
    for number, line in enumerate(source, start=1):
        if number == 1:
            # A byte order mark, which some editors and shells write.
            line = line.removeprefix("\ufeff")
        if not line.strip():
            continue
        name, seconds, values, within = _question(number, line)
        series, usable = series_from(seconds, values, within)
        found = [usable[change.first] for change in followers.extend(name, series)]
        sink.write(f"{jsonlib.dumps(found)}\n")
        sink.flush()


def document(report: HistoryReport) -> dict[str, Any]:
    """Return a report as JSON: times in ISO 8601, changes as fractions."""
    return {
        "series": report.series,
        "status": report.status,
        "nights": report.nights,
        "missing": report.missing,
        "changes": [_change_document(found) for found in report.changes],
        "segments": [
            {
                "t": _iso(segment.first),
                "fingerprint": segment.first.fingerprint,
                "step": _change_document(segment.step) if segment.step else None,
            }
            for segment in report.segments
        ],
        "drift": dataclasses.asdict(report.drift) if report.drift else None,
        "smallest_slowdown": report.smallest_slowdown,
    }


def _change_document(found: HistoryChange) -> dict[str, Any]:
    nights = {"first_bad", "last_good", "detected"}
    plain = {k: v for k, v in vars(found).items() if k not in nights | {"control"}}
    control = {"control": dataclasses.asdict(found.control) if found.control else None}
    return (
        plain
        | control
        | {
            name: {"t": _iso(night), "value": night.value, "fingerprint": night.fingerprint}
            for name, night in ((name, getattr(found, name)) for name in sorted(nights))
        }
    )


def _iso(night: Observation) -> str:
    return datetime.fromtimestamp(night.seconds, UTC).isoformat()


def show_reports(reports: Sequence[HistoryReport]) -> None:
    """Print the changes of histories as a table, with the evidence of each below it."""
    table = Table("series", "status", "nights", "change", "since", "last good", "95 %", "detected")
    for report in reports:
        nights = str(report.nights - report.missing)
        if not report.changes:
            table.add_row(report.series, report.status, nights, *["-"] * 5)
        for i, found in enumerate(report.changes):
            table.add_row(
                *((report.series, report.status, nights) if i == 0 else ("", "", "")),
                f"{found.change:+.1%}",
                found.first_bad.day,
                found.last_good.day,
                f"{found.low:+.1%} to {found.high:+.1%}",
                found.detected.day,
            )
    out.print(table)
    for report in reports:
        for found in report.changes:
            say(f"{report.series}: {found.kind} on {found.first_bad.day}: {found.sentence}")
        for segment in report.segments:
            first, step = segment.first, segment.step
            began = f"; it began with a step: {step.sentence}" if step else ""
            say(
                f"{report.series}: judged anew from {first.day}: "
                f"fingerprint {first.fingerprint}{began}"
            )
        if report.drift:
            say(
                f"{report.series}: drifts by {report.drift.change:+.1%} "
                f"(± {2 * report.drift.error:.1%}) over its last {report.drift.nights} nights"
            )
        if report.smallest_slowdown is not None:
            say(
                f"{report.series}: a slowdown of {report.smallest_slowdown:.1%} would be detected "
                "within a week in nine of ten cases"
            )


def _question(number: int, line: str) -> tuple[str, list[float], list[Any], list[Any]]:
    """Return id, times, values and the repeats' sigma of one line of a stream.

    Raises:
        UserError: naming the line, the key, what was found and what was expected.
    """
    place = f"standard input:{number}"
    try:
        asked = jsonlib.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: found what is no JSON ({error}), expected an object") from error
    if not isinstance(asked, dict):
        raise UserError(f"{place}: found {type(asked).__name__}, expected a JSON object")
    values = _numbers(place, "value", asked.get("value"), missing=True)
    seconds = _numbers(place, "t", asked.get("t"), missing=False)
    within = _numbers(place, "within", asked.get("within") or [], missing=True)
    if len(seconds) != (nights := len(values)):
        raise UserError(
            f"{place}: key t: found {len(seconds)} times, expected one for each of {nights} values"
        )
    if any(b <= a for a, b in itertools.pairwise(seconds)):
        raise UserError(f"{place}: key t: found times that do not rise, expected rising ones")
    if len(within) > len(values):
        raise UserError(
            f"{place}: key within: found {len(within)} numbers, expected {len(values)} at most"
        )
    return str(asked.get("id", "")), seconds, values, within


def _numbers(place: str, key: str, found: object, *, missing: bool) -> list[Any]:
    if not isinstance(found, list):
        raise UserError(f"{place}: key {key}: found {found!r:.60}, expected a list of numbers")
    for i, number in enumerate(found):
        if number is None and missing:
            continue
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise UserError(f"{place}: key {key}[{i}]: found {number!r:.60}, expected a number")
        if abs(number) > sys.float_info.max or (number != number and not missing):
            expected = "a number" if missing else "a finite number"
            raise UserError(f"{place}: key {key}[{i}]: found {number!r:.60}, expected {expected}")
    return found
