"""The Airflow DAG `nightbench_deadlines`: reports missing nights."""

from nightbench.orchestration.deadlines_dag import deadlines_dag

dag = deadlines_dag()
