"""Renders templates, with the headers of every response."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nightbench.core.sentences import evidence_sentence
from nightbench.web.views import day, figure, percent

HERE = Path(__file__).resolve().parent
STYLE = (HERE / "style.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
"""The page for those who are not logged in holds the style: they may load no file of ours."""

HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'self' 'sha256-{_STYLE_HASH}'; "
        "script-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def page(template: str, status: int = 200, root: str = "./", **values: Any) -> HTMLResponse:
    """Return a page from its template; `root` is the relative URL of the start page."""

    def link(**query: str) -> str:
        given = {key: value for key, value in query.items() if value}
        return f"{root}?{urlencode(given)}" if given else root

    text = _templates().get_template(template).render(link=link, root=root, **values)
    return HTMLResponse(text, status_code=status, headers=HEADERS)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "figure": figure,
        "percent": percent,
        "day": day,
        "evidence_sentence": evidence_sentence,
    }
    return environment
