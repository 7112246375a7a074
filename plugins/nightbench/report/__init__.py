"""Results as rows, tables and the digest of a run: for terminals, files and other programs."""

from nightbench.report.digest import digest_text, write_digest
from nightbench.report.rows import FIELDS, from_measurements, from_warehouse
from nightbench.report.tables import ResultsTable, markdown_table, verdict_lines

__all__ = [
    "FIELDS",
    "ResultsTable",
    "digest_text",
    "from_measurements",
    "from_warehouse",
    "markdown_table",
    "verdict_lines",
    "write_digest",
]
