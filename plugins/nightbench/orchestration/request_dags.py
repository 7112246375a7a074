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

from nightbench.config import locations
from nightbench.config.locations import find_clusters
from nightbench.config.suite_heads import framework_names
from nightbench.orchestration.connections import connect
from nightbench.orchestration.dag_common import (
    optional_names,
    our_dag,
    switch,
    user_errors_fail_task,
)

if TYPE_CHECKING:
    from nightbench.night.cluster_preflight import ClusterHealth
    from nightbench.nodes import NodeState

log = logging.getLogger(__name__)

# --- acceptance -------------------------------------------------------------------------------

ACCEPT_TIMEOUT = timedelta(hours=23)

ACCEPT_DOC = """\
### Which modes work on a cluster

**Trigger** names a cluster: its nodes are examined and measured, then every mode of every framework
line is tried there that is due. What passes is no longer untried there. A task that was ended goes
on where it was when it is cleared or retried. It fails where a mode fails; each mode's verdict
stands in its log, and in `nightbench accept CLUSTER --dry-run`.
"""


def accept_dag() -> DAG | None:
    """Return the DAG with the form; None where there is no cluster to offer."""
    clusters = list(find_clusters(locations.dags_folder()))
    if not clusters:
        return None
    with our_dag(
        "nightbench_accept",
        schedule=None,
        dagrun_timeout=ACCEPT_TIMEOUT,
        params=_acceptance_form(clusters),
        # It runs only when somebody fills in its form.
        is_paused_upon_creation=False,
        description="Tries every mode of every framework line on a cluster",
        doc_md=ACCEPT_DOC,
        tags=["on demand"],
    ) as dag:
        accept()
    return dag


def _acceptance_form(clusters: list[str]) -> dict[str, Param]:
    lines = framework_names(locations.benchmarks_folder(), locations.dags_folder())
    return {
        "cluster": Param(
            clusters[0],
            type="string",
            enum=clusters,
            title="Cluster",
            description="Where: a file of dags/clusters.",
        ),
        "lines": optional_names(
            "Lines", "Only these framework lines. Empty: all.", examples=list(lines)
        ),
        "modes": optional_names("Modes", "Only these modes, `single bf16` say. Empty: all."),
        "again": switch("Again", "Try also what holds from an earlier acceptance."),
        "untried": switch(
            "Untried modes", "Try also what nobody has run on such devices.", on=True
        ),
        "outside_hours": switch(
            "Outside the hours", "Measure also when the cluster's hours do not hold."
        ),
    }


@task(
    retries=2,
    execution_timeout=ACCEPT_TIMEOUT,
    doc_md="One long task: a retry, or a person who clears it, tries the modes that are left.",
)
def accept(**context: Any) -> dict[str, int]:
    """Try the configurations that must be retested; return their number by state."""
    with user_errors_fail_task():
        return _accept(context["dag_run"], context["params"])


def log_nodes(health: ClusterHealth, states: Mapping[str, NodeState]) -> None:
    """Write findings and control measurements of the nodes into the task's log."""
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
    from nightbench.config import load_catalog
    from nightbench.config.clusters import cluster_of
    from nightbench.night import acceptance_run
    from nightbench.orchestration.ssh_targets import ssh_targets
    from nightbench.report.live_view import LiveView
    from nightbench.spool import open_spool

    catalog = load_catalog()
    with user_errors_fail_task(for_good=True):
        cluster = cluster_of(params["cluster"], catalog)
        cells = acceptance_run.chosen_cells(
            params.get("lines") or (),
            params.get("modes") or (),
            cluster,
            catalog,
            untried=bool(params["untried"]),
        )
    context = acceptance_run.AcceptanceContext(
        cluster,
        catalog,
        ssh_targets(cluster),
        connect,
        open_spool(),
        dag_run.triggering_user_name or getpass.getuser(),
        outside_hours=bool(params["outside_hours"]),
        dag_id=dag_run.dag_id,
        dag_run_id=dag_run.run_id,
    )
    acceptance_run.close_interrupted(cluster.name, context.spool, connect)
    # The same moment for every try, so that a retry goes on.
    again = dag_run.run_after if params["again"] else None
    observer = acceptance_run.AcceptanceObserver(
        log.info, log_nodes, lambda folder: LiveView(folder, log.info, all_events=True)
    )
    ended = acceptance_run.try_modes(cells, context, observer, again=again)
    if ended.interrupted:
        raise AirflowException("ended from outside; a retry tries the modes that are left")
    states = context.states(cells)
    for state in states:
        where = state.cell.devices or "-"
        ratio = state.known.beside_plain_loop if state.known else ""
        said = (state.reason, ratio and f"{ratio} of a plain loop")
        log.info(
            "%s %s %s: %s %s",
            state.cell.line,
            state.cell.mode,
            where,
            state.outcome,
            "; ".join(filter(None, said)),
        )
    counts = Counter(state.outcome for state in states)
    if counts["failed"] or ended.short:
        raise AirflowFailException(
            f"cluster {cluster.name}: {counts['failed']} modes failed, "
            f"{len(ended.short)} controls fall short; nightbench accept "
            f"{cluster.name} --dry-run says which, and why"
        )
    return dict(counts)
