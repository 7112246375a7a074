"""Resolve the lock of a framework line again, after its `requirements-<variant>.in` was edited.

    make lock-line LINE=pytorch [VARIANT=cpu]

Interpreter series and package index come from the line's framework.json, uv and the index settings
of this machine from `make setup`. The comment lines at the head of the lock are kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
PLATFORM = "x86_64-manylinux_2_28"


def main(line: str, variant: str) -> int:
    """Run `uv pip compile`; return its exit code, or 1 with a message for wrong arguments."""
    benchmarks = Path(os.environ.get("NIGHTBENCH_BENCHMARKS") or REPO / "benchmarks")
    lines = sorted(path.parent.name for path in benchmarks.glob("frameworks/*/framework.json"))
    if line not in lines:
        print(f'LINE: found "{line}"; expected one of {", ".join(lines)}', file=sys.stderr)
        return 1
    folder = benchmarks / "frameworks" / line
    described = json.loads((folder / "framework.json").read_text(encoding="utf-8"))
    if variant not in described["variants"] or described["python"] is None:
        have = ", ".join(described["variants"]) if described["python"] else "none: it has no locks"
        print(f'VARIANT: found "{variant}"; {line} has {have}', file=sys.stderr)
        return 1
    wanted, lock = folder / f"requirements-{variant}.in", folder / f"requirements-{variant}.lock"
    if not wanted.is_file():
        print(f"{wanted}: no such file; expected the packages of the line", file=sys.stderr)
        return 1
    index = described["variants"][variant].get("index") or {}
    extra = list(index.get("options") or (["--index", index["url"]] if index else []))
    prefix = Path(sys.prefix)
    settings = json.loads((prefix / "uv-env.json").read_text(encoding="utf-8"))
    if "UV_FIND_LINKS" in {**settings, **os.environ}:
        # A folder that holds the wheel takes the place of the variant's index.
        extra = []
    command = [
        *(str(prefix / "bin" / "uv"), "pip", "compile", "--generate-hashes", "--no-header"),
        *("--python-version", described["python"], "--python-platform", PLATFORM, *extra),
        *(wanted.name, "-o", lock.name),
    ]
    head = [
        f"# Made from {wanted.name} by",
        f"#   make lock-line LINE={line} VARIANT={variant}",
    ]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **settings}, check=False)
    if done.returncode == 0:
        text = lock.read_text(encoding="utf-8")
        lock.write_text("\n".join(head) + "\n" + text, encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
