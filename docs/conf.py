"""The documentation site: `make docs`; its warnings are errors."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

project = "Nightbench"
extensions = ["myst_parser"]
root_doc = "index"
# Headings get the anchors that GitHub gives them: one link works in both places.
myst_heading_anchors = 4
# Blocks such as `text layers` are for tools/check_docs.py.
suppress_warnings = ["misc.highlighting_failure"]
smartquotes = False  # "--run" is an option, not a dash
highlight_language = "none"
html_theme = "furo"
html_title = "Nightbench"
html_show_copyright = False

DOCS = Path(__file__).resolve().parent
REPO = DOCS.parent
ELSEWHERE = {
    "README.md": "/index.md",
    "benchmarks/README.md": "/extend.md",
    "tests/README.md": "/tests.md",
    "sql/migrations/README.md": "/migrations.md",
}
"""Pages that lie beside the code that they are about, and where the site includes them."""
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def as_on_the_site(text: str, folder: Path) -> str:
    """Return a page of the repository with its links as the site has them.

    Args:
        text: of the page.
        folder: where the page lies; its links are relative to it.
    """

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        path = (folder / target).resolve()
        if path.is_relative_to(DOCS):
            return f"[{words}](/{os.path.relpath(path, DOCS)}{anchor})"
        page = ELSEWHERE.get(os.path.relpath(path, REPO))
        return f"[{words}]({page}{anchor})" if page else words

    return LINK.sub(link, text)


def setup(app: Any) -> None:
    """Rewrite each page as it is read, and those that it includes."""

    def read(_: Any, name: str, source: list[str]) -> None:
        source[0] = as_on_the_site(source[0], (DOCS / name).parent)

    def included(_: Any, path: Path, __: str, content: list[str]) -> None:
        content[0] = as_on_the_site(content[0], (DOCS / path).parent)

    app.connect("source-read", read)
    app.connect("include-read", included)
