"""Nightbench on Airflow: DAGs, operators, a trigger, Connections, and the app of the pages.

The only package that imports airflow, and it holds nothing that does not need it. What a DAG file
imports (`*_dag`, `suite_dags`, operators) stays light: SSH, databases and checks are imported
inside the tasks that need them.
"""

import os

from airflow.configuration import conf

from nightbench.config.airflow_provider import SECTION, SETTINGS, variable

# Whatever a process of Airflow imports first of this package, it has the settings from then on;
# so have the processes that it starts.
for _option in SETTINGS:
    if not os.environ.get(variable(_option)) and (
        _value := conf.get(SECTION, _option, fallback="")
    ):
        os.environ[variable(_option)] = _value
