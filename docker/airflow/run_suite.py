"""Run a suite through Airflow's REST API and wait for its end; the medians are shown after it.

docker compose exec api-server python run_suite.py demo --cluster compose
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from nightbench.core.errors import UserError
from nightbench.local.airflow_api import AirflowApi

PASSWORDS = Path("/run/secrets/ui_passwords")
POLL_S = 5.0
LINES = 12
"""Lines from the log of a failed task."""
WAIT_S = 120.0
"""For the DAGs to be read after a start."""


def main() -> int:
    """Return the exit status: 0 where the run succeeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite")
    parser.add_argument("--cluster")
    parser.add_argument("--case", action="append", dest="cases", help="only this; may be repeated")
    options = parser.parse_args()
    conf = {"suite": options.suite, "cluster": options.cluster, "cases": options.cases}
    password = json.loads(PASSWORDS.read_text(encoding="utf-8"))["admin"]
    try:
        with AirflowApi("http://127.0.0.1:8080", "admin", password) as api:
            return _run(api, {key: value for key, value in conf.items() if value})
    except UserError as error:
        print(error, file=sys.stderr)
        return 1


def _run(api: AirflowApi, conf: dict[str, object]) -> int:
    _wait_for_dag(api)
    api.unpause("on_demand")
    api.unpause("nightbench_verdicts")
    dag_run, began = api.trigger("on_demand", conf), time.monotonic()
    said = ""
    while True:
        state = str((api.dag_run("on_demand", dag_run) or {})["state"])
        tasks = api.task_instances("on_demand", dag_run)
        ended = sum(task["state"] in ("success", "failed", "skipped") for task in tasks)
        line = f"{dag_run}: {state}, {ended} of {len(tasks)} tasks have ended"
        if line != said:
            said = line
            print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)
        if state == "failed":
            _tell_failures(api, dag_run, tasks)
        if state in ("success", "failed"):
            return 0 if state == "success" else 1
        time.sleep(POLL_S)


def _tell_failures(api: AirflowApi, dag_run: str, tasks: list[dict[str, Any]]) -> None:
    """Print the ends of the logs of tasks that failed."""
    for task in tasks:
        name, tries = str(task["task_id"]), int(task.get("try_number") or 0)
        if task["state"] != "failed" or tries == 0:
            continue
        print(f"task {name} {task.get('rendered_map_index') or ''} failed:", file=sys.stderr)
        lines = api.log_tail("on_demand", dag_run, name, tries, int(task["map_index"]), LINES)
        for line in lines:
            if line.strip() and not line.startswith("::"):
                print(f"    {line}", file=sys.stderr)


def _wait_for_dag(api: AirflowApi) -> None:
    deadline = time.monotonic() + WAIT_S
    while api.dag("on_demand") is None:
        if errors := api.import_errors():
            raise UserError("\n".join(errors.values()))
        if time.monotonic() > deadline:
            raise UserError(
                "Airflow shows no DAG on_demand. Look at: docker compose logs dag-processor"
            )
        time.sleep(2)


if __name__ == "__main__":
    sys.exit(main())
