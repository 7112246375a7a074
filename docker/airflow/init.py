"""Before the services start: roles and databases with their passwords, then both migrations.

Runs at every `up` and changes only what differs, so a password that was renewed takes effect. It
reaches PostgreSQL by its socket, which no other service has.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from nightbench.local import postgres
from nightbench.warehouse import migrate

SECRETS = Path("/run/secrets")
SOCKET = "host=/var/run/postgresql user=postgres"


def main() -> None:
    """Run once; running again changes nothing."""
    passwords = {
        role: (SECRETS / f"{role}_password").read_text(encoding="ascii").strip()
        for role in (postgres.SUPERUSER, "airflow", *postgres.ROLES)
    }
    databases = postgres.DATABASES
    celery = SECRETS / "celery_password"
    if celery.exists():  # compose.celery.yaml
        passwords["celery"] = celery.read_text(encoding="ascii").strip()
        databases = databases | {"celery": "celery"}
    for made in postgres.provide_roles_and_databases(SOCKET, passwords, databases):
        print(f"made {made}", flush=True)
    subprocess.run(["airflow", "db", "migrate"], check=True)
    owner = {"host": "postgres", "dbname": postgres.WAREHOUSE, "user": "nightbench_owner"}
    for name in migrate.apply(owner | {"password": passwords["nightbench_owner"]}):
        print(f"warehouse: applied {name}", flush=True)


if __name__ == "__main__":
    main()
