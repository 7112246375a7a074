"""Nightbench's own metrics, sent where Airflow sends its own (StatsD, OpenTelemetry or nowhere)."""

from collections import Counter
from datetime import timedelta

from airflow.sdk.observability.stats import Stats

from nightbench.core.model import Run
from nightbench.night.judge import JudgeResult


def count_judged(run: Run, result: JudgeResult, duration: timedelta) -> None:
    """Send what the verdicts of a run were, what alerts did, and how long judging took."""
    tags = {"suite": run.suite, "cluster": run.cluster, "run_kind": run.run_kind.value}
    for kind, count in Counter(verdict.kind.value for verdict in result.verdicts).items():
        Stats.incr("nightbench.verdicts", count, tags={**tags, "verdict": kind})
    Stats.incr("nightbench.alerts_opened", len(result.opened), tags=tags)
    Stats.incr("nightbench.alerts_resolved", len(result.resolved), tags=tags)
    refused = sum(not each.sent for each in result.deliveries)
    Stats.incr("nightbench.messages_refused", refused, tags=tags)
    Stats.timing("nightbench.judge_duration", duration, tags=tags)


def count_loaded(runs: int, duration: timedelta) -> None:
    """Send how many runs one task loaded, and how long that took."""
    Stats.incr("nightbench.runs_loaded", runs)
    Stats.timing("nightbench.load_duration", duration)
