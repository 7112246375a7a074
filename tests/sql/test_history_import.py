"""A site's older results: every bad line is named."""

from __future__ import annotations

import csv
import shutil

import pytest
from tests.damage import DAMAGES

from nightbench.core.errors import UserError
from nightbench.core.history_file import HistoryFile
from nightbench.core.model import RunKind
from nightbench.warehouse import references
from nightbench.warehouse.history_import import MedianRow, read_history
from nightbench.warehouse.statements import SQL

HEADER = "at,cluster,workload,framework,strategy,throughput,unit"
GOOD = "2026-02-01T01:00:00Z,local,resnet50_v1.5,pytorch,single,18.5,images"


def _file(tmp_path, *lines, header=HEADER):
    path = tmp_path / "history.csv"
    path.write_text("\n".join((header, *lines)) + "\n", encoding="utf-8")
    return path


def _opened(tmp_path, *lines, header=HEADER):
    return HistoryFile(_file(tmp_path, *lines, header=header))


def test_every_bad_line_is_named(tmp_path):
    path = _file(
        tmp_path,
        GOOD,
        GOOD.replace("18.5", "nan"),
        GOOD.replace("2026-02-01T01:00:00Z", "yesterday").replace("single", "alone"),
        GOOD.replace("2026-02-01T01:00:00Z", "2026-02-01"),
        GOOD.replace("images", ""),
    )
    with pytest.raises(UserError) as raised:
        read_history(HistoryFile(path))
    assert str(raised.value).splitlines() == [
        f"{path}:3: column throughput: found nan, expected a number above 0",
        f"{path}:4: column at: found yesterday, expected an ISO-8601 time with its zone, as"
        " 2026-03-31T01:00:00Z",
        f"{path}:4: column strategy: found alone, expected one of single, collective,"
        " parameter_server",
        f"{path}:5: column at: found 2026-02-01, expected an ISO-8601 time with its zone, as"
        " 2026-03-31T01:00:00Z",
        f"{path}:6: column unit: found nothing, expected a name of letters, digits, `.`, `_` and"
        " `-`",
    ]


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("throughput", "-1", "a number above 0"),
        ("throughput", "inf", "a number above 0"),
        ("throughput", "1,5", "a number above 0"),
        ("at", "2999-01-01T01:00:00Z", "a time that has passed"),
        ("at", "20260101", "an ISO-8601 time with its zone"),
        ("at", "0001-01-01T00:00:00+05:00", "an ISO-8601 time with its zone"),
        ("nodes", "0", "a whole number from 1"),
        ("nodes", "1.5", "a whole number from 1"),
        ("nodes", "99999999999", "a whole number from 1"),
        ("run_kind", "weekly", "one of nightly, on_demand, confirm, backfill, drill"),
        ("workload", "res net", "a name of letters"),
        ("sync", "async", "nothing with single"),
        ("nodes", "2", "one device on one node with single"),
        ("trainers", "3", "nodes x devices_per_node = 1"),
        (
            "case_id",
            "other",
            "resnet50_v1.5-pytorch-single-1x1-bs1, which the other columns define",
        ),
        ("maximum", "10", "a median between minimum 0.0 and 10.0"),
    ],
)
def test_a_bad_cell_says_what_was_expected(tmp_path, column, cell, expected):
    cells = dict(zip(HEADER.split(","), GOOD.split(","), strict=True)) | {column: cell}
    quoted = [f'"{c}"' if "," in c else c for c in cells.values()]
    path = _file(tmp_path, ",".join(quoted), header=",".join(cells))
    with pytest.raises(UserError) as raised:
        read_history(HistoryFile(path))
    assert expected in str(raised.value)
    assert f"{path}:2: column" in str(raised.value)


@pytest.mark.parametrize(
    ("header", "lines", "message"),
    [
        (HEADER + ",speed", [GOOD + ",1"], r":1: column 'speed' unknown"),
        (HEADER.replace(",unit", ""), [GOOD], r":1: column 'unit' missing"),
        (HEADER + ",unit", [GOOD + ",x"], r":1: column 'unit' named twice"),
        (HEADER, [GOOD + ",1"], r":2: found 8 cells, expected 7"),
        (HEADER, [GOOD + ",1", GOOD.replace("local", "")], r":3: column cluster: found nothing"),
        (HEADER, [GOOD, "", GOOD], r":4: column at: .* another time than line 2"),
        (HEADER, [], "found no rows"),
        (HEADER, [GOOD.replace("local", '"local')], "invalid CSV"),
    ],
)
def test_a_bad_file(tmp_path, header, lines, message):
    with pytest.raises(UserError, match=message):
        read_history(_opened(tmp_path, *lines, header=header))


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_history(HistoryFile(tmp_path / "none.csv"))
    (tmp_path / "latin.csv").write_bytes(b"at,cluster\n\xe9")
    with pytest.raises(UserError, match="not UTF-8"):
        read_history(HistoryFile(tmp_path / "latin.csv"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_of_a_damaged_file_nothing_is_stored(tmp_path, damage):
    path = _file(tmp_path, GOOD, GOOD.replace("02-01", "02-02"), GOOD.replace("02-01", "02-03"))
    DAMAGES[damage](path)
    with pytest.raises(UserError, match=str(path)):
        read_history(HistoryFile(path))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", references.FILES)
def test_of_damaged_references_nothing_is_stored(tmp_path, name, damage):
    for each in references.FILES:
        shutil.copy(SQL / "references" / each, tmp_path)
    DAMAGES[damage](tmp_path / name)
    with pytest.raises(UserError, match=name):
        references.reference_rows(tmp_path)


def test_a_reference_that_is_no_number_is_named_by_its_line(tmp_path):
    for each in references.FILES:
        shutil.copy(SQL / "references" / each, tmp_path)
    path = tmp_path / references.FILES[0]
    header, line, *rest = path.read_text().splitlines()
    cells = dict(zip(header.split(","), next(csv.reader([line])), strict=True)) | {"value": "fast"}
    with path.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header.split(","), cells.values()])
        stream.writelines(f"{each}\n" for each in rest)
    with pytest.raises(UserError, match=r"\.csv:2: column value: found 'fast', expected a number"):
        references.reference_rows(tmp_path)


def test_a_parameter_server_needs_its_servers(tmp_path):
    header = HEADER + ",trainers,pservers,sync"
    line = GOOD.replace("single", "parameter_server")
    with pytest.raises(UserError, match="column pservers: found nothing, expected a whole number"):
        read_history(_opened(tmp_path, line + ",2,,async", header=header))
    ((run, planned, measurement),) = read_history(
        _opened(tmp_path, line + ",2,1,async", header=header)
    )
    assert planned.case_id == "resnet50_v1.5-pytorch-ps-1ps2tr-bs1-async"
    assert (run.run_kind, run.suite, measurement.n) == (RunKind.NIGHTLY, "import", 1)


def test_many_bad_lines_are_counted(tmp_path):
    with pytest.raises(UserError, match=r"\.\.\. and 10 more"):
        read_history(_opened(tmp_path, *[GOOD.replace("18.5", "x")] * 60))


def test_the_analysts_page_documents_every_column():
    from nightbench.warehouse.statements import SQL

    page = (SQL.parent / "docs" / "warehouse.md").read_text()
    assert [name for name in MedianRow.model_fields if f"`{name}`" not in page] == []
