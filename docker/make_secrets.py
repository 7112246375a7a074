#!/usr/bin/env python3
"""Make the secrets of the Compose stack, or renew some of them.

    python3 docker/make_secrets.py                              make what is missing
    python3 docker/make_secrets.py --renew nightbench_loader_password node_key

A file for each secret in docker/secrets, which only you may enter; Compose shows each service the
files that it needs. docs/compose.md says how renewed ones take effect.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "secrets"
NODES = ("node1", "node2", "node3", "node4")
ROLES = ("postgres", "airflow", "nightbench_owner", "nightbench_loader", "nightbench_reader",
         "nightbench_triage")  # fmt: skip
PASSWORDS = tuple(f"{role}_password" for role in (*ROLES, "celery", "redis"))
KEYS = ("node_key", *(f"{node}_host_key" for node in NODES))
TOKENS = ("jwt_secret", "api_secret_key", "ui_admin_password", "ui_viewer_password")
RENEWABLE = (*PASSWORDS, *KEYS, *TOKENS)
ALL = (*RENEWABLE, "fernet_key")
"""Connections that were added in the UI are encrypted with the last: Airflow changes it."""


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--renew", nargs="+", default=[], metavar="NAME", choices=RENEWABLE)
    renew = parser.parse_args().renew
    FOLDER.mkdir(exist_ok=True)
    # The files themselves may be read by all: a container's user has another number than you.
    FOLDER.chmod(0o700)
    made = [name for name in ALL if name in renew or not (FOLDER / name).exists()]
    try:
        for name in made:
            _write(name, _new(name))
        _derived()
    except FileNotFoundError as error:
        print(f"{error.filename}: not installed (package openssh-client)", file=sys.stderr)
        return 1
    print(f"{FOLDER}: {', '.join(made) or 'nothing new'}")
    return 0


def _new(name: str) -> str:
    if name == "fernet_key":
        return base64.urlsafe_b64encode(os.urandom(32)).decode()
    if name not in KEYS:
        return secrets.token_urlsafe(48)
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)], check=True
        )
        _write(f"{name}.pub", key.with_suffix(".pub").read_text())
        return key.read_text()


def _derived() -> None:
    """Files that hold several secrets, for the services that need them together."""

    def read(name: str) -> str:
        return (FOLDER / name).read_text()

    database = f"airflow:{read('airflow_password')}@postgres/airflow"
    _write("airflow_database", f"postgresql+psycopg2://{database}")
    _write("celery_results", f"db+postgresql://celery:{read('celery_password')}@postgres/celery")
    _write("celery_broker", f"redis://:{read('redis_password')}@redis:6379/0")
    _write(
        "redis.conf",
        f"requirepass {read('redis_password')}\ndir /data\nappendonly yes\nappendfsync always\n",
    )
    users = {user: read(f"ui_{user}_password") for user in ("admin", "viewer")}
    _write("ui_passwords", json.dumps(users))
    connections: dict[str, object] = {
        conn_id: {
            "conn_type": "postgres",
            "host": "postgres",
            "port": 5432,
            "schema": "warehouse",
            "login": role,
            "password": read(f"{role}_password"),
        }
        for conn_id, role in (
            ("nightbench_warehouse", "nightbench_loader"),
            ("nightbench_warehouse_reader", "nightbench_reader"),
            ("nightbench_warehouse_triage", "nightbench_triage"),
        )
    }
    known = [
        f"[{node}]:2222 {' '.join(read(f'{node}_host_key.pub').split()[:2])}\n" for node in NODES
    ]
    connections["nightbench_compose"] = {
        "conn_type": "ssh",
        "host": NODES[0],
        "port": 2222,
        "login": "bench",
        "extra": {"private_key": read("node_key"), "known_hosts": "".join(known)},
    }
    own = FOLDER / "own_connections.json"
    if own.exists():  # those of the site: clusters of its own, channels of alerts
        connections |= _own(own, connections.keys())
    _write("connections.json", json.dumps(connections, indent=1))
    if not (FOLDER / "pip.conf").exists():
        _write("pip.conf", "")


def _own(path: Path, made: Collection[str]) -> dict[str, object]:
    wanted = "expected an object of Connections by id"
    try:
        own = json.loads(path.read_text())
    except ValueError as error:
        raise SystemExit(f"{path}: found no JSON ({error}); {wanted}") from None
    if not isinstance(own, dict):
        raise SystemExit(f"{path}: found {type(own).__name__}; {wanted}")
    if twice := sorted(own.keys() & set(made)):
        raise SystemExit(f"{path}: found {', '.join(twice)}, made by this script; {wanted} besides")
    return own


def _write(name: str, text: str) -> None:
    """Put a file in its place as a whole; containers that run keep the one that they have."""
    beside = FOLDER / f"{name}.new"
    beside.write_text(text)
    beside.chmod(0o444)
    beside.replace(FOLDER / name)


if __name__ == "__main__":
    sys.exit(main())
