"""Airflow 3.1.8 to the newest: what lies elsewhere in an old one, and what it lacks."""

from importlib import metadata
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError
from packaging.version import Version

try:
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
    )
except ImportError:  # Airflow 3.1
    from airflow.configuration import conf
    from airflow.exceptions import (  # type: ignore[attr-defined,no-redef]
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
    )

__all__ = [
    "DOUBLING",
    "OLDEST",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowRuntimeError",
    "AirflowSkipException",
    "conf",
    "installed",
    "lacking",
]

OLDEST = Version("3.1.8")

_SINCE = (
    (
        Version("3.3"),
        "a case that a person marks as failed or clears goes on at its nodes for up to two "
        "minutes, until its lease expires: triggers are not told (Airflow 3.3 tells them)",
    ),
    (
        Version("3.2"),
        "whether a DAG is paused is unknown to nightbench_deadlines: a nightly DAG that has run "
        "before and is paused is reported as a missing night (Airflow 3.2 tells)",
    ),
)


def installed() -> Version:
    """The version of the Airflow in this environment."""
    return Version(metadata.version("apache-airflow-core"))


DOUBLING: Any = True if installed() < Version("3.2") else 2.0
"""A task's `retry_exponential_backoff` by which each wait is twice as long as the one before."""


def lacking(version: Version) -> list[str]:
    """What Nightbench cannot do with this version of Airflow, each a sentence."""
    return [what for since, what in _SINCE if version.release < since.release]
