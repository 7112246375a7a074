"""Airflow on one machine: its settings, its Connections, its four processes.

No import of airflow here: it is started as a program. `settings` is the one place that knows how it
is configured, from airflow.ini next to it.
"""

import json
import os
import subprocess
from configparser import RawConfigParser
from importlib import metadata
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from nightbench.config.locations import dag_files, dags_folder
from nightbench.core.errors import UserError
from nightbench.local import postgres, processes
from nightbench.local.home import Home, Secrets, venv_bin, write_private
from nightbench.local.logfiles import log_and_tail
from nightbench.local.ports import Ports

SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer")
ADMIN = "admin"
VIEWER = "viewer"

# Arguments of the services. Their log servers would listen on every interface; the API
# server reads the same files from the disk.
_ARGUMENTS = {
    "scheduler": ("--skip-serve-logs",),
    "triggerer": ("--skip-serve-logs",),
}


def base_url(ports: Ports) -> str:
    """Return the address of the UI and the API."""
    return f"http://127.0.0.1:{ports.api}"


def settings(home: Home, ports: Ports, secrets: Secrets) -> dict[str, str]:
    """Return the environment variables that make a process part of this Airflow."""
    values = {
        "dags_folder": dag_files(),
        "base_url": base_url(ports),
        "admin": ADMIN,
        "viewer": VIEWER,
        "passwords_file": home.passwords_file,
        "connections_file": json.dumps(str(home.connections_file)),
        "airflow_logs": home.airflow_logs,
        "database_password": quote(secrets.airflow, safe=""),
        "postgres_port": ports.postgres,
        "api_port": ports.api,
        "api_secret_key": secrets.api_secret_key,
        "fernet_key": secrets.fernet_key,
        "jwt_secret": secrets.jwt_secret,
    }
    # The file is parsed before values are filled in, because a value may contain any character.
    options = RawConfigParser()
    options.read(Path(__file__).with_name("airflow.ini"), encoding="utf-8")
    variables = {
        f"AIRFLOW__{section}__{key}".upper(): Template(text).substitute(values)
        for section in options.sections()
        for key, text in options.items(section)
    }
    return variables | {
        "AIRFLOW_HOME": str(home.airflow),
        "NIGHTBENCH_HOME": str(home.root),
        "NIGHTBENCH_DAGS": str(dags_folder().absolute()),
        # Nothing reports to outside hosts.
        "GX_ANALYTICS_ENABLED": "false",
        "SCARF_ANALYTICS": "false",
        "DO_NOT_TRACK": "1",
        # setproctitle would overwrite /proc/PID/environ, where `down` looks for its mark.
        "SPT_NOENV": "1",
        "PYTHONUNBUFFERED": "1",
    }


def environment(home: Home, ports: Ports, secrets: Secrets) -> dict[str, str]:
    """Return the whole environment for a process of this Airflow: the caller's plus settings."""
    # Another project's modules on PYTHONPATH would be imported before ours.
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    path = kept.get("PATH", os.defpath)
    no_proxy = kept.get("no_proxy") or kept.get("NO_PROXY") or ""
    loopback = ",".join(filter(None, [no_proxy, "127.0.0.1", "localhost"]))
    return {
        **kept,
        **settings(home, ports, secrets),
        "PATH": f"{venv_bin()}{os.pathsep}{path}",
        "NO_PROXY": loopback,
        "no_proxy": loopback,
    }


def command(*words: str) -> list[str]:
    """Return the words that run Airflow's command from this environment."""
    return [str(venv_bin() / "python"), "-m", "airflow", *words]


def connections(home: Home, ports: Ports, secrets: Secrets) -> dict[str, dict[str, Any]]:
    """Return the Connections that this machine's stack offers, by conn_id."""
    found: dict[str, dict[str, Any]] = {}
    for conn_id, role in (
        ("nightbench_warehouse", "nightbench_loader"),
        ("nightbench_warehouse_reader", "nightbench_reader"),
        ("nightbench_warehouse_triage", "nightbench_triage"),
    ):
        found[conn_id] = {
            "conn_type": "postgres",
            "host": "127.0.0.1",
            "port": ports.postgres,
            "schema": postgres.WAREHOUSE,
            "login": role,
            "password": getattr(secrets, role),
        }
    server = home.cluster / "server.json"
    if server.is_file():
        login = json.loads(server.read_text(encoding="utf-8"))
        found["nightbench_local"] = {
            "conn_type": "ssh",
            "host": "127.0.0.2",
            "port": login["port"],
            "login": login["user"],
            "extra": {
                "key_file": str(home.cluster / "id_ed25519"),
                "known_hosts": str(home.cluster / "known_hosts"),
            },
        }
    return found


def write_files(home: Home, ports: Ports, secrets: Secrets) -> None:
    """Write the Connections and the UI's passwords (0600)."""
    entries = connections(home, ports, secrets)
    write_private(home.connections_file, json.dumps(entries, indent=1) + "\n")
    passwords = {ADMIN: secrets.ui_admin, VIEWER: secrets.ui_viewer}
    write_private(home.passwords_file, json.dumps(passwords) + "\n")


def migrate(home: Home, env: dict[str, str], fresh: bool) -> bool:
    """Update Airflow's metadata database to the installed version; return whether it was needed.

    A stamp in the home names the version migrated to; if the database is `fresh` it does not
    count.

    Raises:
        UserError: `airflow db migrate` failed; the message holds the end of its log.
    """
    wanted = metadata.version("apache-airflow")
    stamp = home.airflow / "migrated"
    if not fresh and stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
        return False
    log = home.logs / "airflow-migrate.log"
    with log.open("ab") as stream:
        status = subprocess.run(
            command("db", "migrate"),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if status:
        raise UserError(f"airflow db migrate failed (status {status}). {log_and_tail(log)}")
    stamp.write_text(wanted, encoding="ascii")
    return True


def start(home: Home, env: dict[str, str], service: str) -> processes.Service:
    """Start one of `SERVICES`."""
    words = command(service, *_ARGUMENTS.get(service, ()))
    return processes.start(home, service, words, env=env, cwd=home.airflow)
