"""Resolve requirements/*.in into the locks again: `make lock`, which makes `.venv` before."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bootstrap import REQUIREMENTS, VENV, SetupError, run, say, with_cache

RESOLVED = ("uv", "control", "analysis", "s3", "celery", "kubernetes", "dev")
"""Those that constrain others come before them."""


def make_locks(uv: Path, env: Mapping[str, str], log: Path, upgrade: bool = False) -> None:
    """Resolve requirements/*.in again, for Python 3.11 to 3.14 at once, with hashes.

    What is locked stays at its version, as far as the .in files allow, unless `upgrade`. Locks are
    replaced once all were resolved: they constrain each other.

    From the main index alone: extra ones and wheel folders often hold a part of a release's files,
    and the lock has to name all of them.

    Raises:
        SetupError: one cannot be resolved; no lock has changed.
    """
    partial = ("UV_INDEX", "UV_INDEX_STRATEGY", "UV_FIND_LINKS")
    env = {name: value for name, value in env.items() if name not in partial}
    with tempfile.TemporaryDirectory(dir=log.parent) as folder:
        made = Path(folder, REQUIREMENTS.name)
        shutil.copytree(REQUIREMENTS, made)

        def resolve(name: str, *more: str) -> None:
            say(f"locking requirements/{name}.in")
            words = [str(uv), "pip", "compile", "--universal", "--python-version", "3.11", *more]
            words += ["-o", f"{made.name}/{name}.lock", f"{made.name}/{name}.in"]
            try:
                run(words, f"Locking {name}.in", env, log, cwd=made.parent)
            except SetupError as error:
                raise SetupError(f"No lock was changed: {error}") from None

        if upgrade:
            # The newest on which all agree: those of control.in alone may leave the others none.
            lines = [
                line
                for name in RESOLVED
                for line in (made / f"{name}.in").read_text().splitlines(keepends=True)
                if not line.startswith("-c ")
            ]
            (made / "all.in").write_text("".join(lines))
            resolve("all")
            for name in RESOLVED:
                shutil.copy(made / "all.lock", made / f"{name}.lock")
        for name in RESOLVED:
            resolve(name, "--generate-hashes", "--custom-compile-command", "make lock")
        changed = [
            name
            for name in RESOLVED
            if (made / f"{name}.lock").read_bytes() != (REQUIREMENTS / f"{name}.lock").read_bytes()
        ]
        for name in changed:
            os.replace(made / f"{name}.lock", REQUIREMENTS / f"{name}.lock")
    say(f"changed: {', '.join(f'requirements/{name}.lock' for name in changed) or 'nothing'}")


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description="Resolve requirements/*.in again.")
    parser.add_argument("--upgrade", action="store_true", help="to the newest versions")
    upgrade: bool = parser.parse_args().upgrade
    try:
        added = json.loads((VENV / "uv-env.json").read_text())
        env = with_cache({**os.environ, **added})
        make_locks(VENV / "bin" / "uv", env, VENV / "setup.log", upgrade)
    except (SetupError, OSError) as error:
        print(f"nightbench lock: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
