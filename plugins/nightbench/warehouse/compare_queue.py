"""The queue of comparisons that people requested, and what came of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg2.errors
from psycopg2.extras import Json

from nightbench.warehouse.alerts import LARGEST, MoveRefused
from nightbench.warehouse.connection import Connection
from nightbench.warehouse.repository import Repository, Row

QUEUE = "queue of comparisons"
"""Lock of whoever takes a comparison, and of `triage.request_compare`."""


class CompareQueue(Repository):
    """Requested comparisons as whoever measures them takes and ends them."""

    def find(
        self,
        request_id: int | None = None,
        states: Sequence[str] | None = None,
        requested_by: str | None = None,
        limit: int = 1000,
    ) -> list[Row]:
        """Rows of `marts.fct_compare_request`, newest first."""
        if request_id is not None and request_id > LARGEST:
            return []
        return self.read(
            "compare_requests",
            request_id=request_id,
            states=states,
            requested_by=requested_by,
            max_rows=limit,
        )

    def spent(self) -> dict[tuple[str, str], float]:
        """(cluster, person) -> seconds that comparisons of the last 24 hours have measured."""
        rows = self.read("compare_spent")
        return {(row["cluster"], row["requested_by"]): row["spent_s"] for row in rows}

    def begin(self, request_id: int, comparison_id: str, dag_run_id: str) -> bool:
        """Take a queued comparison; False where it was taken, or another runs on its cluster."""
        row = {
            "request_id": request_id,
            "comparison_id": comparison_id,
            "dag_run_id": dag_run_id,
        }
        with self._transaction(f"begin comparison {request_id}"):
            self._lock_for_transaction(QUEUE)
            return self._write("begin_compare", row) > 0

    def adopt(self, request_id: int, was: str, dag_run_id: str) -> bool:
        """Go on with a comparison of a DAG run that has ended; False where another one does."""
        row = {"request_id": request_id, "was": was, "dag_run_id": dag_run_id}
        return self._do(f"go on with comparison {request_id}", "adopt_compare", **row) > 0

    def spend(self, request_id: int, dag_run_id: str, seconds: float) -> None:
        """Note that a running comparison has taken so much more, if it is ours."""
        row = {"request_id": request_id, "dag_run_id": dag_run_id, "spent_s": seconds}
        self._do(f"note what comparison {request_id} has taken", "spend_compare", **row)

    def leave(
        self,
        request_id: int,
        dag_run_id: str,
        state: str,
        *,
        spent_s: float,
        why: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> bool:
        """End a running comparison, or put it back (`queued`); False where it is not ours."""
        row = {
            "request_id": request_id,
            "dag_run_id": dag_run_id,
            "state": state,
            "why": why,
            "result": None if result is None else Json(dict(result)),
            "spent_s": spent_s,
        }
        return self._do(f"end comparison {request_id}", "leave_compare", **row) > 0


class CompareDesk(Repository):
    """Requests and cancels comparisons in the name of a person; each call is one transaction.

    Raises `MoveRefused` where there is no such comparison, or its state does not allow it.
    """

    def __init__(self, connection: Connection, by: str) -> None:
        super().__init__(connection)
        self._by = by

    def request(self, request: Mapping[str, Any], origin: str | None = None) -> int:
        """Request a comparison and return its number; that of the same request if there is one."""
        asked = (self._by, origin, Json(request))
        return int(self._call("request_compare", "request a comparison", *asked))

    def move(self, request_id: int, to: str, why: str = "") -> str:
        """Make a comparison cancelled, or one of a fork queued or refused; the state before."""
        if request_id > LARGEST:
            raise MoveRefused(f"There is no comparison {request_id}.")
        doing = f"change comparison {request_id}"
        return str(self._call("move_compare", doing, request_id, to, self._by, why))

    def _call(self, name: str, doing: str, *given: Any) -> Any:
        try:
            with self._transaction(doing):
                return self._function(f"triage.{name}", *given)
        except psycopg2.errors.RaiseException as error:
            raise MoveRefused(f"Cannot {doing}: {error.diag.message_primary}.") from error
