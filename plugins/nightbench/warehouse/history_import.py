"""`nightbench import`: a site's older results from a file, so that series start with a past.

One line is one median of one series. Columns (in any order; `COLUMNS` says which are required):
`at`, `cluster`, `throughput`, `unit`, the axes of the case (`workload`, `framework`, `strategy`,
`nodes`, ...; an axis that is left out has its default), and what is known beside them. Either the
whole file is stored or nothing; importing it again changes nothing.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

from nightbench.core.errors import UserError
from nightbench.core.history_file import (
    Column,
    HistoryFile,
    Row,
    lacking,
    number,
    one_of,
    slug,
    text,
    whole,
)
from nightbench.core.model import Build, Case, Measurement, PlannedCase, Run, RunKind, Strategy
from nightbench.detection import observations
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.runs import RunRepository

Entry = tuple[Run, PlannedCase, Measurement]


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


def import_history(connection: Connection, entries: Sequence[Entry]) -> ImportReport:
    """Store a site's older results as runs that feed baselines.

    Raises:
        WarehouseUnavailable: PostgreSQL is away.
    """
    runs, changed = RunRepository(connection).store_history(entries)
    series = frozenset((planned.case_id, run.cluster) for run, planned, _ in entries)
    return ImportReport(rows=len(entries), runs=runs, changed=changed, series=series)


def is_import_file(file: HistoryFile) -> bool:
    """Return whether a file is one for `nightbench import`, not one for `nightbench detect`."""
    if not lacking(observations.COLUMNS, file.columns):
        return False
    found = set(file.columns)
    return len(found & COLUMNS.keys()) > len(found & observations.COLUMNS.keys())


def read_history(file: HistoryFile) -> list[Entry]:
    """Parse and check a file of a site's older results.

    Raises:
        UserError: it is a file for `nightbench detect`, or lines are wrong: every one is named with
            its column, the value found and what was expected.
    """
    missing = lacking(COLUMNS, file.columns)
    if missing and not lacking(observations.COLUMNS, file.columns):
        raise UserError(
            f"{file.path}: a history for `nightbench detect {file.path}`, which judges it without "
            f"storing it; for an import it lacks the columns {', '.join(missing)}"
        )
    entries: list[Entry] = []
    now = datetime.now(UTC)
    seen: dict[tuple[str, str], int] = {}
    for row in file.rows(COLUMNS, others=False):
        entry = _parse(file, row, now)
        if entry is None:
            continue
        run, planned, _ = entry
        known = seen.setdefault((run.run_id, planned.case_id), row.line)
        if known != row.line:
            expected = f"another time than line {known} of {planned.case_id}"
            file.wrong(row.line, "at", run.started_at.isoformat(), expected)
        entries.append(entry)
    file.close()
    return entries


def _instant(cell: Any) -> datetime:
    at = datetime.fromisoformat(str(cell))
    if at.tzinfo is None:
        raise ValueError
    return at.astimezone(UTC)


def _axis(kind: Any) -> Column:
    """The column of an axis, by the type of its values."""
    kinds = get_args(kind) or (kind,)
    if str in kinds:
        return slug()
    return number(0) if float in kinds else whole(1)


_AXES = get_type_hints(Case)
_WORK = ("workload", "framework", "strategy")
"""Axes that a file has to name."""

COLUMNS = {
    "at": Column(
        _instant, "an ISO-8601 time with its zone, as 2026-03-31T01:00:00Z", is_required=True
    ),
    "cluster": slug(required=True),
    "workload": slug(required=True),
    "framework": slug(required=True),
    "strategy": one_of(Strategy, required=True),
    "throughput": number(0, exclusive=True, required=True),
    "unit": slug(required=True),
    "suite": slug(),
    "run_kind": one_of(RunKind),
    "case_id": slug(),
    **{axis: _axis(kind) for axis, kind in _AXES.items() if axis not in _WORK},
    "pservers": whole(0),
    "sync": one_of(("sync", "async", "half_async", "geo")),
    "framework_version": text("a text"),
    "n": whole(1),
    "minimum": number(0, exclusive=True),
    "maximum": number(0, exclusive=True),
    "mad": number(0),
    "spread": number(0),
    "time_to_first_step_s": number(0, exclusive=True),
    "peak_resident_bytes": number(1),
    "definition_digest": text("a text"),
    "fingerprint_id": text("a text"),
}
"""What the columns mean, and their defaults, is said in docs/warehouse.md."""

_FIGURES = (
    *("minimum", "maximum", "mad", "spread", "time_to_first_step_s", "peak_resident_bytes"),
    "framework_version",
)


def _parse(file: HistoryFile, row: Row, now: datetime) -> Entry | None:
    values, is_right = row.values, True

    def wrong(column: str, found: object, expected: str) -> None:
        nonlocal is_right
        is_right = False
        file.wrong(row.line, column, found, expected)

    if values["at"] > now:
        wrong("at", values["at"].isoformat(), "a time that has passed")
    case = _case(values, wrong)
    if values.get("case_id", case.case_id) != case.case_id:
        wrong("case_id", values["case_id"], f"{case.case_id}, which the axes make")
    low, high = values.get("minimum", 0.0), values.get("maximum", math.inf)
    if not low <= values["throughput"] <= high:
        wrong("throughput", values["throughput"], f"a median between minimum {low} and {high}")
    return _entry(case, values) if is_right else None


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
        **{name: values[name] for name in _FIGURES if name in values},
        definition_digest=digest,
        fingerprint_id=values.get("fingerprint_id", ""),
    )
    return run, PlannedCase(case, build, digest, values["unit"]), measurement
