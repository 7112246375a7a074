"""The newest medians and verdicts as metrics, in Prometheus's text format 0.0.4.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LABELS = ("suite", "cluster", "case_id", "workload", "framework", "unit")
"""Columns that name a series; what changes with a night is no label of a figure."""

Row = Mapping[str, Any]


class Metric(NamedTuple):
    """A gauge, with its value of a row; none where the row has no such value."""

    name: str
    help: str
    value: Callable[[Row], float | None]
    also: tuple[str, ...] = ()
    """Further columns that are labels."""


METRICS = (
    Metric(
        "nightbench_throughput",
        "Newest good median of a series, in units of work a second.",
        lambda row: row["throughput"],
    ),
    Metric(
        "nightbench_spread_ratio",
        "Spread of its repeats: largest less smallest, over the median.",
        lambda row: row["spread"],
    ),
    Metric(
        "nightbench_tokens_per_second",
        "Tokens a second of that median, of language models.",
        lambda row: row["tokens_per_s"],
    ),
    Metric(
        "nightbench_mfu_ratio",
        "Model FLOP/s over the peak of the devices.",
        lambda row: row["mfu"],
    ),
    Metric(
        "nightbench_joules_per_unit",
        "Energy of a unit of work, in joules.",
        lambda row: row["joules_per_unit"],
    ),
    Metric(
        "nightbench_measured_timestamp_seconds",
        "When the run of that median began, in seconds since 1970.",
        lambda row: row["started_at"].timestamp(),
    ),
    Metric(
        "nightbench_build_info",
        "Always 1; the label version is that of the framework.",
        lambda _: 1,
        ("framework_version",),
    ),
    Metric(
        "nightbench_change_ratio",
        "Newest judged night over its baseline, less 1.",
        lambda row: row["change"],
    ),
    Metric(
        "nightbench_verdict",
        "Always 1; the label verdict is the newest one.",
        lambda row: 1 if row["verdict"] else None,
        ("verdict",),
    ),
    Metric(
        "nightbench_alert",
        "1 for a series with a live alert; the label alert_state is open or acknowledged.",
        lambda row: 1 if row["alert_state"] else None,
        ("alert_state",),
    ),
)


def metrics_text(rows: Iterable[Row]) -> Iterator[str]:
    """Yield lines of metrics about series.

    Args:
        rows: of the statement `export_metrics`, one a series.
    """
    series = list(rows)
    for metric in METRICS:
        yield f"# HELP {metric.name} {metric.help}\n"
        yield f"# TYPE {metric.name} gauge\n"
        for row in series:
            value = metric.value(row)
            if value is not None:
                names = (*LABELS, *metric.also)
                labels = ",".join(f'{name}="{_escaped(row[name])}"' for name in names)
                yield f"{metric.name}{{{labels}}} {float(value)!r}\n"


def _escaped(value: object) -> str:
    """Return a label's value as it stands between quotes; null as an empty label, which is none."""
    text = "" if value is None else str(value)
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
