"""The Airflow DAG `nightbench_regressions`: verdicts and alerts when new medians were loaded."""

from nightbench.orchestration.verdict_dags import regressions_dag

dag = regressions_dag()
