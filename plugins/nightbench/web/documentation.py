"""Pages of the documentation as HTML: the help icons of the pages lead to them, also offline."""

import re
from itertools import pairwise

from fastapi import Response
from markdown_it import MarkdownIt
from starlette.exceptions import HTTPException

from nightbench.core.package_files import package_folder
from nightbench.web.comparison_api import PAGE_HEADERS

_NAME = re.compile(r"((reference|adr)/)?[a-z0-9-]+\.md")
_HEAD = (
    "<!doctype html><html lang=en><meta charset=utf-8>"
    '<meta name=viewport content="width=device-width"><title>Nightbench</title>'
    "<style>body{font:16px/1.5 sans-serif;max-width:50em;margin:auto;padding:1em}"
    "table,pre{display:block;overflow:auto}td,th{border:1px solid;padding:.2em .5em}</style>"
)


def documentation(name: str) -> Response:
    """Return a page of the documentation, without its images."""
    path = package_folder("docs") / name
    if not _NAME.fullmatch(name) or not path.is_file():
        raise HTTPException(404, "The installed documentation has no such page.")
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("image", lambda *_: "")
    tokens = markdown.parse(path.read_text(encoding="utf-8"))
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            anchor = re.sub(r"[^\w\- ]", "", inline.content.lower()).replace(" ", "-")
            heading.attrSet("id", anchor)
    page = _HEAD + markdown.renderer.render(tokens, markdown.options, {})
    return Response(page, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)
