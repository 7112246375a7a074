"""What Airflow hands to an operator's `execute`, as far as ours look at it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def context(run_type: str = "scheduled", max_tries: int = 1) -> Any:
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        max_tries=max_tries, try_number=1, xcom_push=lambda key, value: pushed.update({key: value})
    )
    return {
        "dag_run": SimpleNamespace(
            run_type=run_type, triggering_user_name=None, dag_id="d", run_id="r"
        ),
        "ti": ti,
        "params": {},
        "pushed": pushed,
    }
