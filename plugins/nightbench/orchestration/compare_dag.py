"""The DAG `nightbench_compare`: measures what people request, in the gaps between nights."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task

from nightbench.config import locations
from nightbench.config.compare_builds import FORMS
from nightbench.config.locations import find_clusters
from nightbench.config.suite_heads import suite_names
from nightbench.core.errors import UserError
from nightbench.orchestration.connections import connect
from nightbench.orchestration.dag_common import (
    dag_run_state,
    experiment_context,
    is_last_try,
    measured,
    optional,
    optional_names,
    our_dag,
    switch,
    user_errors_fail_task,
)

if TYPE_CHECKING:
    from nightbench.experiments.compare_requests import Gap
    from nightbench.warehouse.compare_queue import CompareQueue

DAG_ID = "nightbench_compare"
RUNS_AT_ONCE = 4
"""DAG runs that measure, each on another cluster, or that look whether there is anything."""

TIMEOUT = timedelta(hours=23)

DOC = """\
### Two builds beside each other, before a merge

**Trigger** asks for two builds of a framework line and a suite, and puts the request into the
queue, as `POST /nightbench/api/comparisons` does. Every five minutes, and at once after a form, the
next one of each cluster is measured as `nightbench ab` does: nights go first, then the higher
priority, then whoever measured least, then the oldest. A task that was ended goes on where it was
when it is cleared, or in the next DAG run.
"""

log = logging.getLogger(__name__)


def compare_dag() -> DAG:
    """Return the DAG that measures the queue of requested comparisons."""
    with our_dag(
        DAG_ID,
        schedule="*/5 * * * *",
        max_active_runs=RUNS_AT_ONCE,
        dagrun_timeout=TIMEOUT,
        params=_form(),
        # It measures only what a person has requested; paused, their requests would wait.
        is_paused_upon_creation=False,
        description="Measures two builds beside each other, as people request it",
        doc_md=DOC,
        tags=["verdicts"],
    ) as dag:
        compare()
    return dag


def _form() -> dict[str, Param]:
    suites = suite_names(locations.dags_folder())
    clusters = list(find_clusters(locations.dags_folder()))
    reference = f"The reference: {FORMS}. Empty beside a commit: where it left its branch."
    return {
        "a": optional("string", "Build A", reference),
        "b": optional("string", "Build B", "The candidate, of the same line."),
        "suite": optional("string", "Suite", "Of the cases.", examples=suites),
        "cluster": optional("string", "Cluster", "Empty: the suite's own.", examples=clusters),
        "cases": optional_names("Cases", "Slugs. Empty: all of the line in the suite."),
        "rounds": Param(7, type="integer", minimum=3, maximum=1000, title="Rounds", section="How"),
        "min_effect": Param(
            0.01,
            type="number",
            minimum=0.0001,
            maximum=0.5,
            title="Smallest effect",
            description="A fraction: 0.01 for 1 %.",
            section="How",
        ),
        "budget_s": optional(
            "number", "Seconds at most", "Empty: as long as the rounds take.", section="How"
        ),
        "priority": Param(
            "normal", type="string", enum=["high", "normal", "low"], title="Priority", section="How"
        ),
        "note": optional("string", "Note", "In words.", section="Why"),
        "change_url": optional(
            "string", "URL of the change", "A newer request of it replaces this.", section="Why"
        ),
        "change_commit": optional("string", "Commit of the change", "Its hash.", section="Why"),
        "profile": switch("Profile", "Then both once more under a profiler.", section="How"),
        "fork": switch("From a fork", "It waits until an op allows it.", section="Why"),
    }


@task(
    retries=2,
    execution_timeout=TIMEOUT,
    doc_md="Queues the form's request, then measures the queue; a retry goes on where it was.",
)
def compare(**context: Any) -> list[dict[str, Any]]:
    """Queue what the form asks for, and measure what is next until nothing is."""
    run, params = context["dag_run"], context["params"]
    with user_errors_fail_task():
        if any(params.get(name) for name in ("a", "b", "suite")):
            request_id = _request(params, run.triggering_user_name or "airflow", run.run_id)
            log.info("comparison %d is in the queue", request_id)
        return _measure_queue(run.run_id, dag_run_state(context), last_try=is_last_try(context))


def _request(params: Mapping[str, Any], by: str, dag_run_id: str) -> int:
    """Put the form's request into the queue; the number that it has where a retry does so again."""
    from nightbench.experiments.compare_requests import CompareGoal, checked_goal
    from nightbench.spool import open_spool
    from nightbench.warehouse import MoveRefused
    from nightbench.warehouse.compare_queue import CompareDesk

    try:
        goal = CompareGoal.from_params(dict(params))
        row = checked_goal(goal, connect, open_spool())
        with closing(connect()) as connection:
            return CompareDesk(connection, by).request(row, dag_run_id)
    except UserError as error:
        for_good = isinstance(error, MoveRefused) or not _of_warehouse(error)
        with user_errors_fail_task(for_good=for_good):
            raise


def _of_warehouse(error: UserError) -> bool:
    from nightbench.core.errors import WarehouseRefused, WarehouseUnavailable

    return isinstance(error, (WarehouseRefused, WarehouseUnavailable))


def _measure_queue(
    dag_run_id: str, state_of: Callable[[str, str], str | None], *, last_try: bool
) -> list[dict[str, Any]]:
    from nightbench.experiments.compare_requests import take
    from nightbench.night.scheduled_suites import scheduled_suites
    from nightbench.spool import open_spool

    spool, measured = open_spool(), []
    while taken := take(
        connect, spool, dag_run_id, lambda run_id: state_of(DAG_ID, run_id), scheduled_suites
    ):
        row, gap = taken
        state = _measure(row, gap, dag_run_id, last_try=last_try)
        measured.append({"request_id": row["request_id"], "state": state})
        if state == "queued":
            break  # It would be the next one again.
    return measured


def _measure(row: Mapping[str, Any], gap: Gap, dag_run_id: str, *, last_try: bool) -> str:
    """Measure a comparison, store how it ended, and return its state."""
    from nightbench.experiments.compare_measuring import (
        NotMeasured,
        early_end,
        measure_request,
        outcome,
    )
    from nightbench.experiments.reporting import ComparisonReporter
    from nightbench.gang import EnvironmentUnavailable, NodeError
    from nightbench.spool import open_spool

    log.info(
        "comparison %d of %s: A %s, B %s, suite %s on %s",
        *(row[name] for name in ("request_id", "requested_by", "a", "b", "suite", "cluster")),
    )
    spool, noted = open_spool(), _Noted(row["request_id"], dag_run_id)
    reporter = ComparisonReporter(log.info, all_events=True)
    document = None
    if gap.why_not:
        state, why = "queued", gap.why_not
    else:
        try:
            context = experiment_context(row["suite"], row["cluster"], until=_until(row, gap))
            work = measure_request(dict(row), spool, context, reporter, noted.cancelled_by)
            document = measured(work, reporter.refresh)
            state, why = outcome(dict(row), document, spool, noted.whole_s())
        except NotMeasured as ended:
            state, why = ended.state, str(ended)
        except UserError as error:
            permanent = isinstance(error, EnvironmentUnavailable) or not isinstance(
                error, NodeError
            )
            if _of_warehouse(error) or not (permanent or last_try):
                raise
            log.error("%s", error)
            state, why = "failed", f"{_in_public(error)}\n{error}"
            if row["profile"] == "after":  # Its result stands.
                early = early_end(dict(row), row["result"])
                state, why = "done", "; ".join(filter(None, (early, f"no profile: {why}")))
    noted.leave(state, why, document)
    log.info("comparison %d: %s %s", row["request_id"], state, why)
    return state


def _until(row: Mapping[str, Any], gap: Gap) -> Any:
    from datetime import UTC, datetime

    ends = [gap.until] if gap.until else []
    # A profile comes on top of the budget: an end by it would leave nothing for the profile.
    if row["budget_s"] is not None and row["profile"] != "after":
        left_s = max(0.0, row["budget_s"] - row["spent_s"])
        ends.append(datetime.now(UTC) + timedelta(seconds=left_s))
    return min(ends, default=None)


def _in_public(error: UserError) -> str:
    """Return what a comment on a change may say of a failure: nothing of nodes and folders."""
    from nightbench.gang import EnvironmentUnavailable, NodeError
    from nightbench.gang.commits import CommitFailed

    if isinstance(error, CommitFailed):
        return f"{error.commit} could not be built"
    if isinstance(error, EnvironmentUnavailable):
        return "a build could not be installed on the nodes"
    if isinstance(error, NodeError):
        return "a node of the cluster failed"
    return "it could not be begun"


@dataclass
class _Noted:
    """What a request has taken so far: noted as it goes, so that a killed worker's counts too."""

    request_id: int
    dag_run_id: str
    began_s: float = field(default_factory=time.monotonic)
    noted_s: float = 0.0

    def whole_s(self) -> float:
        """Return the seconds since its measuring began here."""
        return time.monotonic() - self.began_s

    def cancelled_by(self) -> str | None:
        """Note what it has taken, and return who cancelled it."""
        with self._compares() as compares:
            whole_s = self.whole_s()
            compares.spend(self.request_id, self.dag_run_id, whole_s - self.noted_s)
            self.noted_s = whole_s
            (now,) = compares.find(self.request_id)
        return None if now["cancelled_by"] is None else str(now["cancelled_by"])

    def leave(self, state: str, why: str, document: Mapping[str, Any] | None) -> None:
        """Store how it ended, or that it waits again."""
        left_s = self.whole_s() - self.noted_s
        with self._compares() as compares:
            compares.leave(
                self.request_id, self.dag_run_id, state, spent_s=left_s, why=why, result=document
            )

    @contextmanager
    def _compares(self) -> Iterator[CompareQueue]:
        from nightbench.warehouse import opened

        with opened(connect) as warehouse:
            yield warehouse.compares
