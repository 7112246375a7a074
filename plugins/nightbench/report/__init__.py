"""Results as rows, tables and the report of a run: for terminals, files and other programs."""

from nightbench.report.rows import FIELDS, from_measurements, from_warehouse
from nightbench.report.run_report import RunReport, report_page, report_text, write_report
from nightbench.report.tables import ResultsTable, markdown_table, verdict_lines
