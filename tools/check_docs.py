"""Check the Markdown pages: links lead somewhere, `make` targets that they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MAKE = re.compile(r"(?:^|`)\s*make ([a-z]+)\b", re.MULTILINE)
TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+\s+(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def faults(page: Path, targets: set[str]) -> list[str]:
    """Return what is wrong on one page, one line each."""
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = []
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue  # another site: no network in a check
        path, _, anchor = link.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists():
            found.append(f"{page}: link to {link}: no such file")
        elif anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text("utf-8")):
            found.append(f"{page}: link to {link}: no such heading")
    found += [
        f"{page}: make {name}: no such target in the Makefile"
        for name in MAKE.findall(text)
        if name not in targets
    ]
    return found


def main() -> int:
    """Check every tracked page; return the exit status."""
    listing = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=REPO, capture_output=True, text=True, check=True
    )
    targets = set(TARGET.findall((REPO / "Makefile").read_text(encoding="utf-8")))
    pages = [REPO / name for name in listing.stdout.splitlines()]
    found = [fault for page in pages if page.exists() for fault in faults(page, targets)]
    print("\n".join(found) or f"{len(pages)} pages, all links lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
