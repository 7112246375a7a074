"""Nightbench's DAGs for the suites of this project; Airflow reads this file, people need not."""

from pathlib import Path

from nightbench.orchestration.project_dags import project_dags

globals().update(project_dags(Path(__file__).parents[1]))
