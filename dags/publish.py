"""The Airflow DAG `nightbench_publish`: the static site of what suites let leave."""

from nightbench.orchestration.verdict_dags import publish_dag

dag = publish_dag()
