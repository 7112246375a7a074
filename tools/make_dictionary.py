#!/usr/bin/env python3
"""Write docs/reference/warehouse.md from the comments of a warehouse that is migrated for it.

.venv/bin/python tools/make_dictionary.py

tests/sql/test_dictionary.py holds the page against the comments.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from nightbench.local import postgres, processes
from nightbench.local.home import Home, Secrets
from nightbench.local.ports import Ports, is_free
from nightbench.warehouse import connect, migrate
from nightbench.warehouse.dictionary import page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "warehouse.md"


def main() -> int:
    """Start a PostgreSQL of its own, migrate, write the page, and remove the server."""
    home, secrets = Home(Path(tempfile.mkdtemp(prefix="nbdict-"))), Secrets()
    ports = Ports(postgres=next(port for port in range(57000, 58000) if is_free(port)))
    try:
        for folder in (home.run, home.logs):
            folder.mkdir(mode=0o700)
        postgres.initialise(home, secrets)
        postgres.start(home, ports.postgres)
        postgres.wait_ready(home, ports, secrets)
        postgres.provide(home, ports, secrets)
        dsn = postgres.dsn(ports, secrets, "nightbench_owner")
        migrate.apply(dsn)
        with closing(connect(dsn)) as connection:
            PAGE.write_text(page(connection), encoding="utf-8")
    finally:
        processes.stop(home.run / "postgres.pid", first=postgres.STOP_SIGNAL)
        shutil.rmtree(home.root, ignore_errors=True)
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
