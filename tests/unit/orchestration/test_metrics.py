"""What a judged and a loaded run send reaches an OpenTelemetry collector over HTTP."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk._shared.observability.metrics.otel_logger import get_otel_logger
from airflow.sdk.observability import stats
from opentelemetry import metrics as otel_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from nightbench.alerts import Delivery
from nightbench.core.model import Run, RunKind, Verdict, VerdictKind
from nightbench.night.judge import JudgeResult
from nightbench.orchestration.metrics import count_judged, count_loaded

TAGS = {"suite": "demo", "cluster": "lab", "run_kind": "nightly"}


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Bodies that a collector on loopback received; Airflow's own logger sends them."""
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}"
        )
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        # At the end of the process the collector is gone.
        monkeypatch.setattr(atexit, "register", lambda *_: None)
        logger = get_otel_logger(conf_interval=3_600_000)
        stats.initialize(factory=lambda: logger, export_legacy_names=False)
        yield bodies
        stats.initialize(factory=NoStatsLogger, export_legacy_names=False)
        otel_metrics.get_meter_provider().shutdown()
        server.shutdown()
        thread.join()


def received(bodies: list[bytes]) -> dict[tuple[str, str], Any]:
    """(name, verdict) -> value and the other tags."""
    otel_metrics.get_meter_provider().force_flush()
    found: dict[tuple[str, str], Any] = {}
    for body in bodies:
        request = ExportMetricsServiceRequest.FromString(body)
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    for point in data.data_points:
                        tags = {each.key: each.value.string_value for each in point.attributes}
                        value = (
                            point.sum
                            if hasattr(point, "sum")
                            else getattr(point, point.WhichOneof("value"))
                        )
                        found[metric.name, tags.pop("verdict", "")] = (value, tags)
    return found


def test_a_judged_run_is_counted_by_verdict(collected: list[bytes]) -> None:
    started = datetime(2026, 11, 22, tzinfo=UTC)
    run = Run("demo-1", "demo", "lab", RunKind.NIGHTLY, started)
    kinds = (VerdictKind.OK, VerdictKind.OK, VerdictKind.REGRESSED)
    verdicts = tuple(
        Verdict(f"case-{k}", "lab", "demo-1", kind, "") for k, kind in enumerate(kinds)
    )
    result = JudgeResult(
        verdicts, verdicts[2:], ("case-9",), (Delivery("alerts[0] slack", False, "refused"),)
    )
    count_judged(run, result, timedelta(seconds=2))
    count_loaded(3, timedelta(seconds=1))
    found = received(collected)
    assert found["airflow.nightbench.verdicts", "ok"] == (2, TAGS)
    assert found["airflow.nightbench.verdicts", "regressed"] == (1, TAGS)
    assert found["airflow.nightbench.alerts_opened", ""] == (1, TAGS)
    assert found["airflow.nightbench.alerts_resolved", ""] == (1, TAGS)
    assert found["airflow.nightbench.messages_refused", ""] == (1, TAGS)
    assert found["airflow.nightbench.judge_duration", ""] == (2000.0, TAGS)
    assert found["airflow.nightbench.runs_loaded", ""] == (3, {})
    assert found["airflow.nightbench.load_duration", ""] == (1000.0, {})
