"""The Airflow DAG `nightbench_experiments`: comparisons, bisects and confirmations in one queue."""

from nightbench.orchestration.experiments_dag import experiments_dag

dag = experiments_dag()
