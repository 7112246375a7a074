"""Nightbench on Airflow: Connections, the operator and its trigger, the DAG builders.

The only package that imports airflow. What a DAG file imports (`dags`) stays light: SSH, databases
and checks are imported inside the tasks that need them.
"""
