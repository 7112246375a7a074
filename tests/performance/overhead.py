"""What Nightbench adds around the measuring: between two repeats, and before the first launch.

    python -m tests.performance overhead [--nodes 2] [--repeats 5] [--no-airflow]

The second part starts a whole Airflow of its own, in a home of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
from datetime import datetime
from typing import Any

from tests.performance.ground import Ground, ground, say

from nightbench.core.model import CaseStatus, JobSpec, Protocol
from nightbench.gang import prepare, run_gang


def between_repeats(field: Ground, repeats: int) -> bool:
    """From the end of a repeat on the last node to the next launch on the last node."""
    job = field.job(
        "figures-gaps", field.nodes, len(field.nodes), protocol=Protocol(2, 20, repeats)
    )

    async def run() -> bool:
        await prepare(job, field.targets, field.shipment)
        outcome = await run_gang(job, field.targets, field.store(job))
        return outcome.status is CaseStatus.OK

    good = asyncio.run(run())
    exits, ends, launches = (_moments(field, job, event) for event in ("exit", "result", "launch"))
    gaps = [launches[k + 1] - ends[k] for k in range(1, repeats)]
    say("last process ended to its result on the node", _median(ends, exits), "s")
    say(
        "repeat's end to the next launch, median", statistics.median(gaps), "s", "(wanted: under 1)"
    )
    say("repeat's end to the next launch, worst", max(gaps), "s", "(wanted: under 1)")
    return good


def _median(later: dict[int, float], sooner: dict[int, float]) -> float:
    return statistics.median(later[k] - sooner[k] for k in later)


def _moments(field: Ground, job: JobSpec, event: str) -> dict[int, float]:
    """Repeat -> the last such event on any node, on the one monotonic clock of this machine."""
    found: dict[int, float] = {}
    for node in job.nodes:
        for entry in field.agent_log(job, node.name):
            if entry["event"] == event:
                found[entry["repeat"]] = max(found.get(entry["repeat"], 0.0), entry["t_s"])
    return found


def before_the_first_launch() -> bool:
    """From a DAG run's start to the launch of its first gang."""
    from tests.integration.live_airflow import live_airflow

    with live_airflow({"quick": {"devices": "2x1"}}) as live:
        # The first run pays for what is brought to the nodes once; both are shown.
        for which in ("first run on new nodes", "second run"):
            dag_run = live.trigger("quick")
            run = live.run_of(dag_run)
            if live.ended(dag_run) != "success":
                return False
            entry = live.api.dag_run("on_demand", dag_run) or {}
            tasks = {t["task_id"]: t for t in live.api.task_instances("on_demand", dag_run)}
            began = _date(entry["start_date"])
            store = run.latest(run.planned()[0]["case_id"])
            assert store is not None
            first = store.repeat(1) or {}
            logs = live.stack.home.cluster.glob(
                f"*/.nightbench-node/jobs/{run.run_id}/*/*/*/agent.jsonl"
            )
            launched = min(_launch(log.read_text(encoding="utf-8")) for log in logs)
            say(f"{which}: asked for to DAG run's start", _gap(entry["queued_at"], began), "s")
            for name in ("plan", "measure"):
                task = tasks[name]
                say(f"{which}: DAG run's start to {name}", _since(began, task["start_date"]), "s")
            say(f"{which}: DAG run's start to repeat 1", _since(began, first["started_at"]), "s")
            say(
                f"{which}: DAG run's start to the first launch",
                launched - began.timestamp(),
                "s",
                "(wanted: under 20)",
            )
    return True


def _launch(log: str) -> float:
    """When the first process was launched; the log has whole seconds: at most 1 s off."""
    events = [json.loads(line) for line in log.splitlines()]
    at = next(event["at"] for event in events if event["event"] == "launch")
    return _date(at).timestamp()


def _date(text: Any) -> datetime:
    return datetime.fromisoformat(str(text))


def _since(began: datetime, text: Any) -> float:
    return (_date(text) - began).total_seconds()


def _gap(text: Any, later: datetime) -> float:
    return (later - _date(text)).total_seconds()


def main(words: list[str]) -> int:
    """The command line; 1 where a gang did not end well."""
    parser = argparse.ArgumentParser(prog="tests.performance overhead", description=__doc__)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--airflow", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args(words)
    with contextlib.ExitStack() as stack:
        field = stack.enter_context(ground(options.nodes))
        good = between_repeats(field, options.repeats)
    if options.airflow:
        good = before_the_first_launch() and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
