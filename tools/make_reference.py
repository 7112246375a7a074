#!/usr/bin/env python3
"""Write docs/reference/*.md from the classes that read the files; `--check` only compares.

.venv/bin/python tools/make_reference.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from nightbench.config.reference import PAGES, page
from nightbench.report.rows import FIELDS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"


def results_page() -> str:
    """Return the page on the rows of `nightbench results --json`."""
    lines = [
        "<!-- Made by tools/make_reference.py from plugins/nightbench/report. Do not edit. -->",
        "",
        "# Results: `nightbench results --json`",
        "",
        "A list with one object for each planned case of the run.",
        "",
        "| field | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in FIELDS.items()]
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """Return every page by its path."""
    made = {FOLDER / f"{name}.md": page(name) for name in PAGES}
    return made | {FOLDER / "results.md": results_page()}


def main() -> int:
    """Write the pages, or say which are out of date."""
    stale = [
        path
        for path, text in pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path} is out of date: run tools/make_reference.py", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(pages()[path], encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
