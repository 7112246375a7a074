"""The read-only API of the pages: the morning, series, and the newest of them as metrics."""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import HTTPException, Query, Request, Response
from pydantic import AfterValidator, BeforeValidator

from nightbench.core.hours import in_utc
from nightbench.core.prometheus import CONTENT_TYPE, prometheus_text
from nightbench.warehouse.alerts import LIVE, worst_first
from nightbench.warehouse.pages import OpenPages, PageRepository
from nightbench.warehouse.repository import Row
from nightbench.web.alert_api import group_rows
from nightbench.web.api_model import ApiModel, Items
from nightbench.web.ui_models import (
    AxisValue,
    LossCurve,
    Morning,
    SeriesHistory,
    SeriesLosses,
    SeriesPage,
    SeriesPoint,
    SeriesRow,
    SuiteRun,
)

ALERTS = 100
"""Groups of alerts on the page Morning."""
STEPS_SHOWN = 500
"""Number of losses of a run that one answer has: the first losses."""
STATE_CHANGES = 4
"""Fields of a node's state that are named if they change."""
NOT_AXES = {"cluster", "suite", "state", "search", "sort", "together", "page", "size", "format"}
SORTS = Literal["case_id", "change", "spread", "efficiency", "mfu", "measured_at"]


def _not_a_number(text: str) -> str:
    """Refuse numbers, which pydantic reads as seconds since 1970."""
    if not re.match(r"\d{4}-", text):
        raise ValueError("expected ISO 8601, such as 2026-11-29T04:00:00Z")
    return text


Moment = Annotated[
    datetime,
    BeforeValidator(_not_a_number),
    AfterValidator(in_utc),
]


@dataclass(frozen=True)
class UiApi:
    """Handlers of the API that the pages read."""

    repository: OpenPages

    def morning(self, days: Annotated[int, Query(ge=1, le=31)] = 1) -> Morning:
        """Return the new alerts, the runs and the missing results of the last days."""
        now = datetime.now(UTC)
        since = now - timedelta(days=days)
        with self.repository() as repository:
            marks = repository.read("page_alert_marks", states=LIVE, cluster=None, framework=None)
            new, older = _new_first(marks, since, now)
            shown = [*new, *older][:ALERTS]
            runs = sorted(repository.newest_runs(), key=lambda run: (run["suite"], run["cluster"]))
            run_ids = [run["run_id"] for run in runs]
            counts: dict[str, dict[str, int]] = defaultdict(dict)
            for row in repository.read("ui_verdict_counts", run_ids=run_ids):
                counts[row["run_id"]][row["verdict"]] = row["cases"]
            return Morning.of(
                at=now,
                since=since,
                alerts=group_rows(repository, shown),
                new_alerts=len(new),
                older_alerts=len(older),
                suites=[
                    SuiteRun.of(
                        run,
                        regressed=counts[run["run_id"]].get("regressed", 0),
                        improved=counts[run["run_id"]].get("improved", 0),
                    )
                    for run in runs
                ],
                missing=repository.missing_nights(),
                left_out=repository.left_out(run_ids),
                noisy=repository.series.noisy(),
                drifting=repository.series.drifts(),
                grades_too_low=[
                    f"{row['suite']} on {row['cluster']}: {row['below']}"
                    for row in repository.grades.latest()
                    if row["below"]
                ],
                is_empty=not runs and not shown and not repository.read("ui_choices"),
            )

    def series_list(
        self,
        request: Request,
        cluster: str = "",
        suite: str = "",
        state: str = "",
        search: str = "",
        sort: SORTS = "case_id",
        together: str = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
        size: Annotated[int, Query(ge=1, le=500)] = 50,
        format: Literal["json", "csv"] = "json",
    ) -> Any:
        """Series by their axes: any further parameter is an axis, such as `precision=fp32`."""
        given = request.query_params
        axes = {key: given[key] for key in given if key not in NOT_AXES and given[key]}
        is_csv = format == "csv"
        with self.repository() as repository:
            rows = repository.find_series(
                axes,
                cluster=cluster or None,
                suite=suite or None,
                state=state or None,
                search=search or None,
                sort=sort,
                together=together or None,
                max_rows=None if is_csv else size,
                skipped=0 if is_csv else (page - 1) * size,
            )
            if is_csv:
                return csv_response(rows, SeriesRow, "medians")
            medians = repository.sparklines((row["case_id"], row["cluster"]) for row in rows)
        items = [
            SeriesRow.of(row, medians=medians.get((row["case_id"], row["cluster"]), []))
            for row in rows
        ]
        total = rows[0]["total"] if rows else 0
        return SeriesPage(items=items, total=total, page=page, size=size)

    def axis_values(self) -> Items[AxisValue]:
        """The axes that series have, with the values of each."""
        with self.repository() as repository:
            return Items[AxisValue].of(items=repository.read("ui_choices"))

    def series(
        self,
        case_id: str,
        cluster: str,
        since: Moment | None = None,
        until: Moment | None = None,
        format: Literal["json", "csv"] = "json",
    ) -> Any:
        """One series with its history; a bound without a zone is UTC."""
        series = {"case_id": case_id, "cluster": cluster}
        with self.repository() as repository:
            points = repository.read("ui_series_points", **series, since=since, until=until)
            if not points and since is None and until is None:
                raise HTTPException(404, f"There is no series {case_id[:200]} on {cluster[:80]}.")
            if format == "csv":
                return csv_response(points, SeriesPoint, "state_changes")
            noisy, drifts = repository.series.noisy(), repository.series.drifts()
            counted = [
                row["run_id"]
                for row in points
                if row["throughput"] and not (row["is_quarantined"] or row["is_private_build"])
            ]
            return SeriesHistory.of(
                **series,
                unit=next((row["unit"] for row in reversed(points) if row["unit"]), None),
                points=[
                    SeriesPoint.of(row, state_changes=changes)
                    for row, changes in zip(points, _state_changes(repository, points), strict=True)
                ],
                alerts=repository.series_alerts(**series),
                published=repository.read("ui_series_references", **series),
                noisy=next((row for row in noisy if series.items() <= row.items()), None),
                drifting=next((row for row in drifts if series.items() <= row.items()), None),
                roofline=repository.first("ui_roofline", **series, run_id=counted[-1])
                if counted
                else None,
            )

    def losses(self, case_id: str, cluster: str) -> SeriesLosses:
        """Losses of a series step by step: tonight's, the last good night's, and other lines'."""
        with self.repository() as repository:
            rows = repository.read(
                "ui_series_losses", case_id=case_id, cluster=cluster, max_steps=STEPS_SHOWN
            )
        longest = max(rows, key=lambda row: len(row["losses"]), default=None)
        steps = range(len(longest["losses"])) if longest else ()
        return SeriesLosses(
            steps=[longest["warmup"] + place if place else 1 for place in steps] if longest else [],
            curves=[LossCurve.of(row) for row in rows],
        )

    def metrics(self, suite: str | None = None, cluster: str | None = None) -> Response:
        """Newest median, verdict and live alert of each series, in Prometheus's text format."""
        with self.repository() as repository:
            rows = repository.read("export_metrics", suite=suite, cluster=cluster, case_id=None)
        text = "".join(prometheus_text(rows))
        return Response(text, media_type=CONTENT_TYPE)


def csv_response(rows: Iterable[Row], model: type[ApiModel], without: str = "") -> Response:
    """Return rows as CSV: a column for each field but one, what identifies a row first.

    No text begins like a spreadsheet's formula.
    """
    fields = [name for name in model.model_fields if name != without]
    first = ("run_id", "started_at", "case_id", "cluster")
    columns = sorted(fields, key=lambda name: name not in first)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8")


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def _new_first(
    rows: Sequence[Row], since: datetime, now: datetime
) -> tuple[list[list[Row]], list[list[Row]]]:
    """Return groups of live alerts: new ones and older ones, the worst first, snoozed ones last."""

    def is_quiet(group: Sequence[Row]) -> bool:
        until = group[0]["snoozed_until"]
        return until is not None and until > now

    groups = sorted(worst_first(rows), key=is_quiet)
    new = [group for group in groups if any(row["opened_at"] >= since for row in group)]
    return new, [group for group in groups if group not in new]


def _state_changes(repository: PageRepository, points: Sequence[Row]) -> list[list[str]]:
    """Return for each point the node fields that differ from the previous point on these nodes."""
    before: dict[tuple[str, ...], str] = {}
    pairs: list[tuple[str, str] | None] = []
    for row in points:
        nodes, new = tuple(row["node_names"] or ()), row["fingerprint_id"]
        old = before.get(nodes)
        pairs.append((old, new) if old and new and old != new else None)
        if new:
            before[nodes] = new
    wanted = {fingerprint for pair in pairs if pair for fingerprint in pair}
    fields: dict[str, dict[str, str]] = defaultdict(dict)
    if wanted:
        for row in repository.read("ui_fingerprint_fields", fingerprint_ids=sorted(wanted)):
            fields[row["fingerprint_id"]][row["field"]] = str(row["value"])
    return [_differences(fields[pair[0]], fields[pair[1]]) if pair else [] for pair in pairs]


def _differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the differences in words; a gang's common digest shows no more."""
    if not old or not new:
        return ["state of the nodes"]
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    shown = [f"{n} {old.get(n, 'none')} → {new.get(n, 'none')}" for n in names[:STATE_CHANGES]]
    return shown + ([f"{len(names) - len(shown)} more"] if len(names) > len(shown) else [])
