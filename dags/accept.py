"""The Airflow DAG `nightbench_accept`: tries every mode of a cluster's lines, from its form."""

from nightbench.orchestration.request_dags import accept_dag

dag = accept_dag()
