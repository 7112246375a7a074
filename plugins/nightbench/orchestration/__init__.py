"""Nightbench on Airflow: DAGs, operators, a trigger, Connections, and the app of the pages.

The only package that imports airflow, and it holds nothing that does not need it. What a DAG file
imports (`*_dag`, `suite_dags`, operators) stays light: SSH, databases and checks are imported
inside the tasks that need them.
"""
