"""What the JSON API answers about runs."""

from __future__ import annotations

from datetime import datetime

from nightbench.web.ui_models import ApiModel


class RunRow(ApiModel):
    """A run, with how many of its cases ended in which way."""

    run_id: str
    suite: str
    cluster: str
    run_kind: str
    started_at: datetime
    loaded_at: datetime | None
    requested_by: str | None
    dag_id: str | None
    dag_run_id: str | None
    code_digest: str | None
    is_imported: bool
    planned: int
    measured: int
    failed: int
    quarantined: int
    left_out: int


class RunPage(ApiModel):
    """A page of runs, newest first."""

    items: list[RunRow]
    page: int
    size: int
    has_more: bool


class RunCase(ApiModel):
    """What came of a planned case in a run."""

    case_id: str
    cluster: str
    state: str
    """Its verdict, or why it has none: failed, quarantined, missing, left_out, …"""
    sentences: list[str]
    error: str | None
    """End of the traceback of the last repeat that failed."""
    framework_version: str | None
    build_id: str | None
    is_private_build: bool
    throughput: float | None
    unit: str | None
    n: int
    minimum: float | None
    maximum: float | None
    spread: float | None
    speedup: float | None
    efficiency: float | None
    baseline: float | None
    change: float | None
    level_change: float | None
    change_low: float | None
    change_high: float | None
    smallest_slowdown: float | None
    alert_id: int | None
    alert_change: float | None
    noisy: str | None
    drift: float | None


class RunResults(ApiModel):
    """A run with its cases."""

    run: RunRow
    cases: list[RunCase]


class RepeatResult(ApiModel):
    """One launch of a case's gang."""

    generation: int
    repeat: int
    started_at: datetime | None
    status: str
    is_quarantined: bool
    sentences: list[str]
    """Why it does not count."""
    throughput: float | None
    window_s: float | None
    steps: int | None
    median_step_s: float | None
    overlap: float | None
    drift: float | None
    time_to_first_step_s: float | None
    peak_resident_bytes: int | None
    sent_bytes_per_step: float | None
    data_wait_s: float | None
    loss_first: float | None
    loss_median: float | None
    error: str | None


class DagRunRun(ApiModel):
    """The run that a DAG run made; null where it made none, or none yet."""

    run_id: str | None
