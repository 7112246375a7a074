"""The DAG `on_demand`: its trigger form in Airflow's UI measures a suite, or a part of it, now."""

from nightbench.orchestration.suite_dags import on_demand_dag

dag = on_demand_dag()
