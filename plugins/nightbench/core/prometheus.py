"""The newest medians and verdicts as metrics, in Prometheus's text format 0.0.4.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LABELS: tuple[str, ...] = ("suite", "cluster", "case_id", "workload", "framework", "unit")
"""Columns that name a series; values that change with a night are no labels."""

Row = Mapping[str, Any]


class Metric(NamedTuple):
    """A gauge of a series; none if its column is null."""

    name: str
    column: str
    """Contains its value; a word is a further label of a gauge that is 1, and values by name are a
    gauge each, with the label `figure`."""
    help: str


METRICS = (
    Metric(
        "nightbench_throughput",
        "throughput",
        "Newest good median of a series, in units of work a second.",
    ),
    Metric(
        "nightbench_spread_ratio",
        "spread",
        "Spread of the median's repeats: (largest - smallest) / median.",
    ),
    Metric(
        "nightbench_tokens_per_second",
        "tokens_per_s",
        "Tokens per second of the newest median; only language models.",
    ),
    Metric("nightbench_mfu_ratio", "mfu", "Model FLOP/s over the peak of the devices."),
    Metric("nightbench_joules_per_unit", "joules_per_unit", "Energy of a unit of work, in joules."),
    Metric(
        "nightbench_reported",
        "reported",
        "Value that a training script printed itself, by its own formula, as printed.",
    ),
    Metric(
        "nightbench_measured_timestamp_seconds",
        "started_at",
        "Start of the newest median's run, in seconds since 1970.",
    ),
    Metric("nightbench_build_info", "framework_version", "Always 1; a label has the version."),
    Metric("nightbench_change_ratio", "change", "Newest verdict: value / baseline - 1."),
    Metric("nightbench_verdict", "verdict", "Always 1; a label has the newest verdict."),
    Metric(
        "nightbench_training", "training", "Always 1; a label has the newest verdict on training."
    ),
    Metric("nightbench_alert", "alert_state", "1 if the series has an open or acknowledged alert."),
)


def prometheus_text(rows: Iterable[Row]) -> Iterator[str]:
    """Yield lines of metrics about series.

    Args:
        rows: of the statement `export_metrics`, one a series.
    """
    series = list(rows)
    for metric in METRICS:
        yield f"# HELP {metric.name} {metric.help}\n"
        yield f"# TYPE {metric.name} gauge\n"
        for row in series:
            found = row[metric.column]
            if found is None:
                continue
            gauges: list[tuple[dict[str, str], Any]] = [({}, found)]
            if isinstance(found, str):
                gauges = [({metric.column: found}, 1)]
            elif isinstance(found, Mapping):
                gauges = [
                    ({"figure": name}, value)
                    for name, value in found.items()
                    if isinstance(value, (int, float))  # otherwise edited by hand
                ]
            elif isinstance(found, datetime):
                gauges = [({}, found.timestamp())]
            for more, value in gauges:
                of_series = {name: row[name] for name in LABELS} | more
                labels = ",".join(f'{name}="{_escaped(word)}"' for name, word in of_series.items())
                yield f"{metric.name}{{{labels}}} {float(value)!r}\n"


def _escaped(value: str | None) -> str:
    """Return a label's value as it stands between quotes; null as an empty label, which is none."""
    return (value or "").replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
