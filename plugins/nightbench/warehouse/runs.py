"""Runs: their plans, what they brought, and the history that was imported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from psycopg2.extras import Json

from nightbench.core.budget import CaseHistory
from nightbench.core.model import (
    Build,
    Case,
    CaseBundle,
    CaseStatus,
    Cluster,
    MeasuredCase,
    Measurement,
    PlannedCase,
    Reason,
    RepeatBundle,
    Run,
    RunBundle,
    RunKind,
    reasons_from_json,
)
from nightbench.warehouse import to_row
from nightbench.warehouse.repository import Repository, Row
from nightbench.warehouse.series import point_of


class RunRepository(Repository):
    """Runs with their plans and results."""

    def plan(
        self, run: Run, planned: Sequence[PlannedCase], cluster: Cluster | None = None
    ) -> None:
        """Store what a run means to measure, before anything is launched."""
        with self._transaction(f"store the plan of run {run.run_id}"):
            self._plan(run, planned, cluster)

    def load(self, bundle: RunBundle) -> bool:
        """Store all that a run brought, quarantined results with their reasons.

        Returns:
            True where anything was written, False where all of it was there already.
        """
        with self._transaction(f"load run {bundle.run.run_id}"):
            self._lock_for_transaction("load")
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

    def get(self, run_id: str) -> Run | None:
        """A run by its id."""
        rows = self._runs(run_id=run_id, max_rows=1, imported=True)
        if not rows:
            return None
        names = Run.__dataclass_fields__
        fields = {name: rows[0][name] for name in names}
        return Run(**fields | {"run_kind": RunKind(fields["run_kind"])})

    def kind(self, run_id: str) -> RunKind | None:
        """Why a run was made; None where the warehouse does not know it."""
        run = self.get(run_id)
        return run.run_kind if run else None

    def latest(self, suite: str | None = None, cluster: str | None = None) -> str | None:
        """Id of the newest run that was not imported."""
        row = self._first("latest_run", suite=suite, cluster=cluster)
        return str(row["run_id"]) if row else None

    def find(
        self,
        suite: str | None = None,
        cluster: str | None = None,
        limit: int = 50,
        imported: bool = False,
    ) -> list[Row]:
        """Runs, newest first, with how many cases were planned, measured, failed, quarantined."""
        return self._runs(suite=suite, cluster=cluster, max_rows=limit, imported=imported)

    def planned_cases(self, run_id: str) -> list[PlannedCase]:
        """What a run means to measure, ordered by case."""
        return [
            PlannedCase(
                case=Case.from_axes(row["axes"]),
                build=Build(
                    **{
                        k: row[k]
                        for k in ("line", "variant", "source", "version", "location", "digest")
                    }
                ),
                definition_digest=row["definition_digest"],
                unit=row["unit"],
                left_out=row["left_out"] and Reason.from_json(row["left_out"]),
                private_build=row["private_build"],
            )
            for row in self._read("planned_cases", run_id=run_id)
        ]

    def measured(self, run_id: str) -> list[MeasuredCase]:
        """How each planned case of a run stands: measured, quarantined, failed or missing."""
        found = []
        for row in self._read("measured", run_id=run_id):
            status = CaseStatus(row["status"]) if row["status"] else None
            quarantined = bool(row["is_quarantined"])
            counts = status is CaseStatus.OK and not quarantined and row["throughput"] is not None
            found.append(
                MeasuredCase(
                    case_id=row["case_id"],
                    status=status,
                    reasons=reasons_from_json(row["reasons"]),
                    quarantine_reasons=reasons_from_json(row["quarantine_reasons"]),
                    point=point_of(row) if counts else None,
                )
            )
        return found

    def case_error(self, run_id: str, case_id: str) -> str | None:
        """End of the traceback of the case's last repeat that failed; None where none did."""
        row = self._first("case_error", run_id=run_id, case_id=case_id)
        return str(row["error"]) if row else None

    def results(self, run_id: str | None = None) -> list[Row]:
        """Every planned case of a run (the newest by default) with figures and verdict."""
        chosen = self.latest() if run_id is None else run_id
        return self._read("results_rows", run_id=chosen) if chosen else []

    def case_past(self, cluster: str) -> dict[str, CaseHistory]:
        """Case id -> how long the case takes there, and when a scheduled run last tried it."""
        return {
            row["case_id"]: CaseHistory(
                row["seconds"], row["repeat_s"], row["last_at"], row["definition_digest"]
            )
            for row in self._read("case_past", cluster=cluster)
        }

    def case_states(self, case_id: str, run_ids: Sequence[str]) -> dict[str, Row]:
        """What a case was measured with in some runs, by run: build, code, nodes' fingerprints."""
        rows = self._read("case_states", case_id=case_id, run_ids=list(run_ids))
        return {row["run_id"]: row for row in rows}

    def _runs(self, **given: Any) -> list[Row]:
        return self._read("runs", **{"run_id": None, "suite": None, "cluster": None, **given})

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
