"""The Airflow DAG `nightbench_compare`: two builds beside each other, from its form or a queue."""

from nightbench.orchestration.compare_dag import compare_dag

dag = compare_dag()
