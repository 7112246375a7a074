"""The Airflow DAG `nightbench_bisect`: the first bad version, from its form."""

from nightbench.orchestration.request_dags import bisect_dag

dag = bisect_dag()
