"""Nightbench on Airflow: DAGs, operators, a trigger, Connections, and the app of the pages.

The only package that imports airflow, and it holds nothing that does not need it. A module that a
DAG file imports (`*_dag`, `suite_dags`, operators) stays light: SSH, databases and checks are
imported inside the tasks that need them.
"""

import os
import sys

from nightbench.config.airflow_provider import SECTION, SETTINGS, variable

# An Airflow process has these settings after its first import from this package. Processes that
# it starts have them, too. The command imports this package as well, but not Airflow.
if "airflow.configuration" in sys.modules:
    from airflow.configuration import conf

    for _option in SETTINGS:
        _value = os.environ.get(variable(_option)) or conf.get(SECTION, _option, fallback="")
        if _value:
            os.environ[variable(_option)] = _value
