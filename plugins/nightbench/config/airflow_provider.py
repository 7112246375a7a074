"""Description of this package as a provider for Airflow: name, section of `airflow.cfg`."""

from importlib import metadata
from typing import Any

SECTION = "nightbench"
SETTINGS = {
    "home": "State folder of this deployment. [default: nightbench/ in Airflow's home]",
    "spool": "Folder, or fsspec URL (s3://bucket/spool), for results between measuring and "
    "loading. All workers and triggerers must reach it. [default: spool/ in the home]",
    "dags": "Folder with suites/ and clusters/. [default: the folder of the package]",
    "benchmarks": "Code that is copied to the nodes. [default: the code of the package]",
    "uv": "The uv binary that is copied to the nodes. [default: next to the interpreter, "
    "otherwise on PATH]",
    "site": "Folder, or fsspec URL, to which the DAG nightbench_verdicts writes the public site. "
    "Without it, no site is written.",
    "site_url": "URL of the public site, for its feed and permanent links.",
    "wheels": "Folder with wheels that a run may use as a build. [default: wheels/ in the home]",
}
"""Option -> what it sets. `NIGHTBENCH_HOME` and its like, if they are set, come first."""


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
