"""The repeats of a measurement as lines of MLPerf Training's log.

Keys are those of mlperf_logging.mllog.constants. Each repeat that counts is a block with one
`tracked_stats`, whose throughput is the repeat's: the median over these lines is the measurement.
Nothing is evaluated, so that no such log is a submission.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

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
    """Yield the log of a measurement, a line at a time.

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
