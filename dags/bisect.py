"""The Airflow DAG `nightbench_bisect`: the first bad version, from its form."""

from nightbench.orchestration.bisect_dag import bisect_dag

dag = bisect_dag()
