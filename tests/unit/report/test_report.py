"""Rows, tables and the digest, from results whose figures are known."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from nightbench.core.model import (
    Build,
    Case,
    CaseStatus,
    CheckResult,
    Measurement,
    Reason,
    ReasonCode,
    Run,
    RunKind,
    Severity,
    Strategy,
)
from nightbench.core.sentences import percent
from nightbench.report import (
    FIELDS,
    ResultsTable,
    RunReport,
    from_measurements,
    from_warehouse,
    markdown_table,
    report_text,
    verdict_lines,
    write_report,
)
from nightbench.report.run_report import headline, report_page
from nightbench.report.tables import cells, figure, verdict

RUN = Run("demo-1", "demo", "local", RunKind.ON_DEMAND, datetime(2026, 11, 21, tzinfo=UTC), "ann")
ONE = Case("net", "fake", Strategy.COLLECTIVE, batch_size_per_device=2)
TWO = Case("net", "fake", Strategy.COLLECTIVE, nodes=2, trainers=2, batch_size_per_device=2)


def measured(case: Case, throughput: float | None, **changes: object) -> Measurement:
    fields: dict[str, object] = {
        "run_id": "demo-1",
        "case": case,
        "cluster": "local",
        "build": Build("fake"),
        "unit": "images",
        "repeats": (),
        "n": 3 if throughput else 0,
        "throughput": throughput,
        "status": CaseStatus.OK if throughput else CaseStatus.FAILED,
    }
    return Measurement(**{**fields, **changes})


SILENT = Reason(ReasonCode.AGENT_ERROR, "n2", observed="fell silent\nits log")


def refused() -> CheckResult:
    return CheckResult("measurement", None, "spread", Severity.FAIL, False, "40 %", "at most 5")


@pytest.fixture
def rows() -> list[dict[str, object]]:
    made = from_measurements(
        RUN,
        [
            measured(ONE, 10.0, spread=0.021, speedup=1.0, efficiency=1.0),
            measured(TWO, 19.0, spread=0.4, speedup=1.9, efficiency=0.95, checks=(refused(),)),
            measured(Case("net", "other", Strategy.SINGLE), None, reasons=(SILENT,)),
        ],
    )
    judged = {"verdict": "regressed", "verdict_sentence": "10 % below the median"}
    made[0] |= judged | {"smallest_slowdown": 0.04}
    return made


def test_rows_have_every_field_and_are_json(rows: list[dict[str, object]]) -> None:
    assert all(list(row) == list(FIELDS) for row in rows)
    again = json.loads(json.dumps(rows))
    assert again[0]["verdict"] == "regressed"
    assert again[1]["quarantined"] is True
    assert again[1]["reasons"] == [refused().reason.to_json()]
    assert (again[2]["status"], again[2]["verdict"], again[2]["throughput"]) == (
        "failed",
        "failed",
        None,
    )


def test_rows_of_the_warehouse_keep_their_reasons() -> None:
    row = {
        "case_id": "c",
        "reasons": [SILENT.to_json()],
        "quarantine_reasons": [refused().reason.to_json()],
        "extra": 1,
        "started_at": RUN.started_at,
    }
    made = from_warehouse([row])[0]
    assert [each["code"] for each in made["reasons"]] == ["agent_error", "check_failed"]
    assert "extra" not in made


def test_the_markdown_table(rows: list[dict[str, object]]) -> None:
    lines = [
        line.removeprefix("| net-fake-collective-") for line in markdown_table(rows).split("\n")
    ]
    assert lines[2:5] == [
        "1x1-bs2 | 10.00 | images/s | 3 | 2.1 % | 1.00 | 100 % | - | 4.0 % | regressed |",
        "2x1-bs2 | 19.00 | images/s | 3 | 40.0 % | 1.90 | 95 % | - | - | quarantined |",
        "| net-other-single-1x1-bs1 | - | images/s | 0 | - | - | - | - | - | failed |",
    ]


def test_the_terminals_table_has_the_same_cells(rows: list[dict[str, object]]) -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(ResultsTable(rows, "demo-1"))
    text = console.file.getvalue()
    assert "net-fake-collective-2x1-bs2" in text
    assert "quarantined" in text
    assert "19.00" in text


def test_a_terminal_lists_the_first_of_many_cases_without_a_result(
    rows: list[dict[str, object]],
) -> None:
    absent = {**rows[2], "status": "missing", "verdict": "missing"}
    many = [{**absent, "case_id": f"net-{number:04}"} for number in range(1025)]
    for width in (140, 40):
        console = Console(file=io.StringIO(), width=width)
        console.print(ResultsTable([*many, *rows], "demo-1"))
        text = console.file.getvalue()
        assert "net-0019" in text
        assert "net-0020" not in text
        assert "and 1,005 more cases without a result" in text
        assert "net-fake-collective-2x1-bs2" in text
    (line,) = [line for line in verdict_lines(many) if "n2: fell silent" in line]
    named = ", ".join(f"net-{number:04}" for number in range(10))
    assert line == f"{named} and 1,015 more: n2: fell silent"


def test_what_is_live_stands_beside_the_verdict(rows: list[dict[str, object]]) -> None:
    row = rows[0] | {"verdict": "ok", "change": -0.012, "change_low": -0.03, "change_high": 0.006}
    assert cells(row)[-3:] == ("-1.2 % (-3.0 % to +0.6 %)", "4.0 %", "ok")
    slow = {"change": -0.088, "level_change": -0.06, "change_low": -0.07, "change_high": -0.05}
    assert cells(row | slow)[-3] == "-8.8 % (level -6.0 %, -7.0 % to -5.0 %)"
    live = {"alert_id": 7, "alert_verdict": "regressed", "alert_change": -0.08, "drift": -0.07}
    assert cells(row | live | {"private_build": True, "untried": "no GPU", "noisy": "by 21 %"})[
        -1
    ] == (
        "ok, private build, untried configuration, alert 7 regressed -8.0 %, drifts -7.0 %, noisy"
    )


def test_a_run_whose_framework_is_away_is_unavailable_in_every_field() -> None:
    (row,) = from_measurements(RUN, [measured(ONE, None, status=CaseStatus.UNAVAILABLE)])
    assert (row["status"], row["verdict"]) == ("unavailable", "unavailable")


def test_what_does_not_count_says_why(rows: list[dict[str, object]]) -> None:
    assert list(verdict_lines(rows)) == [
        "net-fake-collective-1x1-bs2: 10 % below the median",
        "net-fake-collective-2x1-bs2: quarantined: spread: 40 %, expected: at most 5",
        "net-other-single-1x1-bs1: n2: fell silent",
    ]


def test_the_digest_begins_with_the_worst(rows: list[dict[str, object]], tmp_path: Path) -> None:
    assert headline(rows) == "3 cases: 1 regressed, 1 failed, 1 quarantined"
    text = report_text(RunReport(RUN, rows, notes=["SQL: `psql`"]))
    assert text.startswith("# demo on local: 3 cases: 1 regressed, 1 failed, 1 quarantined\n")
    assert "requested by ann" in text
    repeats = text.split("## Repeats\n\n")[1].split("\n\n")[0].splitlines()
    assert len(repeats) == 2 + len(rows)
    assert all(line.startswith("| net-") and line.count("|") == 9 for line in repeats[2:])
    path = write_report(tmp_path / "reports", RUN.run_id, ".md", text)
    assert path == tmp_path / "reports" / "demo-1.md"
    assert path.read_text() == text
    assert [p.name for p in path.parent.iterdir()] == ["demo-1.md"]


def test_the_report_says_what_medians_took_of_their_devices() -> None:
    flops = {"model_flops_per_s": 4e14, "tokens_per_s": 2e4, "device": "X1"}
    rows = from_measurements(
        RUN,
        [
            measured(
                TWO,
                19.0,
                **flops,
                mfu=0.4,
                peak_resident_bytes=3 << 30,
                joules_per_unit=1.25,
                reported={"mfu_percent": 43.5, "tflops_per_device": 215.25},
            ),
            measured(
                ONE,
                10.0,
                **flops,
                mfu_absent="no peak of X1 at fp32 is known",
                energy_absent="n1: no",
                peak_resident_bytes=2 << 30,
                peak_allocator_bytes=5 << 30,
            ),
            measured(Case("net", "other", Strategy.SINGLE), None),
        ],
    )
    report = RunReport(RUN, rows)
    names = ("net-fake-collective-2x1-bs2", "net-fake-collective-1x1-bs2")
    figures = (
        ("X1", "200.0", "40.0 %", "10,000", "3,072 MiB", "1.250 J/image"),
        ("X1", "400.0", "-", "20,000", "5,120 MiB", "-"),
    )
    text, page = report_text(report), report_page(report, RUN.started_at)
    printed = f"Printed by {names[0]}: mfu_percent 43.5, tflops_per_device 215.25."
    for said in (
        "No MFU: no peak of X1 at fp32 is known (1 case).",
        "No energy: n1: no (1 case).",
        printed,
    ):
        assert said in text
        assert said in page
    assert text.count("Printed by") == 1
    for name, cells_of_it in zip(names, figures, strict=True):
        assert " | ".join((name, *cells_of_it)) in text
        row = page[page.index(f">{name}<", page.index("Use of the devices")) :].split("</tr>")[0]
        assert all(f">{cell}<" in row for cell in cells_of_it)
    assert "Use of the devices" not in report_text(RunReport(RUN, rows[2:]))


def test_figures_for_people() -> None:
    assert [figure(x) for x in (0.01234, 1.5, 99.96, 123.45, 4321.9, 43210.0, None)] == [
        "0.01234",
        "1.500",
        "99.96",
        "123.5",
        "4322",
        "43,210",
        "-",
    ]
    assert (percent(0.0213), percent(None), percent(0.956, digits=0)) == ("2.1 %", "-", "96 %")


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
def test_a_case_is_never_folded_where_a_line_can_hold_it(
    rows: list[dict[str, object]], width: int
) -> None:
    console = Console(file=io.StringIO(), width=width)
    long = "resnet50_v1.5-pytorch-collective-16x8-bs128-bf16"
    console.print(ResultsTable([*rows, {**rows[0], "case_id": long}], "demo-1"))
    lines = console.file.getvalue().splitlines()
    assert sum(long in line for line in lines) == 1
    assert all(len(line) <= width for line in lines) or width < 80


def test_unavailable_is_told_as_such(rows: list[dict[str, object]]) -> None:
    away = {**rows[2], "status": "unavailable", "verdict": "failed"}
    assert verdict(away) == "unavailable"
    assert headline([rows[0], away]) == "2 cases: 1 regressed, 1 unavailable"


def test_what_is_true_of_several_cases_is_said_once(rows: list[dict[str, object]]) -> None:
    same = {"verdict_sentence": "10 are needed", "reasons": [], "quarantined": False}
    both = [{**row, **same} for row in rows[:2]]
    assert list(verdict_lines(both)) == [
        "net-fake-collective-1x1-bs2, net-fake-collective-2x1-bs2: 10 are needed"
    ]


def test_the_digest_has_the_end_of_each_traceback_once() -> None:
    error = "[n1 trainer-0]\nKeyError: 'lr'"
    failed = [measured(case, None) for case in (ONE, TWO)]
    rows = from_measurements(RUN, failed, errors={each.case.case_id: error for each in failed})
    assert {row["error"] for row in rows} == {error}
    text = report_text(RunReport(RUN, rows))
    assert text.count("    KeyError: 'lr'") == 1
    assert f"nightbench logs --run demo-1 --case {ONE.case_id}" in text
    assert "## Errors" not in report_text(RunReport(RUN, from_measurements(RUN, failed)))
