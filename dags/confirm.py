"""The Airflow DAG `nightbench_confirm`: suspected regressions are measured again."""

from nightbench.orchestration.verdict_dags import confirm_dag

dag = confirm_dag()
