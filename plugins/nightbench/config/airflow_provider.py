"""What Airflow is told of this package as a provider: name, section of `airflow.cfg`."""

from importlib import metadata
from typing import Any

SECTION = "nightbench"
SETTINGS = {
    "home": "State folder of this deployment. Without it: nightbench/ in Airflow's home.",
    "spool": "Folder, or fsspec URL (s3://bucket/spool), for results between measuring and "
    "loading. Workers and triggerers must all reach it. Without it: spool/ in the home.",
    "dags": "Folder with suites/ and clusters/. Without it: those that the package brings.",
    "benchmarks": "The tree that is shipped to the nodes. Without it: the one that the package "
    "brings.",
    "uv": "The uv binary that is shipped to the nodes. Without it: the one beside the interpreter, "
    "else the one on PATH.",
    "site": "Folder, or fsspec URL, that the DAG nightbench_verdicts writes the site for everybody "
    "to. Without it: the DAG fails.",
    "site_url": "Address of that site, for its feed and permanent links.",
    "wheels": "Folder whose wheels a run may name as a build. Without it: wheels/ in the home.",
}
"""Option -> what it sets. `NIGHTBENCH_HOME` and its like, where they are set, come first."""


def variable(option: str) -> str:
    """The environment variable of a setting, which all processes read (`config.locations`)."""
    return f"NIGHTBENCH_{option.upper()}"


def get_provider_info() -> dict[str, Any]:
    """Return the document of Airflow's entry point `apache_airflow_provider`."""
    return {
        "package-name": "nightbench",
        "name": "Nightbench",
        "description": "Scheduled benchmarking of deep-learning training over SSH.",
        "versions": [metadata.version("nightbench")],
        "config": {
            SECTION: {
                "description": "Where Nightbench keeps and finds its files.",
                "options": {
                    name: {
                        "description": f"{says}\nThe variable {variable(name)} comes first.\n",
                        "version_added": "0.2.0",
                        "type": "string",
                        "example": None,
                        "default": None,
                    }
                    for name, says in SETTINGS.items()
                },
            }
        },
    }
