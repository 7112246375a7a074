"""The Airflow DAG `nightbench_bisect`: the first bad version, from its form."""

from nightbench.orchestration.bisecting import bisect_dag

dag = bisect_dag()
