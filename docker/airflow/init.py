"""Before the services start: migrate both databases and seed the UI's passwords."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from nightbench.local.home import write_private
from nightbench.warehouse import migrate


def main() -> None:
    """Run once; running again changes nothing."""
    home = Path(os.environ["AIRFLOW_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    passwords = {"admin": os.environ["ADMIN_PASSWORD"], "viewer": os.environ["VIEWER_PASSWORD"]}
    write_private(
        Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]),
        json.dumps(passwords) + "\n",
    )
    subprocess.run(["airflow", "db", "migrate"], check=True)
    for name in migrate.apply(os.environ["WAREHOUSE_OWNER_DSN"]):
        print(f"warehouse: applied {name}", flush=True)


if __name__ == "__main__":
    main()
