"""What Airflow hands to an operator's `execute`, as far as ours look at it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Store(dict[str, Any]):
    """Airflow's task state store, as far as the operators use it."""

    def set(self, key: str, value: Any, **_: Any) -> None:
        self[key] = value


def context(run_type: str = "scheduled", max_tries: int = 1, store: Store | None = None) -> Any:
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        max_tries=max_tries, try_number=1, xcom_push=lambda key, value: pushed.update({key: value})
    )
    return {
        "dag_run": SimpleNamespace(
            run_type=run_type, triggering_user_name=None, dag_id="d", run_id="r"
        ),
        "ti": ti,
        "task_state_store": Store() if store is None else store,
        "params": {},
        "pushed": pushed,
    }
