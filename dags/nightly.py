"""One DAG for each suite that has a schedule: `nightly_<suite>`.

Edit dags/suites/*.yaml, not this file. Airflow's safe mode looks for the words airflow and dag.
"""

from nightbench.orchestration.suite_dags import nightly_dags

globals().update(nightly_dags())
