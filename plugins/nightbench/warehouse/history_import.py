"""`nightbench import`: a site's older results from a file, so that series start with a past.

One line is one median of one series. Columns, in any order, are the fields of `MedianRow`: those
without a default are required. Either the whole file is stored or nothing; importing it again
changes nothing.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import BeforeValidator, Field, create_model

from nightbench.core.errors import UserError
from nightbench.core.history_file import (
    PLAIN,
    UNKNOWN,
    DetectRow,
    FileRow,
    HistoryFile,
    Name,
    NotNegative,
    Plain,
    Positive,
    Whole,
    lacking,
)
from nightbench.core.hours import in_utc
from nightbench.core.model import Build, Case, Measurement, PlannedCase, Run, RunKind, Strategy

Entry = tuple[Run, PlannedCase, Measurement]


def is_import_file(file: HistoryFile) -> bool:
    """Return whether a file is one for `nightbench import`, not one for `nightbench detect`."""
    found = set(file.columns)
    ours, others = (found & model.model_fields.keys() for model in (MedianRow, DetectRow))
    return bool(lacking(DetectRow, found)) and len(ours) > len(others)


def read_history(file: HistoryFile) -> list[Entry]:
    """Parse and check a file of a site's older results.

    Raises:
        UserError: it is a file for `nightbench detect`, or lines are wrong: every one is named with
            its column, the value found and what was expected.
    """
    missing = lacking(MedianRow, file.columns)
    if missing and not lacking(DetectRow, file.columns):
        raise UserError(
            f"{file.path}: found a history for `nightbench detect {file.path}`, which stores "
            f"nothing; for an import, the file lacks the columns {', '.join(missing)}"
        )
    entries: list[Entry] = []
    now = datetime.now(UTC)
    seen: dict[tuple[str, str], int] = {}
    for line, row in file.rows(MedianRow):
        entry = _parse(file, line, row.model_dump(exclude_none=True), now)
        if entry is None:
            continue
        run, planned, _ = entry
        known = seen.setdefault((run.run_id, planned.case_id), line)
        if known != line:
            expected = f"another time than line {known} of {planned.case_id}"
            file.wrong(line, "at", run.started_at.isoformat(), expected)
        entries.append(entry)
    file.close()
    return entries


def _instant(cell: Any) -> datetime:
    at = datetime.fromisoformat(str(cell))
    if at.tzinfo is None:
        raise ValueError
    return in_utc(at)


Plain200 = Annotated[Plain, Field(max_length=200, description=f"a text of at most 200 {PLAIN}")]


class _Median(FileRow, extra="forbid"):
    """Columns besides the axes of the case. docs/warehouse.md has meanings and defaults."""

    at: Annotated[
        datetime,
        BeforeValidator(_instant),
        Field(description="an ISO-8601 time with its zone, as 2026-03-31T01:00:00Z"),
    ]
    cluster: Name
    workload: Name
    framework: Name
    strategy: Annotated[Strategy, Field(description=f"one of {', '.join(Strategy)}")]
    throughput: Positive
    unit: Name
    suite: Name = UNKNOWN
    run_kind: Annotated[RunKind, Field(description=f"one of {', '.join(RunKind)}")] = UNKNOWN
    case_id: Name = UNKNOWN
    framework_version: Plain200 = UNKNOWN
    n: Whole = UNKNOWN
    minimum: Positive = UNKNOWN
    maximum: Positive = UNKNOWN
    mad: NotNegative = UNKNOWN
    spread: NotNegative = UNKNOWN
    time_to_first_step_s: Positive = UNKNOWN
    peak_resident_bytes: Annotated[
        float, Field(ge=1, allow_inf_nan=False, description="a number from 1")
    ] = UNKNOWN
    definition_digest: Plain200 = UNKNOWN
    fingerprint_id: Plain200 = UNKNOWN
    pservers: Annotated[int, Field(ge=0, lt=2**31, description="a whole number from 0")] = UNKNOWN
    sync: Annotated[
        Literal["sync", "async", "half_async", "geo"],
        Field(description="one of sync, async, half_async, geo"),
    ] = UNKNOWN


def _axis(kind: Any) -> Any:
    kinds = get_args(kind) or (kind,)
    return Name if str in kinds else NotNegative if float in kinds else Whole


_AXES = get_type_hints(Case)

_OTHERS: dict[str, Any] = {
    axis: (_axis(kind), UNKNOWN) for axis, kind in _AXES.items() if axis not in _Median.model_fields
}
MedianRow = create_model("MedianRow", __base__=_Median, **_OTHERS)

_FIGURES = (
    *("minimum", "maximum", "mad", "spread", "time_to_first_step_s", "peak_resident_bytes"),
    "framework_version",
)


def _parse(file: HistoryFile, line: int, values: dict[str, Any], now: datetime) -> Entry | None:
    is_right = True

    def wrong(column: str, found: object, expected: str) -> None:
        nonlocal is_right
        is_right = False
        file.wrong(line, column, found, expected)

    if values["at"] > now:
        wrong("at", values["at"].isoformat(), "a time that has passed")
    case = _case(values, wrong)
    if values.get("case_id", case.case_id) != case.case_id:
        wrong("case_id", values["case_id"], f"{case.case_id}, which the other columns define")
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
