"""The Airflow DAG `nightbench_maintenance`: retention, waiting runs, orphans on the nodes."""

from nightbench.orchestration.maintenance_dag import maintenance_dag

dag = maintenance_dag()
