"""The history in files: CSV, Parquet with units and comments as its metadata, MLPerf's log."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightbench.config.control_plane import how_to_install
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from nightbench.warehouse.exports import ExportColumn

Rows = Sequence[Sequence[Any]]
Row = Mapping[str, Any]


Write = Callable[[Rows], None]
"""Appends rows to a file."""


@contextmanager
def csv_file(
    path: Path, columns: Sequence[ExportColumn], about: Mapping[str, str]
) -> Iterator[Write]:
    """Open CSV in UTF-8 with a header.

    Times are ISO 8601 in UTC, booleans `true` and `false`, lists and documents JSON; what is null
    is empty.
    """
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([column.name for column in columns])
        yield lambda rows: writer.writerows([_text(value) for value in row] for row in rows)


@contextmanager
def parquet_file(
    path: Path, columns: Sequence[ExportColumn], about: Mapping[str, str]
) -> Iterator[Write]:
    """Open Parquet, compressed with zstd; its schema says what each column is, and its unit."""
    # Half a second to import, and only this format needs it.
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise UserError(
            "Parquet needs pyarrow, which is not installed: "
            f"{how_to_install('analysis')} (or write .csv)"
        ) from error

    schema = pa.schema([_field(pa, column) for column in columns], dict(about))

    def write(rows: Rows) -> None:
        arrays = [
            pa.array(map(_document, values) if column.type == "jsonb" else values, field.type)
            for values, column, field in zip(zip(*rows, strict=True), columns, schema, strict=True)
        ]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))

    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        yield write


FORMATS = {"csv": csv_file, "parquet": parquet_file}
"""Formats of tables by name, which is the ending of their files too."""


def unit_of(column: str) -> str:
    """Return the unit of a column by its name; empty if it has none.

    The unit of work (images, tokens, ...) is a row's own: the column `unit` names it.
    """
    if column.endswith("per_s"):
        return "1/s"
    if column.startswith(("throughput", "step_throughput")) or column in ("value", "baseline"):
        return "units of work per second; the column unit names the unit"
    endings = {"_s": "s", "_bytes": "bytes", "_bytes_per_step": "bytes", "_mb": "MiB", "_at": "UTC"}
    return next((unit for ending, unit in endings.items() if column.endswith(ending)), "")


def arrow_type(pa: Any, name: str) -> pa.DataType:
    """Return Arrow's type for one of PostgreSQL's by its name there; jsonb is text.

    Raises:
        KeyError: no mart has a column of that type.
    """
    return {
        "text": pa.string(),
        "jsonb": pa.string(),
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "integer": pa.int32(),
        "bigint": pa.int64(),
        "real": pa.float32(),
        "double precision": pa.float64(),
        "timestamp with time zone": pa.timestamp("us", tz="UTC"),
        "text[]": pa.list_(pa.string()),
    }[name]


def _field(pa: Any, column: ExportColumn) -> pa.Field:
    said = {"description": column.description, "unit": unit_of(column.name)}
    metadata = {key: value for key, value in said.items() if value}
    return pa.field(column.name, arrow_type(pa, column.type), metadata=metadata or None)


def _document(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return _document(value) if isinstance(value, (list, dict)) else value


# --- MLPerf -------------------------------------------------------------------------------

_POINT, _START, _END = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"


def counted(repeats: Sequence[Row]) -> list[Row]:
    """Return the repeats that a median rests on: good repeats of the last generation, in order."""
    last = max((row["generation"] for row in repeats), default=0)
    return [
        row
        for row in repeats
        if row["generation"] == last
        and row["status"] == "ok"
        and not row["is_quarantined"]
        and row["throughput"] is not None
    ]


def mlperf_lines(measurement: Row, repeats: Sequence[Row]) -> Iterator[str]:
    """Yield the log of MLPerf Training of a measurement, a line at a time.

    Keys are those of mlperf_logging.mllog.constants. Each repeat that counts is a block with one
    `tracked_stats`, whose throughput is the repeat's: the median over these lines is the
    measurement. Nothing is evaluated, so that no such log is a submission.

    The measurement is a row of `marts.fct_measurement`; of repeats it takes the `counted` ones, at
    least one.
    """
    begin = _ms(repeats[0]["started_at"] or measurement["started_at"])
    stated = {
        "submission_benchmark": measurement["workload"],
        "submission_org": "not stated",
        "submission_division": "open",
        "submission_status": "research",
        "submission_platform": measurement["cluster"],
        "global_batch_size": measurement["global_batch_size"],
        "max_sequence_length": measurement["sequence_length"],
    }
    about = {
        name: measurement[name]
        for name in ("run_id", "case_id", "framework", "framework_version", "precision", "unit")
    } | {"is_synthetic": measurement["is_synthetic"]}
    for key, value in stated.items():
        if value is not None:
            yield _line(begin, _POINT, key, value, about if key == "submission_benchmark" else {})
    yield _line(begin, _START, "init_start")
    opens = [_ms(row["started_at"] or measurement["started_at"]) + _first(row) for row in repeats]
    yield _line(opens[0], _END, "init_stop")
    yield _line(opens[0], _START, "run_start")
    is_numbered = all(row["steps"] for row in repeats)
    samples, steps, close = 0.0, 0, opens[0]
    for row, opened in zip(repeats, opens, strict=True):
        said = {"repeat": row["repeat"], "samples_count": samples}
        yield _line(opened, _START, "block_start", metadata=said)
        samples += row["samples"] or 0.0
        close = opened + round(1000 * (row["window_s"] or 0.0))
        said = {"repeat": row["repeat"], "samples_count": samples}
        if is_numbered:
            steps += row["steps"]
            said["step"] = steps
        figures = {"throughput": row["throughput"], "loss": row["loss_median"]}
        tracked = {name: value for name, value in figures.items() if value is not None}
        yield _line(close, _POINT, "tracked_stats", tracked, said)
        yield _line(close, _END, "block_stop", metadata=said)
    yield _line(close, _END, "run_stop", metadata={"status": "success", "samples_count": samples})


def _ms(at: Any) -> int:
    return int(at.timestamp() * 1000)


def _first(row: Row) -> int:
    """Return the milliseconds from a repeat's launch to the end of its first step."""
    return round(1000 * (row["time_to_first_step_s"] or 0.0))


def _line(time_ms: int, kind: str, key: str, value: Any = None, metadata: Row | None = None) -> str:
    event = {
        "namespace": "",
        "time_ms": time_ms,
        "event_type": kind,
        "key": key,
        "value": value,
        "metadata": {"file": "nightbench", "lineno": 0, **(metadata or {})},
    }
    return f":::MLLOG {json.dumps(event, allow_nan=False)}\n"
