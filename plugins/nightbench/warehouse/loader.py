"""Writing: plans, results, verdicts, alerts. Every call is one transaction, and may be repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg2.extras import Json

from nightbench.core.model import (
    CaseBundle,
    Cluster,
    Measurement,
    PlannedCase,
    RepeatBundle,
    Run,
    RunBundle,
    Verdict,
)
from nightbench.warehouse import to_row
from nightbench.warehouse.repository import Repository, Row


class Loader(Repository):
    """Stores what a run planned and brought. Loading the same thing again changes nothing."""

    def plan_run(
        self, run: Run, planned: Sequence[PlannedCase], cluster: Cluster | None = None
    ) -> None:
        """Store what a run means to measure, before anything is launched."""
        with self._transaction(f"store the plan of run {run.run_id}"):
            self._plan(run, planned, cluster)

    def load_run(self, bundle: RunBundle) -> bool:
        """Store all that a run brought, quarantined results with their reasons.

        Returns:
            True where anything was written, False where all of it was there already.
        """
        with self._transaction(f"load run {bundle.run.run_id}"):
            self._rows("lock_run", run_id=bundle.run.run_id)
            changed = self._plan(bundle.run, bundle.planned, bundle.cluster)
            changed += self._write(
                "store_fingerprint",
                *(
                    {"fingerprint_id": key, "document": Json(dict(document))}
                    for key, document in sorted(bundle.fingerprints.items())
                ),
            )
            planned = {p.case_id: p for p in bundle.planned}
            for case in bundle.cases:
                changed += self._load_case(bundle.run, case, planned.get(case.case.case_id))
            changed += self._write("mark_loaded", {"run_id": bundle.run.run_id})
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
        with self._transaction("import the history"):
            for run, planned, measurement in entries:
                if run.run_id not in runs:
                    runs.add(run.run_id)
                    self._write("store_run", to_row.run_row(run, origin="import"))
                    self._write("mark_loaded", {"run_id": run.run_id})
                if planned.build.build_id not in builds:
                    builds.add(planned.build.build_id)
                    self._write("store_build", to_row.build_row(planned.build))
                self._write("store_planned_case", to_row.planned_row(run, planned))
                key = {"run_id": run.run_id, "case_id": planned.case_id, "generation": 0}
                row = to_row.measurement_row(measurement, quarantined=False)
                row |= {"status": "ok", "reasons": to_row.reasons_document(()), "elapsed_s": None}
                changed += self._write("store_measurement", key | row)
        return len(runs), changed

    def store_verdicts(self, verdicts: Iterable[Verdict]) -> int:
        """Store the verdicts of a run and return how many were new or different."""
        rows = [
            vars(v) | {"kind": v.kind.value, "sentence": to_row.text(v.sentence)} for v in verdicts
        ]
        for row in rows:
            figures = ("value", "baseline", "change", "low", "high")
            row |= {key: to_row.number(row[key]) for key in figures}
        with self._transaction("store the verdicts"):
            return self._write("store_verdict", *rows)

    def open_alert(self, verdict: Verdict) -> bool:
        """Open an alert for the verdict's series and return whether it is new.

        A series with an open or acknowledged alert gets no second one; the one that it has then
        follows the newest verdict. A run opens no second alert for a series after the first was
        closed.
        """
        row = to_row.verdict_row(verdict)
        with self._transaction(f"open an alert for {verdict.case_id}"):
            if self._rows("open_alert", **row):
                return True
            self._rows("touch_alert", **row)
            return False

    def end_alert(self, alert_id: int, run_id: str, why: str) -> bool:
        """Resolve a live alert, or end the event of a dismissed one; return whether it did."""
        row = {"alert_id": alert_id, "run_id": run_id, "why": why}
        with self._transaction(f"resolve alert {alert_id}"):
            return bool(self._rows("end_alert", **row))

    def reopen_alert(self, alert_id: int, verdict: Verdict) -> bool:
        """Open a dismissed alert again with a night's figures; return whether it was dismissed."""
        row = to_row.verdict_row(verdict) | {"alert_id": alert_id}
        with self._transaction(f"reopen alert {alert_id}"):
            return bool(self._rows("reopen_alert", **row))

    def watch_alert(self, alert_id: int, suspect: str | None, run_id: str) -> None:
        """Keep what one night makes likely: `recovered`, `worse`, or None where it was nothing."""
        row = {"alert_id": alert_id, "suspect": suspect, "run_id": run_id}
        with self._transaction(f"watch alert {alert_id}"):
            self._rows("watch_alert", **row)

    def store_noise_event(self, event: Mapping[str, Any]) -> bool:
        """Store that a night made a series noisy or steady; return whether that is new."""
        with self._transaction(f"store the noise of {event['case_id']}"):
            return self._write("store_noise_event", event) > 0

    def mark_noise_notified(self, run_id: str) -> int:
        """Mark the series that a run made noisy or steady as notified; return how many."""
        with self._transaction(f"mark the noise of run {run_id} as notified"):
            return self._write("mark_noise_notified", {"run_id": run_id})

    def store_drift(self, drift: Mapping[str, Any]) -> None:
        """Store that a night found a series to creep; what stood of the series gives way.

        Args:
            drift: case_id, cluster, run_id, at, level, is_news, change, error, nights, since: the
                columns of `marts.fct_drift`.
        """
        with self._transaction(f"store the drift of {drift['case_id']}"):
            self._write("end_drift", drift)
            self._write("store_drift", drift)

    def see_drift(self, drift: Mapping[str, Any]) -> bool:
        """Give the drift that stands a night's figures; return whether they are new."""
        with self._transaction(f"follow the drift of {drift['case_id']}"):
            return self._write("see_drift", drift) > 0

    def end_drift(self, case_id: str, cluster: str, run_id: str, at: datetime) -> bool:
        """Say that a run ended the drift of a series; return whether one stood."""
        row = {"case_id": case_id, "cluster": cluster, "run_id": run_id, "at": at}
        with self._transaction(f"end the drift of {case_id}"):
            return self._write("end_drift", row) > 0

    def mark_drifts_notified(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Mark these rows of `Reader.drifts` as notified."""
        keys = [{key: row[key] for key in ("case_id", "cluster", "run_id")} for row in rows]
        with self._transaction("mark drifts as notified"):
            self._write("mark_drift_notified", *keys)

    def lock_alerts(self, cluster: str) -> None:
        """Be the only one who decides on a cluster's alerts, until the connection is closed.

        Raises:
            WarehouseUnavailable: another one has held it for longer than the lock's time limit.
        """
        self._read("lock_alerts", cluster=cluster)

    def route_alert(self, alert_id: int, owner: str, run_id: str) -> bool:
        """Give a new alert its owner; return whether it had none, and nobody was ever assigned."""
        row = {"alert_id": alert_id, "owner": owner, "run_id": run_id}
        with self._transaction(f"give alert {alert_id} its owner"):
            return bool(self._rows("route_alert", **row))

    def store_message(self, message: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> None:
        """Store a message that a channel took, and the alerts that it was about.

        Args:
            message: suite, cluster, night (a date), kind (`night`, `urgent`), channel, run_id,
                title.
            items: alert_id, what (`news`, `ended`), of_run_id.
        """
        with self._transaction(f"store a message of {message['suite']}"):
            (stored,) = self._rows("store_message", **message)
            self._write("store_message_item", *({**item, **stored} for item in items))

    def mark_notified(self, items: Sequence[Mapping[str, Any]]) -> int:
        """Mark items (as of `store_message`) as notified; return how many."""
        names = {"news": "mark_notified", "ended": "mark_end_notified"}
        with self._transaction("mark alerts as notified"):
            return sum(self._write(names[item["what"]], item) for item in items)

    def mark_grades_notified(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Mark these rows of `Reader.unnotified_grades` as notified."""
        keys = [{"run_id": row["run_id"], "measure": row["measure"]} for row in rows]
        with self._transaction("mark the detector's grade as notified"):
            self._write("mark_grade_notified", *keys)

    def _plan(self, run: Run, planned: Sequence[PlannedCase], cluster: Cluster | None) -> int:
        changed = 0
        if cluster is not None:
            changed += self._write("store_cluster", to_row.cluster_row(cluster))
        changed += self._write("store_run", to_row.run_row(run, origin="nightbench"))
        # Sorted: two loads that store the same builds take their row locks in one order.
        builds = {p.build.build_id: p.build for p in planned}
        rows = [to_row.build_row(build) for _, build in sorted(builds.items())]
        changed += self._write("store_build", *rows)
        rows = [to_row.planned_row(run, each) for each in planned]
        return changed + self._write("store_planned_case", *rows)

    def _load_case(self, run: Run, case: CaseBundle, planned: PlannedCase | None) -> int:
        key = {"run_id": run.run_id, "case_id": case.case.case_id, "generation": case.generation}
        checks = list(case.checks)
        if case.measurement is not None:
            checks += [c for c in case.measurement.checks if c not in checks]
        quarantined = {(c.subject, c.repeat or 0) for c in checks if c.quarantines}
        # Results of the bundle may name builds that the plan did not (a retry with another wheel).
        if case.measurement is not None:
            build = case.measurement.build
        elif planned is not None:
            build = planned.build
        else:
            raise ValueError(f"{key['case_id']}: came back without having been planned")
        changed = self._write("store_build", to_row.build_row(build))
        for repeat in case.repeats:
            changed += self._load_repeat(key, repeat)
        if case.measurement is not None:
            row = to_row.measurement_row(case.measurement, ("measurement", 0) in quarantined)
        else:
            row = dict.fromkeys(to_row.MEASUREMENT_COLUMNS) | {
                "n": 0,
                "unit": (planned and planned.unit) or "",
                "build_id": build.build_id,
                "definition_digest": planned.definition_digest if planned else "",
                "fingerprint_id": "",
            }
        row |= {
            "status": case.status.value,
            "reasons": to_row.reasons_document(case.reasons),
            "elapsed_s": to_row.number(case.elapsed_s),
        }
        changed += self._write("store_measurement", key | row)
        rows = to_row.check_rows(checks)
        changed += self._write("store_check_result", *(key | each for each in rows))
        rows = to_row.quarantine_rows(checks)
        return changed + self._write("store_quarantine", *(key | each for each in rows))

    def _load_repeat(self, case_key: Row, bundle: RepeatBundle) -> int:
        record = bundle.record
        key = case_key | {"repeat": record.repeat}
        changed = self._write("store_repeat", key | to_row.repeat_row(bundle))
        nodes = sorted({*record.clocks, *record.fingerprints, *(r.node for r in record.ranks)})
        changed += self._write(
            "store_repeat_node",
            *(
                key
                | {
                    "node": node,
                    "fingerprint_id": record.fingerprints.get(node) or None,
                    "clock_offset_s": clock and to_row.number(clock.offset_s),
                    "clock_error_s": clock and to_row.number(clock.error_s),
                }
                for node in nodes
                for clock in (record.clocks.get(node),)
            ),
        )
        rows = [key | to_row.rank_row(rank) for rank in record.ranks]
        return changed + self._write("store_repeat_rank", *rows)
