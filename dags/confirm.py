"""The Airflow DAG `nightbench_confirm`: suspected regressions are measured again."""

from nightbench.orchestration.confirm_dag import confirm_dag

dag = confirm_dag()
