"""Runs: what they planned and what came of it."""

from collections.abc import Sequence

from nightbench.core.budget import CaseHistory
from nightbench.core.model import (
    THROUGHPUT,
    Build,
    Case,
    CaseStatus,
    MeasuredCase,
    MetricInfo,
    PlannedCase,
    Reason,
    Run,
    RunKind,
    reasons_from_json,
)
from nightbench.warehouse.repository import Row
from nightbench.warehouse.run_writer import RunWriter
from nightbench.warehouse.series import point_of


class RunRepository(RunWriter):
    """Runs with their plans and results."""

    def get(self, run_id: str) -> Run | None:
        """A run by its id."""
        rows = self.find(run_ids=[run_id], limit=1, imported=True)
        if not rows:
            return None
        names = Run.__dataclass_fields__
        fields = {name: rows[0][name] for name in names}
        return Run(**fields | {"run_kind": RunKind(fields["run_kind"])})

    def latest(self, suite: str | None = None, cluster: str | None = None) -> str | None:
        """Id of the newest run that was not imported."""
        return next((str(row["run_id"]) for row in self.find(suite, cluster, limit=1)), None)

    def find(
        self,
        suite: str | None = None,
        cluster: str | None = None,
        limit: int = 50,
        imported: bool = False,
        *,
        skipped: int = 0,
        run_ids: Sequence[str] | None = None,
    ) -> list[Row]:
        """Runs, newest first, with how many cases were planned, measured, failed, quarantined.

        None does not filter; `skipped` leaves out so many of the newest.
        """
        return self.read(
            "runs",
            run_ids=run_ids,
            suite=suite,
            cluster=cluster,
            imported=imported,
            max_rows=limit,
            skipped=skipped,
        )

    def planned_cases(self, run_id: str) -> list[PlannedCase]:
        """The planned cases of a run, ordered by case."""
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
                untried=row["untried"],
            )
            for row in self.read("planned_cases", run_id=run_id)
        ]

    def measured(self, run_id: str, metric: MetricInfo = THROUGHPUT) -> list[MeasuredCase]:
        """The state of each planned case of a run: measured, quarantined, failed or missing."""
        found = []
        for row in self.read("measured", run_id=run_id):
            status = CaseStatus(row["status"]) if row["status"] else None
            quarantined = bool(row["is_quarantined"])
            counts = status is CaseStatus.OK and not quarantined and row["throughput"] is not None
            lacks = counts and metric.value_of(row) is None
            found.append(
                MeasuredCase(
                    case_id=row["case_id"],
                    status=status,
                    reasons=reasons_from_json(row["reasons"]),
                    quarantine_reasons=reasons_from_json(row["quarantine_reasons"]),
                    point=point_of(row, metric) if counts and not lacks else None,
                    not_judged=f"{metric.name}: {metric.why_absent(row)}" if lacks else None,
                )
            )
        return found

    def case_error(self, run_id: str, case_id: str) -> str | None:
        """End of the traceback of the case's last repeat that failed; None if none did."""
        row = self.first("case_error", run_id=run_id, case_id=case_id)
        return str(row["error"]) if row else None

    def results(self, run_id: str | None = None, case_id: str | None = None) -> list[Row]:
        """Every planned case of a run (the newest by default) with values and verdict.

        A case that is named is the only one.
        """
        chosen = self.latest() if run_id is None else run_id
        return self.read("results_rows", run_id=chosen, case_id=case_id) if chosen else []

    def case_past(self, cluster: str) -> dict[str, CaseHistory]:
        """Case id -> how long the case takes there, and when a scheduled run last tried it."""
        return {
            row["case_id"]: CaseHistory(
                row["seconds"],
                row["repeat_s"],
                row["last_at"],
                row["definition_digest"],
                row["noise"],
                row["reference"] and Build(**row["reference"]),
            )
            for row in self.read("case_past", cluster=cluster)
        }

    def case_states(self, case_id: str, run_ids: Sequence[str]) -> dict[str, Row]:
        """Build, code and nodes' fingerprints of a case in some runs, by run."""
        rows = self.read("case_states", case_id=case_id, run_ids=run_ids)
        return {row["run_id"]: row for row in rows}
