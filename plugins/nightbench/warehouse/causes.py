"""Causes of alerts: the facts around a change, and the explanations that were found."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from psycopg2.extras import Json

from nightbench.causes import Member
from nightbench.core.documents import from_document, to_document
from nightbench.core.model.alerts import Cause, CauseEvidence, CauseKind
from nightbench.warehouse import to_row
from nightbench.warehouse.repository import Repository, Row


class CauseRepository(Repository):
    """Causes of alerts, and the facts for `nightbench.causes` as rows."""

    def unexplained(self, run_id: str) -> list[Row]:
        """Alerts that a run has to explain, with the level and the first night of their change."""
        return self._read("unexplained_alerts", run_id=run_id)

    def latest(self, alert_ids: Sequence[int]) -> dict[int, Cause]:
        """The latest cause of each alert."""
        return {
            row["alert_id"]: Cause(
                CauseKind(row["kind"]),
                row["sentence"],
                tuple(from_document(CauseEvidence, each) for each in row["evidence"]),
                row["group_key"],
            )
            for row in self._read("alert_causes", alert_ids=alert_ids)
        }

    def known_groups(self, cluster: str, since: date) -> list[Member]:
        """Alerts of a cluster that have a group."""
        return [
            Member(**row | {"kind": CauseKind(row["kind"])})
            for row in self._read("known_groups", cluster=cluster, since=since)
        ]

    def nights(self, case_ids: Sequence[str], cluster: str, until: datetime) -> list[Row]:
        """Good nights of series, oldest first, of the last 90 days."""
        return self._read("cause_nights", case_ids=case_ids, cluster=cluster, until=until)

    def launches(self, case_ids: Sequence[str], run_ids: Sequence[str]) -> dict[str, list[Row]]:
        """`repeats`, `nodes` and `versions` of series in runs: rows with case_id and run_id."""
        given = {"case_ids": list(case_ids), "run_ids": list(run_ids)}
        return {
            "repeats": self._read("cause_repeats", **given),
            "nodes": self.nodes(case_ids, run_ids),
            "versions": self._read("cause_versions", **given),
        }

    def fingerprints(self, ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """fingerprint/1 documents by id."""
        rows = self._read("fingerprints", fingerprint_ids=sorted(ids))
        return {row["fingerprint_id"]: row["document"] for row in rows}

    def faults(self, cluster: str, run_ids: Sequence[str]) -> list[Row]:
        """Nodes that made cases of runs fail."""
        return self._read("cause_faults", cluster=cluster, run_ids=run_ids)

    def peers(self, cluster: str, until: datetime) -> list[Row]:
        """The newest verdict of each series of a cluster in the night that began at `until`."""
        return self._read("cause_peers", cluster=cluster, until=until)

    def controls(self, cluster: str, since: datetime, until: datetime) -> list[Row]:
        """Control measurements, oldest first."""
        return self._read("cause_controls", cluster=cluster, since=since, until=until)

    def night_controls(self, cluster: str, until: datetime) -> list[Row]:
        """Control measurements of the nights of the last 180 days, by run."""
        return self._read("night_controls", cluster=cluster, until=until)

    def nodes(self, case_ids: Sequence[str], run_ids: Sequence[str]) -> list[Row]:
        """Where series ran in runs: case_id, run_id, node, fingerprint_id."""
        return self._read("cause_nodes", case_ids=case_ids, run_ids=run_ids)

    def preflights(self, cluster: str, since: datetime, until: datetime) -> list[Row]:
        """Preflights of a cluster's nodes, oldest first."""
        return self._read("cause_preflights", cluster=cluster, since=since, until=until)

    def store(self, rows: Sequence[Row]) -> None:
        """Store the causes that a run found; `evidence` is a sequence of `CauseEvidence`."""
        with self._transaction("store the causes of alerts"):
            self._write("store_cause", *map(_cause, rows))


def _cause(row: Row) -> Row:
    evidence = [to_document(x) | {"text": to_row.text(x.text)} for x in row["evidence"]]
    return row | {"evidence": Json(evidence)}
