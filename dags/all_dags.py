"""All Airflow DAGs for the suites and clusters of this folder, or of NIGHTBENCH_DAGS.

Edit the YAML files, not this one. Airflow's safe mode looks for the words airflow and dag.
"""

from nightbench.config.locations import dags_folder
from nightbench.orchestration.project_dags import project_dags

globals().update(project_dags(dags_folder()))
