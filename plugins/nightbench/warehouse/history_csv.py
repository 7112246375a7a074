"""`nightbench import`: a site's older results from a CSV file, so that series start with a past.

One line is one median of one series. Columns (in any order; `COLUMNS` says which are required):
`at`, `cluster`, `throughput`, `unit`, the axes of the case (`workload`, `framework`, `strategy`,
`nodes`, ...; an axis that is left out has its default), and what is known beside them. Either the
whole file is stored or nothing; importing it again changes nothing.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import (
    SLUG,
    Build,
    Case,
    Measurement,
    PlannedCase,
    Run,
    RunKind,
    Strategy,
)
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.loader import Loader

Entry = tuple[Run, PlannedCase, Measurement]

SHOWN_PROBLEMS = 50


@dataclass(frozen=True)
class ImportReport:
    """What an import did."""

    rows: int
    """Lines of the file."""
    runs: int
    """Nights that they belong to."""
    changed: int
    """Medians that were new or different."""
    series: frozenset[tuple[str, str]]
    """The series that they belong to: case and cluster."""


def import_history(connection: Connection, path: Path | str) -> ImportReport:
    """Store a site's older results as runs that feed baselines.

    Args:
        connection: of a role that may load.
        path: a CSV file in UTF-8 with a header line; `COLUMNS` documents the columns.

    Raises:
        UserError: the file cannot be read, or lines are wrong: every one is named with its
            column, the value found and what was expected, and nothing is stored.
        WarehouseUnavailable: PostgreSQL is away.
    """
    entries = read_history(Path(path))
    runs, changed = Loader(connection).store_history(entries)
    series = frozenset((planned.case_id, run.cluster) for run, planned, _ in entries)
    return ImportReport(rows=len(entries), runs=runs, changed=changed, series=series)


def read_history(path: Path) -> list[Entry]:
    """Parse and check a history file; see `import_history`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: byte {error.start} is not UTF-8. Save the file as UTF-8 and import it again."
        ) from error
    problems: list[str] = []
    entries: list[Entry] = []
    seen: dict[tuple[str, str], int] = {}
    for line, cells in _lines(path, text, problems):
        parsed = _parse(path, line, cells, problems)
        if parsed is None:
            continue
        key = (parsed[0].run_id, parsed[1].case_id)
        if key in seen:
            problems.append(
                f"{path}:{line}: column at: {parsed[0].started_at.isoformat()} found for "
                f"{parsed[1].case_id}, as on line {seen[key]}; expected one line for each series "
                "and time"
            )
        seen.setdefault(key, line)
        entries.append(parsed)
    if problems:
        shown = problems[:SHOWN_PROBLEMS]
        if len(problems) > len(shown):
            shown.append(f"... and {len(problems) - len(shown)} more")
        raise UserError("Nothing was imported:\n  " + "\n  ".join(shown))
    if not entries:
        raise UserError(f"{path}: holds a header and no lines; expected one line for each median.")
    return entries


# --- columns ------------------------------------------------------------------------------


class _Wrong(Exception):
    """A cell's value is not what its column takes; the text says what was expected."""


def _slug(cell: str) -> str:
    if not SLUG.match(cell):
        raise _Wrong("a name of letters, digits, `.`, `_` and `-`")
    return cell


def _instant(cell: str) -> datetime:
    try:
        at = datetime.fromisoformat(cell)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise _Wrong("an ISO-8601 time with its zone, as 2026-03-31T01:00:00Z")
    return at.astimezone(UTC)


def _figure(smallest: float, exclusive: bool = False) -> Callable[[str], float]:
    def parse(cell: str) -> float:
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < smallest or (exclusive and value == smallest):
            raise _Wrong(f"a number {'above' if exclusive else 'from'} {smallest:g}")
        return value

    return parse


def _count(smallest: int) -> Callable[[str], int]:
    def parse(cell: str) -> int:
        if not (cell.isascii() and cell.isdigit()) or not smallest <= int(cell) < 2**31:
            raise _Wrong(f"a whole number from {smallest}")
        return int(cell)

    return parse


def _one_of(values: tuple[str, ...]) -> Callable[[str], str]:
    def parse(cell: str) -> str:
        if cell not in values:
            raise _Wrong(f"one of {', '.join(values)}")
        return cell

    return parse


_positive, _not_negative = _figure(0, exclusive=True), _figure(0)

COLUMNS: Mapping[str, tuple[bool, Callable[[str], Any], str]] = {
    "at": (True, _instant, "start of the run, ISO-8601 with zone"),
    "cluster": (True, _slug, "cluster, as its YAML names it"),
    "workload": (True, _slug, "axis"),
    "framework": (True, _slug, "axis: framework line"),
    "strategy": (True, _one_of(tuple(Strategy)), "axis"),
    "throughput": (True, _positive, "median, units of work per second"),
    "unit": (True, _slug, "unit of work: images, samples, tokens"),
    "suite": (False, _slug, "suite; `import` by default"),
    "run_kind": (False, _one_of(tuple(RunKind)), "`nightly` by default: feeds baselines"),
    "case_id": (False, _slug, "checked against the axes where given"),
    "nodes": (False, _count(1), "axis; 1, or the trainers of a parameter server"),
    "devices_per_node": (False, _count(1), "axis; 1"),
    "trainers": (False, _count(1), "axis; nodes x devices_per_node"),
    "pservers": (False, _count(0), "axis; 0"),
    "batch_size_per_device": (False, _count(1), "axis; 1"),
    "precision": (False, _slug, "axis; fp32"),
    "sync": (False, _one_of(("sync", "async", "half_async", "geo")), "axis; sync"),
    "compiler": (False, _slug, "axis; none"),
    "execution": (False, _slug, "axis; default"),
    "layout": (False, _slug, "axis; default"),
    "sequence_length": (False, _count(1), "axis; none"),
    "compression": (False, _slug, "axis; none"),
    "link_bandwidth": (False, _slug, "axis; full"),
    "threads": (False, _count(1), "axis; none"),
    "data": (False, _slug, "axis; synthetic"),
    "scale": (False, _slug, "axis; full"),
    "framework_version": (False, str, "version that was measured"),
    "n": (False, _count(1), "repeats behind the median; 1"),
    "minimum": (False, _positive, "smallest repeat, units of work per second"),
    "maximum": (False, _positive, "largest repeat, units of work per second"),
    "mad": (False, _not_negative, "median absolute deviation, units of work per second"),
    "spread": (False, _not_negative, "(maximum - minimum) / median"),
    "time_to_first_step_s": (False, _positive, "seconds"),
    "peak_resident_bytes": (False, _figure(1), "bytes"),
    "definition_digest": (False, str, "only from an export; unknown by default"),
    "fingerprint_id": (False, str, "only from an export; unknown by default"),
}
"""Column -> (required, how a cell is parsed, what it means and its default)."""

_AXES = tuple(f.name for f in dataclasses.fields(Case))


def _lines(path: Path, text: str, problems: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        unknown = [name for name in header if name not in COLUMNS]
        missing = [name for name, (required, *_) in COLUMNS.items() if required]
        missing = [name for name in missing if name not in header]
        twice = sorted({name for name in header if header.count(name) > 1})
        for names, what in ((unknown, "unknown"), (missing, "missing"), (twice, "named twice")):
            if names:
                raise UserError(
                    f"{path}:1: column {', '.join(map(repr, names))} {what}. "
                    f"Expected columns: {', '.join(COLUMNS)}"
                )
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                problems.append(
                    f"{path}:{reader.line_num}: {len(cells)} cells found, expected {len(header)} "
                    "as in the header"
                )
                continue
            yield reader.line_num, dict(zip(header, (c.strip() for c in cells), strict=True))
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: no CSV ({error}).") from error


def _parse(path: Path, line: int, cells: Mapping[str, str], problems: list[str]) -> Entry | None:
    before = len(problems)
    values: dict[str, Any] = {}

    def wrong(column: str, found: object, expected: str) -> None:
        problems.append(f"{path}:{line}: column {column}: found {found!r}, expected {expected}")

    for column, (required, parse, _) in COLUMNS.items():
        cell = cells.get(column, "")
        if not cell:
            if required:
                wrong(column, "", "a value")
            continue
        try:
            values[column] = parse(cell)
        except _Wrong as error:
            wrong(column, cell, str(error))
    if len(problems) > before:
        return None
    case = _case(values, wrong)
    if values.get("case_id", case.case_id) != case.case_id:
        wrong("case_id", values["case_id"], f"{case.case_id}, which the axes make")
    low, high = values.get("minimum", 0.0), values.get("maximum", math.inf)
    if not low <= values["throughput"] <= high:
        wrong("throughput", cells["throughput"], f"a median between minimum {low} and {high}")
    return _entry(case, values) if len(problems) == before else None


def _case(values: Mapping[str, Any], wrong: Callable[[str, object, str], None]) -> Case:
    axes = {axis: values[axis] for axis in _AXES if axis in values}
    strategy = axes["strategy"] = Strategy(axes["strategy"])
    if strategy is Strategy.PARAMETER_SERVER:
        for column in ("trainers", "pservers"):
            if not axes.get(column):
                wrong(column, axes.get(column, ""), "a whole number from 1 with parameter_server")
        axes.setdefault("nodes", axes.get("trainers", 1))
    else:
        ranks = axes.get("nodes", 1) * axes.get("devices_per_node", 1)
        if axes.setdefault("trainers", ranks) != ranks:
            wrong("trainers", axes["trainers"], f"nodes x devices_per_node = {ranks}")
        if strategy is Strategy.SINGLE and ranks != 1:
            wrong("nodes", axes.get("nodes", 1), "one device on one node with single")
        for column in ("pservers", "sync"):
            if axes.get(column) not in (None, 0, "sync"):
                wrong(column, axes[column], f"nothing with {strategy.value}")
    return Case(**axes)


def _entry(case: Case, values: Mapping[str, Any]) -> Entry:
    at: datetime = values["at"]
    kind = RunKind(values.get("run_kind", RunKind.NIGHTLY))
    suite = values.get("suite", "import")
    tail = hashlib.sha256(f"{values['cluster']} {kind} {at.isoformat()}".encode()).hexdigest()[:4]
    run = Run(
        run_id=f"import-{suite}-{at:%Y%m%dT%H%M%S}-{tail}",
        suite=suite,
        cluster=values["cluster"],
        run_kind=kind,
        started_at=at,
        requested_by="import",
    )
    build = Build(line=case.framework, version=values.get("framework_version"))
    digest = values.get("definition_digest", "")
    measurement = Measurement(
        run_id=run.run_id,
        case=case,
        cluster=run.cluster,
        build=build,
        unit=values["unit"],
        repeats=(),
        n=values.get("n", 1),
        throughput=values["throughput"],
        minimum=values.get("minimum"),
        maximum=values.get("maximum"),
        mad=values.get("mad"),
        spread=values.get("spread"),
        time_to_first_step_s=values.get("time_to_first_step_s"),
        peak_resident_bytes=values.get("peak_resident_bytes"),
        framework_version=values.get("framework_version"),
        definition_digest=digest,
        fingerprint_id=values.get("fingerprint_id", ""),
    )
    return run, PlannedCase(case, build, digest, values["unit"]), measurement
