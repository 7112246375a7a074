"""The Airflow DAG `nightbench_regressions`: verdicts and alerts when new medians were loaded."""

from nightbench.orchestration.regressions_dag import regressions_dag

dag = regressions_dag()
