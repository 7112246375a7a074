"""Reading: medians, series, plans, verdicts and alerts, from the marts where they say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

from nightbench.core.budget import CaseHistory
from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    HistoryPoint,
    MeasuredCase,
    PlannedCase,
    Reason,
    Run,
    RunKind,
    Verdict,
    VerdictKind,
    reasons_from_json,
)
from nightbench.core.model.alerts import Cause, CauseKind, Confirmation, ConfirmationResult
from nightbench.warehouse.repository import Repository, Row

LIVE = ("open", "acknowledged")
"""States of an alert that somebody still has to look at."""


class Reader(Repository):
    """Questions to the warehouse; every method raises `WarehouseUnavailable` where it is away."""

    def latest_medians(
        self, suite: str | None = None, cluster: str | None = None, run_id: str | None = None
    ) -> list[Row]:
        """The newest median of each series: rows of `marts.fct_measurement`."""
        return self._read("latest_medians", suite=suite, cluster=cluster, run_id=run_id)

    def series(self, suite: str | None = None, cluster: str | None = None) -> list[Row]:
        """Series with nightly results: case_id, cluster, suite (the last), nights."""
        return self._read("series", suite=suite, cluster=cluster)

    def series_history(
        self,
        case_id: str,
        cluster: str,
        kinds: Sequence[RunKind] = (RunKind.NIGHTLY,),
        before: datetime | None = None,
    ) -> list[HistoryPoint]:
        """One series, oldest first; `before` leaves out that instant and all later ones."""
        rows = self._read(
            "series_history",
            case_id=case_id,
            cluster=cluster,
            kinds=[kind.value for kind in kinds],
            before=before,
        )
        return [_point(row) for row in rows]

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
                    point=_point(row) if counts else None,
                )
            )
        return found

    def run(self, run_id: str) -> Run | None:
        """A run by its id."""
        rows = self._runs(run_id=run_id, max_rows=1, imported=True)
        if not rows:
            return None
        names = Run.__dataclass_fields__
        fields = {name: rows[0][name] for name in names}
        return Run(**fields | {"run_kind": RunKind(fields["run_kind"])})

    def run_kind(self, run_id: str) -> RunKind | None:
        """Why a run was made; None where the warehouse does not know it."""
        run = self.run(run_id)
        return run.run_kind if run else None

    def latest_run(self, suite: str | None = None, cluster: str | None = None) -> str | None:
        """Id of the newest run that was not imported."""
        row = self._first("latest_run", suite=suite, cluster=cluster)
        return str(row["run_id"]) if row else None

    def runs(
        self,
        suite: str | None = None,
        cluster: str | None = None,
        limit: int = 50,
        imported: bool = False,
    ) -> list[Row]:
        """Runs, newest first, with how many cases were planned, measured, failed, quarantined."""
        return self._runs(suite=suite, cluster=cluster, max_rows=limit, imported=imported)

    def verdicts(self, run_id: str) -> list[Verdict]:
        """The verdicts of a run, ordered by case."""
        return [
            Verdict(
                case_id=row["case_id"],
                cluster=row["cluster"],
                run_id=row["run_id"],
                kind=VerdictKind(row["verdict"]),
                sentence=row["sentence"],
                value=row["value"],
                baseline=row["baseline"],
                change=row["change"],
                history=row["history_nights"],
                smallest_slowdown=row["smallest_slowdown"],
                low=row["low"],
                high=row["high"],
                since=row["since"],
                first_bad_run_id=row["first_bad_run_id"],
                last_good_run_id=row["last_good_run_id"],
            )
            for row in self._read("verdicts", run_id=run_id)
        ]

    def alerts(
        self,
        states: Sequence[str] | None = LIVE,
        case_id: str | None = None,
        cluster: str | None = None,
        limit: int = 200,
        alert_id: int | None = None,
        group: str | None = None,
    ) -> list[Row]:
        """Alerts, newest first: rows of `marts.fct_alert`; `states` None means all."""
        return self._read(
            "alerts",
            states=None if states is None else list(states),
            case_id=case_id,
            cluster=cluster,
            alert_id=alert_id,
            group_key=group,
            max_rows=limit,
        )

    def standing_alerts(self, cluster: str) -> list[Row]:
        """Live alerts, and dismissed ones whose event goes on, oldest first."""
        return self._read("standing_alerts", cluster=cluster)

    def judged_since(
        self, cluster: str, started_at: datetime, case_ids: Iterable[str]
    ) -> frozenset[str]:
        """Cases of which a nightly run that began after `started_at` has been judged."""
        rows = self._read(
            "judged_since", cluster=cluster, started_at=started_at, case_ids=list(case_ids)
        )
        return frozenset(row["case_id"] for row in rows)

    def alert_events(self, alert_id: int) -> list[Row]:
        """The history of an alert, oldest first: rows of `marts.fct_alert_event`."""
        return self._read("alert_events", alert_id=alert_id)

    def alert_moves(self) -> list[Row]:
        """Every move of an alert, oldest first: alert_id, what, to_state, by_whom, why."""
        return self._read("alert_moves")

    def regressions(self) -> list[Row]:
        """Every alert on a fall: alert_id, case_id, cluster, opened_at and last_at of its runs."""
        return self._read("regressions")

    def unnotified_alerts(self, suite: str, cluster: str) -> list[Row]:
        """What is unnotified of a suite's alerts: `what` is `news` or `ended`."""
        return self._read("unnotified_alerts", suite=suite, cluster=cluster)

    def unnotified_suites(self) -> list[Row]:
        """Suites of which something is unnotified: suite, cluster, last run with news of it."""
        return self._read("unnotified_suites")

    def notified_items(self, alert_ids: Sequence[int]) -> set[tuple[int, str, str, str]]:
        """What channels took of some alerts: alert_id, what, run whose news it was, channel."""
        return {
            (row["alert_id"], row["what"], row["of_run_id"], row["channel"])
            for row in self._read("notified_items", alert_ids=list(alert_ids))
        }

    def night_messages(self, suite: str, cluster: str, night: date) -> set[str]:
        """Channels that had a suite's message of a night on a cluster."""
        rows = self._read("night_messages", suite=suite, cluster=cluster, night=night)
        return {row["channel"] for row in rows}

    def unnotified_grades(self, suite: str, cluster: str, until: datetime) -> list[Row]:
        """Unnotified falls of the detector's grade: rows of `marts.detector_grade`."""
        return self._read("unnotified_grades", suite=suite, cluster=cluster, until=until)

    def results_rows(self, run_id: str | None = None) -> list[Row]:
        """Every planned case of a run (the newest by default) with figures and verdict."""
        chosen = run_id or self.latest_run()
        return self._read("results_rows", run_id=chosen) if chosen else []

    def case_past(self, cluster: str) -> dict[str, CaseHistory]:
        """Case id -> how long the case takes there, and when a scheduled run last tried it."""
        return {
            row["case_id"]: CaseHistory(
                row["seconds"], row["repeat_s"], row["last_at"], row["definition_digest"]
            )
            for row in self._read("case_past", cluster=cluster)
        }

    def noisy_before(self, cluster: str, run_id: str, at: datetime) -> list[str]:
        """Case ids that were noisy when a night began, whatever the night itself says."""
        rows = self._read("noisy_before", cluster=cluster, run_id=run_id, at=at)
        return [row["case_id"] for row in rows]

    def noise_events(
        self,
        run_id: str | None = None,
        *,
        suite: str | None = None,
        cluster: str | None = None,
        until: datetime | None = None,
        unnotified: bool = False,
        limit: int = 1000,
    ) -> list[Row]:
        """When series became noisy or steady, newest first: rows of `marts.fct_noise_event`."""
        return self._read(
            "noise_events",
            run_id=run_id,
            suite=suite,
            cluster=cluster,
            until=until,
            unnotified=unnotified,
            max_rows=limit,
        )

    def noisy_series(self, cluster: str | None = None) -> list[Row]:
        """The series that are noisy now: rows of `marts.noisy_series`."""
        return self._read("noisy_series", cluster=cluster)

    def drifts(
        self,
        *,
        suite: str | None = None,
        cluster: str | None = None,
        standing: bool = True,
        unnotified_until: datetime | None = None,
    ) -> list[Row]:
        """Drifts of series, the largest fall first: rows of `marts.fct_drift`.

        Args:
            suite: only of this one's nights.
            cluster: only on this one.
            standing: only those that go on.
            unnotified_until: only those of nights up to then that are news and unnotified.
        """
        return self._read(
            "drifts",
            suite=suite,
            cluster=cluster,
            standing=standing,
            unnotified=unnotified_until is not None,
            until=unnotified_until,
        )

    def case_states(self, case_id: str, run_ids: Sequence[str]) -> dict[str, Row]:
        """What a case was measured with in some runs, by run: build, code, nodes' fingerprints."""
        rows = self._read("case_states", case_id=case_id, run_ids=list(run_ids))
        return {row["run_id"]: row for row in rows}

    def alert_causes(self, alert_ids: Sequence[int]) -> dict[int, Cause]:
        """The latest cause of each alert."""
        return {
            row["alert_id"]: Cause(
                CauseKind(row["kind"]), row["sentence"], tuple(row["evidence"]), row["group_key"]
            )
            for row in self._read("alert_causes", alert_ids=list(alert_ids))
        }

    def alert_confirmations(self, alert_ids: Sequence[int]) -> dict[int, Confirmation]:
        """The latest confirmation of each alert."""
        return {
            row.pop("alert_id"): Confirmation(
                **row | {"outcome": ConfirmationResult(row["outcome"])}
            )
            for row in self._read("alert_confirmations", alert_ids=list(alert_ids))
        }

    def _runs(self, **given: Any) -> list[Row]:
        return self._read("runs", **{"run_id": None, "suite": None, "cluster": None, **given})


def _point(row: Row) -> HistoryPoint:
    return HistoryPoint(
        at=row["started_at"],
        value=row["throughput"],
        run_id=row["run_id"],
        n=row["n"],
        spread=row["spread"],
        fingerprint_id=row["fingerprint_id"],
        definition_digest=row["definition_digest"],
        framework_version=row["framework_version"],
    )
