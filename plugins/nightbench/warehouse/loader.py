"""Writing: plans, results, verdicts, alerts. Every call is one transaction, and may be repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from psycopg2.extras import Json

from nightbench.model import (
    Build,
    CheckResult,
    Cluster,
    Measurement,
    RankResult,
    Run,
    Severity,
    Verdict,
)
from nightbench.warehouse.bundle import CaseBundle, PlannedCase, RepeatBundle, RunBundle
from nightbench.warehouse.connection import Connection, reported
from nightbench.warehouse.statements import statement

Row = dict[str, Any]


class Loader:
    """Stores what a run planned and brought. Loading the same thing again changes nothing.

    Every method raises `WarehouseUnavailable` where PostgreSQL is away and `WarehouseRefused`
    where it refuses the data; in both cases nothing of the call was stored.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def plan_run(
        self, run: Run, planned: Sequence[PlannedCase], cluster: Cluster | None = None
    ) -> None:
        """Store what a run means to measure, before anything is launched."""
        with reported(f"store the plan of run {run.run_id}"), self._connection:
            self._plan(run, planned, cluster)

    def load_run(self, bundle: RunBundle) -> bool:
        """Store all that a run brought, quarantined results with their reasons.

        Returns:
            True where anything was written, False where all of it was there already.
        """
        with reported(f"load run {bundle.run.run_id}"), self._connection:
            self._execute("lock_run", [{"run_id": bundle.run.run_id}])
            changed = self._plan(bundle.run, bundle.planned, bundle.cluster)
            changed += self._execute(
                "store_fingerprint",
                [
                    {"fingerprint_id": key, "document": Json(dict(document))}
                    for key, document in sorted(bundle.fingerprints.items())
                ],
            )
            planned = {p.case_id: p for p in bundle.planned}
            for case in bundle.cases:
                changed += self._load_case(bundle.run, case, planned.get(case.case.case_id))
            changed += self._execute("mark_loaded", [{"run_id": bundle.run.run_id}])
        return changed > 0

    def store_history(
        self, entries: Iterable[tuple[Run, PlannedCase, Measurement]]
    ) -> tuple[int, int]:
        """Store imported medians (origin `import`) in one transaction.

        Returns:
            How many runs the entries belong to, and how many rows were new or different.
        """
        changed = 0
        runs: set[str] = set()
        builds: set[str] = set()
        with reported("import the history"), self._connection:
            for run, planned, measurement in entries:
                if run.run_id not in runs:
                    runs.add(run.run_id)
                    self._execute("store_run", [_run_row(run, origin="import")])
                    self._execute("mark_loaded", [{"run_id": run.run_id}])
                if planned.build.build_id not in builds:
                    builds.add(planned.build.build_id)
                    self._execute("store_build", [_build_row(planned.build)])
                self._execute("store_planned_case", [_planned_row(run, planned)])
                key = {"run_id": run.run_id, "case_id": planned.case_id, "generation": 0}
                row = _measurement_row(measurement, quarantined=False)
                row |= {"status": "ok", "reason": None, "elapsed_s": None}
                changed += self._execute("store_measurement", [key | row])
        return len(runs), changed

    def store_verdicts(self, verdicts: Iterable[Verdict]) -> int:
        """Store the verdicts of a run and return how many were new or different."""
        rows = [vars(v) | {"kind": v.kind.value, "sentence": _text(v.sentence)} for v in verdicts]
        for row in rows:
            row |= {key: _number(row[key]) for key in ("value", "baseline", "change")}
        with reported("store the verdicts"), self._connection:
            return self._execute("store_verdict", rows)

    def open_alert(self, verdict: Verdict) -> bool:
        """Open an alert for the verdict's series and return whether it is new.

        A series with an open or acknowledged alert gets no second one; the one that it has then
        follows the newest verdict. A run opens no second alert for a series after the first was
        closed.
        """
        row = {
            **vars(verdict),
            "kind": verdict.kind.value,
            "sentence": _text(verdict.sentence),
            "value": _number(verdict.value),
            "baseline": _number(verdict.baseline),
            "change": _number(verdict.change),
        }
        with reported(f"open an alert for {verdict.case_id}"), self._connection:
            if self._execute("open_alert", [row]):
                return True
            self._execute("touch_alert", [row])
            return False

    def resolve_alert(self, case_id: str, cluster: str, run_id: str) -> bool:
        """Close the live alert of a series; return whether there was one."""
        row = {"case_id": case_id, "cluster": cluster, "run_id": run_id}
        with reported(f"resolve the alert of {case_id}"), self._connection:
            return self._execute("resolve_alert", [row]) > 0

    def _plan(self, run: Run, planned: Sequence[PlannedCase], cluster: Cluster | None) -> int:
        changed = 0
        if cluster is not None:
            changed += self._execute("store_cluster", [_cluster_row(cluster)])
        changed += self._execute("store_run", [_run_row(run, origin="nightbench")])
        # Sorted: two loads that store the same builds take their row locks in one order.
        builds = {p.build.build_id: p.build for p in planned}
        changed += self._execute(
            "store_build", [_build_row(build) for _, build in sorted(builds.items())]
        )
        return changed + self._execute(
            "store_planned_case", [_planned_row(run, p) for p in planned]
        )

    def _load_case(self, run: Run, case: CaseBundle, planned: PlannedCase | None) -> int:
        key = {"run_id": run.run_id, "case_id": case.case.case_id, "generation": case.generation}
        checks = list(case.checks)
        if case.measurement is not None:
            checks += [c for c in case.measurement.checks if c not in checks]
        quarantined = {
            (c.subject, c.repeat or 0)
            for c in checks
            if c.severity is Severity.FAIL and not c.success
        }
        # Results of the bundle may name builds that the plan did not (a retry with another wheel).
        if case.measurement is not None:
            build = case.measurement.build
        elif planned is not None:
            build = planned.build
        else:
            raise ValueError(f"{key['case_id']}: came back without having been planned")
        changed = self._execute("store_build", [_build_row(build)])
        for repeat in case.repeats:
            changed += self._load_repeat(key, repeat)
        if case.measurement is not None:
            row = _measurement_row(case.measurement, ("measurement", 0) in quarantined)
        else:
            row = dict.fromkeys(_MEASUREMENT_COLUMNS) | {
                "n": 0,
                "unit": (planned and planned.unit) or "",
                "build_id": build.build_id,
                "definition_digest": planned.definition_digest if planned else "",
                "fingerprint_id": "",
            }
        row |= {
            "status": case.status.value,
            "reason": _text(case.reason),
            "elapsed_s": _number(case.elapsed_s),
        }
        changed += self._execute("store_measurement", [key | row])
        changed += self._execute("store_check_result", [key | row for row in _check_rows(checks)])
        return changed + self._execute(
            "store_quarantine", [key | row for row in _quarantine_rows(checks)]
        )

    def _load_repeat(self, case_key: Row, bundle: RepeatBundle) -> int:
        record = bundle.record
        key = case_key | {"repeat": record.repeat}
        changed = self._execute("store_repeat", [key | _repeat_row(bundle)])
        nodes = sorted({*record.clocks, *record.fingerprints, *(r.node for r in record.ranks)})
        changed += self._execute(
            "store_repeat_node",
            [
                key
                | {
                    "node": node,
                    "fingerprint_id": record.fingerprints.get(node) or None,
                    "clock_offset_s": clock and _number(clock.offset_s),
                    "clock_error_s": clock and _number(clock.error_s),
                }
                for node in nodes
                for clock in (record.clocks.get(node),)
            ],
        )
        return changed + self._execute(
            "store_repeat_rank", [key | _rank_row(rank) for rank in record.ranks]
        )

    def _execute(self, name: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Run a statement for each row; return how many rows were touched."""
        touched = 0
        with self._connection.cursor() as cursor:
            for row in rows:
                cursor.execute(statement(name), row)
                # A select (lock_run) counts its rows too; nothing was written.
                touched += 0 if name == "lock_run" else cursor.rowcount
        return touched


# --- dataclasses to rows ------------------------------------------------------------------

_MEASUREMENT_COLUMNS = (
    *("build_id", "framework_version", "unit", "n", "throughput", "minimum", "maximum", "mad"),
    *("spread", "half_width", "speedup", "efficiency", "baseline_case_id"),
    *("time_to_first_step_s", "peak_resident_bytes", "definition_digest", "fingerprint_id"),
)


def _run_row(run: Run, origin: str) -> Row:
    return {**vars(run), "run_kind": run.run_kind.value, "origin": origin}


def _cluster_row(cluster: Cluster) -> Row:
    return {
        "cluster": cluster.name,
        "description": cluster.description,
        "device_kind": cluster.device_kind,
        "devices_per_node": cluster.devices_per_node,
        "nodes": [node.name for node in cluster.nodes],
        "shared": cluster.shared,
    }


def _build_row(build: Build) -> Row:
    return {**vars(build), "build_id": build.build_id}


def _planned_row(run: Run, planned: PlannedCase) -> Row:
    return {
        "run_id": run.run_id,
        "case_id": planned.case_id,
        "axes": Json(planned.case.axes()),
        "build_id": planned.build.build_id,
        "unit": planned.unit,
        "definition_digest": planned.definition_digest,
    }


def _repeat_row(bundle: RepeatBundle) -> Row:
    record, summary = bundle.record, bundle.summary
    trainers = [r for r in record.ranks if r.role == "trainer" and r.step_seconds]
    slowest = max(trainers, key=lambda r: (r.window_wall_s, -r.rank), default=None)
    row: Row = {
        "status": record.status,
        "reason": _text(record.reason),
        "started_at": record.started_at,
        "slowest_rank": slowest and slowest.name,
        "step_seconds": slowest and _numbers(slowest.step_seconds),
        "problem": _text(summary.problem) if summary else None,
    }
    for column in ("throughput", "step_throughput", "window_s", "samples"):
        value = _number(getattr(summary, column, None))
        row[column] = _positive(value)
        if row[column] is None and value is not None:
            # The column takes positive finite figures only; what was found stays readable.
            row["problem"] = "; ".join(filter(None, (row["problem"], f"{column} was {value}")))
    for column in ("overlap", "drift", "time_to_first_step_s", "loss_first", "loss_median"):
        row[column] = _number(getattr(summary, column, None))
    row["peak_resident_bytes"] = _whole(getattr(summary, "peak_resident_bytes", None))
    return row


def _rank_row(rank: RankResult) -> Row:
    numbers = (
        *("samples_per_step", "window_open_s", "window_close_s", "window_wall_s"),
        *("time_to_first_step_s", "loss_first"),
    )
    return {
        "process": rank.name,
        **{column: getattr(rank, column) for column in ("role", "rank", "node")},
        **{column: _number(getattr(rank, column)) for column in numbers},
        "step_seconds": _numbers(rank.step_seconds),
        "step_end_s": _numbers(rank.step_end_s),
        "loss_window": _numbers(rank.loss_window),
        "weights_digest": rank.weights_digest,
        "parameters": rank.parameters,
        "peak_resident_bytes": _whole(rank.peak_resident_bytes),
        "peak_allocator_bytes": _whole(rank.peak_allocator_bytes),
        "precision": rank.precision,
        "transport": rank.transport,
        "versions": Json(dict(rank.versions)),
    }


def _measurement_row(m: Measurement, quarantined: bool) -> Row:
    row: Row = {
        "build_id": m.build.build_id,
        "framework_version": m.framework_version,
        "unit": m.unit,
        "n": m.n,
        "baseline_case_id": m.baseline_case_id,
        "peak_resident_bytes": _whole(m.peak_resident_bytes),
        "definition_digest": m.definition_digest,
        "fingerprint_id": m.fingerprint_id,
    }
    row |= {k: _number(getattr(m, k)) for k in _MEASUREMENT_COLUMNS if k not in row}
    if quarantined and not (
        row["throughput"] is None
        or (
            _positive(row["throughput"]) and _positive(row["minimum"]) and _positive(row["maximum"])
        )
    ):
        # A quarantined figure that is no throughput at all: its check holds what was observed.
        # One that is not quarantined goes as it is, and the table refuses it.
        figures = ("throughput", "minimum", "maximum", "mad", "spread", "half_width")
        row |= dict.fromkeys((*figures, "speedup", "efficiency"))
    return row


def _check_rows(checks: Iterable[CheckResult]) -> list[Row]:
    rows, seen = [], dict[tuple[str, int, str], int]()
    for check in checks:
        identity = (check.subject, check.repeat or 0, check.check)
        ordinal = seen[identity] = seen.get(identity, -1) + 1
        rows.append(
            {
                "subject": check.subject,
                "repeat": check.repeat or 0,
                "check_name": check.check,
                "ordinal": ordinal,
                "severity": check.severity.value,
                "success": bool(check.success),
                "observed": _text(check.observed),
                "expected": _text(check.expected),
            }
        )
    return rows


def _quarantine_rows(checks: Iterable[CheckResult]) -> list[Row]:
    reasons: dict[tuple[str, int], list[str]] = {}
    for c in checks:
        if c.severity is Severity.FAIL and not c.success:
            reason = f"{c.check}: {c.observed}, expected {c.expected}"
            reasons.setdefault((c.subject, c.repeat or 0), []).append(_text(reason) or "")
    return [
        {"subject": subject, "repeat": repeat, "reasons": found}
        for (subject, repeat), found in sorted(reasons.items())
    ]


def _number(value: float | None) -> float | None:
    # numpy's scalars print as `np.float64(...)`, which is no SQL.
    return None if value is None else float(value)


def _numbers(values: Iterable[float | None]) -> list[float | None]:
    return [_number(value) for value in values]


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _positive(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _text(value: str | None) -> str | None:
    # PostgreSQL's text holds no NUL, and messages from a process may.
    return None if value is None else value.replace("\x00", "\\x00")
