"""`nightbench export` on a warehouse: files with the rows of the marts, and what it refuses."""

from __future__ import annotations

import csv
import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from nightbench.cli.main import app
from nightbench.core.errors import UserError
from nightbench.core.model import Verdict, VerdictKind
from nightbench.report.export_files import arrow_type
from nightbench.warehouse import connect
from nightbench.warehouse.exports import EXPORTS, ExportFilter, ExportRepository

NIGHTS = 70
"""From March 1st to April 30th 2026: two months."""


@pytest.fixture
def measured(loader, given):
    """Nights of one case, and one night of another suite on another cluster."""
    case = given.case()
    for night in range(0, NIGHTS, 10):
        run = given.run(night)
        loader.runs.load(given.batch(run, given.came_back(run, case, (10.0, 11.0, 12.0 + night))))
    other = given.run(1, suite="other", cluster="far")
    loader.runs.load(given.batch(other, given.came_back(other, given.case(nodes=2))))
    found = Verdict(case.case_id, "local", given.run(60).run_id, VerdictKind.REGRESSED, "a; b", 9.0)
    loader.series.store_verdicts([found])
    loader.alerts.open(found)
    return case


@pytest.fixture
def export(warehouse, monkeypatch):
    """What the command prints, as a reader of the warehouse."""
    monkeypatch.setenv("NIGHTBENCH_WAREHOUSE", warehouse.reader)

    def call(*words: object) -> str:
        done = CliRunner().invoke(app, ["export", *map(str, words)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return call


def _lines(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_parquet_holds_the_rows_of_the_mart_in_the_order_of_their_runs(
    export, measured, rows, tmp_path
):
    file = tmp_path / "history.parquet"
    assert "8 measurements in" in export(file)
    table = pq.read_table(file)
    stored = rows("select * from marts.fct_measurement order by started_at, run_id, case_id")
    assert table.column_names == list(stored[0])
    for found, expected in zip(table.to_pylist(), stored, strict=True):
        axes = expected.pop("axes")
        assert json.loads(found.pop("axes")) == axes
        assert found == expected
    assert list(tmp_path.iterdir()) == [file]


def test_parquet_says_what_its_columns_are(export, measured, tmp_path):
    file = tmp_path / "history.parquet"
    export(file, "--cluster", "local", "--since", "2026-03-02")
    schema = pq.read_schema(file)
    assert schema.field("started_at").type == pa.timestamp("us", tz="UTC")
    assert b"Median over n repeats" in schema.field("throughput").metadata[b"description"]
    assert schema.field("time_to_first_step_s").metadata[b"unit"] == b"s"
    assert schema.field("minibatches_per_s").metadata[b"unit"] == b"1/s"
    assert schema.metadata[b"nightbench.rows"] == b"measurements, columns of marts.fct_measurement"
    assert schema.metadata[b"nightbench.filter.cluster"] == b"local"
    assert schema.metadata[b"nightbench.filter.since"] == b"2026-03-02T00:00:00+00:00"


def test_csv_holds_the_same_with_nulls_empty(export, measured, tmp_path):
    file = tmp_path / "history.csv"
    export(file, "--suite", "other")
    (found,) = _lines(file)
    assert found["throughput"] == "11.0"
    assert found["started_at"] == "2026-03-02T01:00:00.000000+00:00"
    assert json.loads(found["node_names"]) == ["n1", "n2"]
    assert (found["is_synthetic"], found["sparsity"]) == ("true", "")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--suite", "demo"], 7),
        (["--cluster", "far"], 1),
        (["--run", "demo-20260301T010000-0a1b"], 1),
        (["--since", "2026-04-01"], 3),
        (["--until", "2026-04-01"], 5),
        (["--since", "2026-03-31T01:00Z", "--until", "2026-03-31T01:00:01Z"], 1),
        (["--rows", "repeats"], 24),
        (["--rows", "repeats", "--since", "2026-04-01"], 9),
        (["--rows", "verdicts"], 1),
        (["--rows", "alerts", "--suite", "demo"], 1),
    ],
)
def test_filters_choose_rows(export, measured, tmp_path, words, count):
    file = tmp_path / "history.csv"
    assert export(file, *words).startswith(f"{count} ")
    assert len(_lines(file)) == count


def test_a_case_is_chosen_by_its_slug(export, measured, tmp_path):
    assert export(tmp_path / "x.csv", "--case", measured.case_id).startswith("7 measurements")


@pytest.mark.parametrize("name", EXPORTS)
def test_every_column_has_a_type_in_parquet(warehouse, name):
    with closing(connect(warehouse.reader)) as connection:
        columns = ExportRepository(connection).columns(name)
    assert len(columns) > 10
    assert all(arrow_type(pa, column.type) for column in columns)


def test_rows_are_read_in_batches_of_one_snapshot(measured, warehouse, loader, given, monkeypatch):
    monkeypatch.setattr("nightbench.warehouse.exports.BATCH_ROWS", 2)
    late = given.run(5)
    with (
        closing(connect(warehouse.reader)) as connection,
        closing(
            ExportRepository(connection).batches("measurements", ExportFilter(suite="demo"))
        ) as batches,
    ):
        first = next(batches)
        assert (first.month, first.months, len(first.rows)) == (1, 2, 2)
        loader.runs.load(given.batch(late, given.came_back(late, measured)))
        sizes = [len(batch.rows) for batch in batches]
        assert sum(sizes) + 2 == 7
        assert max(sizes) == 2
        assert connection.autocommit


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["history.txt"],
            r"file: found .history.txt.; expected one of the endings .parquet, .csv, .tar.gz",
        ),
        (["x.csv", "--since", "March"], "--since: found .March.; expected a date or a time"),
        (["x.csv", "--suite", "nobody"], r"found no measurements \(suite=nobody\); nothing was"),
        (["/dev/null/x.csv"], "x.csv: cannot be written: File exists"),
        (["logs", "--format", "mlperf"], "--run: found none; expected the id of a run"),
        (
            ["logs", "-f", "mlperf", "--run", "x", "--suite", "demo"],
            "--suite: found with mlperf or bundle",
        ),
        (["logs", "-f", "mlperf", "--run", "x"], r"run .x.: found no measurement that passed"),
    ],
)
def test_mistakes_are_said_and_leave_no_file(export, measured, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        export(*words)
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays_where_nothing_matches(export, measured, tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("before")
    with pytest.raises(UserError, match="found no measurements"):
        export(file, "--until", datetime(2020, 1, 1, tzinfo=UTC).isoformat())
    assert file.read_text() == "before"


def test_a_run_as_mlperf_logs_reads_back_to_its_throughput(export, loader, given, tmp_path):
    run, case, failed = given.run(), given.case(), given.case(nodes=2)
    check = given.failed_check(repeat=2)
    repeats = (10.0, 99.0, 12.0, 13.0)
    came_back = given.came_back(run, case, repeats, checks=(check,), throughput=12.0, n=3)
    launches = [
        replace(each, record=replace(each.record, started_at=run.started_at + timedelta(hours=i)))
        for i, each in enumerate(came_back.repeats)
    ]
    came_back = replace(came_back, repeats=tuple(launches))
    loader.runs.load(given.batch(run, came_back, missing=(failed,)))
    export(tmp_path / "logs", "--format", "mlperf", "--run", run.run_id)
    (log,) = (tmp_path / "logs").iterdir()
    assert log.name == f"{case.case_id}.log"
    lines = log.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
    kinds = [event["key"] for event in events]
    assert kinds.count("tracked_stats") == kinds.count("block_stop") == 3
    assert kinds[-1] == "run_stop"
    assert [event["time_ms"] for event in events] == sorted(event["time_ms"] for event in events)
    stated = {event["key"]: event["value"] for event in events}
    assert stated["submission_benchmark"] == "resnet50_v1.5"
    assert stated["global_batch_size"] == 2
    done = CliRunner().invoke(app, ["parse", "mlperf", str(log), "--warmup", "0", "--json"])
    read = json.loads(done.stdout)["throughput"]
    assert (read["median"], read["minimum"], read["maximum"], read["n"]) == (12.0, 10.0, 13.0, 3)
