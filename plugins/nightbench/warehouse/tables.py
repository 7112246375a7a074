"""Content of suites' tables: newest results of their cases, and published values."""

from collections.abc import Collection, Sequence

from nightbench.core.model import CaseStatus, SuiteTable, reasons_from_json
from nightbench.core.sentences import sentences
from nightbench.core.tables import METRICS, CellResult, Published
from nightbench.warehouse.repository import Repository, Row


class TableRepository(Repository):
    """Reads for `nightbench table`."""

    def newest_scale(self, suite: str, cluster: str) -> str | None:
        """The scale of a suite's newest run on a cluster; None before the first one."""
        row = self.first("newest_scale", suite=suite, cluster=cluster)
        return str(row["scale"]) if row else None

    def results(self, case_ids: Sequence[str], cluster: str) -> dict[str, CellResult]:
        """case_id -> its newest good median on a cluster, or why the newest attempt has none."""
        rows = self.read("newest_of_cases", case_ids=case_ids, cluster=cluster)
        return {row["case_id"]: _result(row) for row in rows}

    def published(self, table: SuiteTable, workloads: Collection[str]) -> list[Published]:
        """The published values of some workloads, for a table's cells.

        For a framework that the table shows only as published: those of all workloads.
        """
        if (chosen := table.published) is None:
            return []
        rows = self.read(
            "published",
            document=chosen.document,
            figures=chosen.figures,
            metric=METRICS[table.metric][0],
        )
        return [
            Published(
                axes=row,
                framework=row["framework_text"],
                value=row["value"],
                unit=row["unit_text"],
                version=row["framework_version"],
                variant=row["implementation"],
                device=row["device"],
                remark=row["remark"],
            )
            for row in rows
            if row["workload"] in workloads or row["framework_text"] in chosen.only
        ]


def _result(row: Row) -> CellResult:
    figures = {name: row[name] for name in CellResult.__dataclass_fields__ if name in row}
    return CellResult(**figures, reason=_reason(row) if row["throughput"] is None else None)


def _reason(row: Row) -> str:
    # A failed case also fails its checks: the reason is why it failed.
    refused = row["quarantined"] and row["status"] == CaseStatus.OK
    word = "quarantined" if refused else str(row["status"])
    found = row["quarantine_reasons"] if refused else row["reasons"]
    said = sentences(reasons_from_json(found)).split("\n")[0]
    return f"{word}: {said}" if said else word
