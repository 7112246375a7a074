"""Check the Markdown pages: links, paths in backticks and `make` targets exist; layers agree.

The picture in docs/architecture.md has to show the layers of import-linter's contract.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MAKE = re.compile(r"(?:^|`)\s*make ([a-z]+)\b", re.MULTILINE)
TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)
PATH = re.compile(r"`((?:benchmarks|dags|docker|plugins|sql|tests)/[^`\s]*)`")
LAYERS = re.compile(r"^```text layers\n(.*?)^```", re.MULTILINE | re.DOTALL)


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
        f"{page}: `{path}`: no such path"
        for path in PATH.findall(prose)
        if not any(REPO.glob(re.sub(r"<[^>]*>", "*", path)))
    ]
    found += [
        f"{page}: make {name}: no such target in the Makefile"
        for name in MAKE.findall(text)
        if name not in targets
    ]
    return found


def layer_faults(page: Path) -> list[str]:
    """Return where the layers that a page shows are not those of import-linter's contract."""
    document = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = document["tool"]["importlinter"]["contracts"]
    expected = next(each["layers"] for each in contracts if each["type"] == "layers")
    picture = LAYERS.search(page.read_text(encoding="utf-8"))
    if picture is None:
        return [f"{page}: found no block ```text layers; expected the layers of pyproject.toml"]
    lines = picture.group(1).splitlines()
    shown = [re.split(r"\s{2,}", line.strip())[0] for line in lines if line.strip()]
    if shown == expected:
        return []
    return [f"{page}: layers: found {shown}; expected those of pyproject.toml, {expected}"]


def main() -> int:
    """Check every tracked page; return the exit status."""
    listing = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=REPO, capture_output=True, text=True, check=True
    )
    targets = set(TARGET.findall((REPO / "Makefile").read_text(encoding="utf-8")))
    pages = [REPO / name for name in listing.stdout.splitlines()]
    found = [fault for page in pages if page.exists() for fault in faults(page, targets)]
    found += layer_faults(REPO / "docs" / "architecture.md")
    print("\n".join(found) or f"{len(pages)} pages, all links and paths lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
