"""All DAGs, for the one DAG file of a project or a checkout."""

import os
from pathlib import Path

from airflow.sdk import DAG

from nightbench.config.airflow_provider import variable
from nightbench.orchestration.accept_dag import accept_dag
from nightbench.orchestration.experiments_dag import experiments_dag
from nightbench.orchestration.suite_dags import nightly_dags, on_demand_dag
from nightbench.orchestration.upkeep_dags import upkeep_dag
from nightbench.orchestration.verdict_dags import verdicts_dag


def project_dags(project: Path) -> dict[str, DAG]:
    """The DAGs by dag_id of the folder with `suites/` and `clusters/`.

    The process that has parsed the DAG file, and what it starts, takes this project's suites,
    clusters, lines and workloads. A task of a versioned bundle takes those of its own version.
    """
    os.environ[variable("dags")] = str(project)
    dags = [
        *(accept_dag(), experiments_dag(), on_demand_dag(), upkeep_dag(), verdicts_dag()),
        *nightly_dags().values(),
    ]
    return {dag.dag_id: dag for dag in dags if dag is not None}
