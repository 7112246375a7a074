"""The Airflow DAG `nightbench_deadlines`: tells of nights that are missing."""

from nightbench.orchestration.deadlines_dag import deadlines_dag

dag = deadlines_dag()
