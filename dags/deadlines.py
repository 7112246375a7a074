"""The Airflow DAG `nightbench_deadlines`: reports missing nights."""

from nightbench.orchestration.upkeep_dags import deadlines_dag

dag = deadlines_dag()
