"""Causes of alerts: the facts around a change, and the explanations that were found."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from psycopg2.extras import Json

from nightbench.causes import Member
from nightbench.core.documents import to_document
from nightbench.core.model.alerts import Cause, CauseEvidence, CauseKind
from nightbench.warehouse import to_row
from nightbench.warehouse.repository import Repository, Row


class CauseRepository(Repository):
    """Causes of alerts, and the facts for `nightbench.causes` as rows."""

    def latest(self, alert_ids: Sequence[int]) -> dict[int, Cause]:
        """The latest cause of each alert."""
        return {
            row["alert_id"]: Cause(
                CauseKind(row["kind"]),
                row["sentence"],
                tuple(map(CauseEvidence.from_json, row["evidence"])),
                row["group_key"],
            )
            for row in self.read("alert_causes", alert_ids=alert_ids)
        }

    def known_groups(self, cluster: str, since: date) -> list[Member]:
        """Alerts of a cluster that have a group."""
        return [
            Member(**row | {"kind": CauseKind(row["kind"])})
            for row in self.read("known_groups", cluster=cluster, since=since)
        ]

    def launches(self, case_ids: Sequence[str], run_ids: Sequence[str]) -> dict[str, list[Row]]:
        """`repeats`, `nodes` and `versions` of series in runs: rows with case_id and run_id."""
        given = {"case_ids": list(case_ids), "run_ids": list(run_ids)}
        return {
            "repeats": self.read("cause_repeats", **given),
            "nodes": self.nodes(case_ids, run_ids),
            "versions": self.read("cause_versions", **given),
        }

    def fingerprints(self, ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """fingerprint/1 documents by id."""
        rows = self.read("fingerprints", fingerprint_ids=sorted(ids))
        return {row["fingerprint_id"]: row["document"] for row in rows}

    def nodes(self, case_ids: Sequence[str], run_ids: Sequence[str]) -> list[Row]:
        """Where series ran in runs: case_id, run_id, node, fingerprint_id."""
        return self.read("cause_nodes", case_ids=case_ids, run_ids=run_ids)

    def store(self, rows: Sequence[Row]) -> None:
        """Store the causes that a run found; `evidence` is a sequence of `CauseEvidence`."""
        with self._transaction("store the causes of alerts"):
            self._store("alert_cause", [_cause(r) for r in rows], "alert_id run_id", stamp="at")


def _cause(row: Row) -> Row:
    evidence = [to_document(x) | {"text": to_row.text(x.text)} for x in row["evidence"]]
    return row | {"evidence": Json(evidence)}
