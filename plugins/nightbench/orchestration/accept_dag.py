"""The DAG `nightbench_accept`: what the command does, from a form."""

from __future__ import annotations

import getpass
import logging
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from nightbench.config import load_catalog, locations
from nightbench.config.clusters import cluster_of
from nightbench.config.experiment_requests import AcceptRequest
from nightbench.config.locations import find_clusters
from nightbench.config.suite_heads import framework_names
from nightbench.config.validate import checked
from nightbench.orchestration.connections import connect
from nightbench.orchestration.dag_common import form, our_dag, user_errors_fail_task
from nightbench.spool import open_spool

if TYPE_CHECKING:
    from nightbench.night.cluster_preflight import ClusterHealth
    from nightbench.nodes import NodeState

log = logging.getLogger(__name__)

ACCEPT_TIMEOUT = timedelta(hours=23)

ACCEPT_DOC = """\
### Test which configurations work on a cluster

**Trigger** names a cluster. The DAG checks and measures its nodes, then tries every configuration
of every framework line that must be retested there. A configuration that passes is no longer
untried on the cluster. If the task is cleared or retried, it continues with the remaining
configurations. The task fails if a configuration failed. Its log and `nightbench accept CLUSTER
--dry-run` have each outcome.
"""


def accept_dag() -> DAG | None:
    """Return the DAG with the form; None if there is no cluster to offer."""
    clusters = list(find_clusters(locations.dags_folder()))
    if not clusters:
        return None
    with our_dag(
        "nightbench_accept",
        schedule=None,
        dagrun_timeout=ACCEPT_TIMEOUT,
        params=_form(clusters),
        # It runs only when somebody fills in its form.
        is_paused_upon_creation=False,
        description="Tries every configuration of every framework line on a cluster",
        doc_md=ACCEPT_DOC,
        tags=["on demand"],
    ) as dag:
        accept()
    return dag


def _form(clusters: list[str]) -> dict[str, Param]:
    lines = framework_names(locations.benchmarks_folder(), locations.dags_folder())
    return form(
        AcceptRequest,
        {
            "cluster": {"default": clusters[0], "enum": clusters},
            "lines": {"examples": list(lines)},
        },
    )


@task(
    retries=2,
    execution_timeout=ACCEPT_TIMEOUT,
    doc_md="One long task; if it is retried or cleared, it tries the remaining configurations.",
)
def accept(**context: Any) -> dict[str, int]:
    """Try the configurations that must be retested; return their number by outcome."""
    with user_errors_fail_task():
        return _accept(context["dag_run"], context["params"])


def log_nodes(health: ClusterHealth, states: Mapping[str, NodeState]) -> None:
    """Write the findings about the nodes, and their control measurements, into the task's log."""
    for node in health.nodes:
        for finding in node.findings:
            log.info("%s: %s: %s", node.seen.node, finding.title, finding.found)
    for between in health.between:
        log.warning("%s: %s", between.title, between.found)
    for name, state in states.items():
        if state.quarantined:
            log.warning("%s is in quarantine", name)
    for each in health.controls:
        log.info(
            "%s %s on %s: %.4g %s", each.node, each.metric, each.device, each.median, each.unit
        )


def _accept(dag_run: Any, params: Mapping[str, Any]) -> dict[str, int]:
    from nightbench.accept import measuring
    from nightbench.orchestration.ssh_targets import ssh_targets
    from nightbench.report.live_view import LiveView

    catalog = load_catalog()
    with user_errors_fail_task(for_good=True):
        request = checked(AcceptRequest, params)
        cluster = cluster_of(request.cluster, catalog)
        cells = measuring.chosen_cells(
            request.lines, request.modes, cluster, catalog, untried=request.untried
        )
    context = measuring.AcceptanceContext(
        cluster,
        catalog,
        ssh_targets(cluster),
        connect,
        open_spool(),
        dag_run.triggering_user_name or getpass.getuser(),
        outside_hours=request.outside_hours,
        dag_id=dag_run.dag_id,
        dag_run_id=dag_run.run_id,
    )
    # The same moment for every try, so that a retry goes on.
    again = dag_run.run_after if request.again else None
    observer = measuring.AcceptanceObserver(
        log.info, log_nodes, lambda folder: LiveView(folder, log.info, all_events=True)
    )
    ended = measuring.try_modes(cells, context, observer, again=again)
    if ended.interrupted:
        raise AirflowException("ended from outside; a retry tries the remaining configurations")
    for state in ended.states:
        log.info(
            "%s %s %s: %s %s",
            state.cell.line,
            state.cell.mode,
            state.cell.devices or "-",
            state.outcome,
            state.reason or "",
        )
    counts = Counter(state.outcome for state in ended.states)
    if not ended.good:
        raise AirflowFailException(
            f"cluster {cluster.name}: {counts['failed']} configurations failed, {len(ended.short)} "
            f"control measurements are too low; `nightbench accept {cluster.name} --dry-run` "
            "lists all with the reasons"
        )
    return dict(counts)
