"""The Airflow DAG `nightbench_maintenance`: retention, waiting runs, orphans on the nodes."""

from nightbench.orchestration.upkeep_dags import maintenance_dag

dag = maintenance_dag()
