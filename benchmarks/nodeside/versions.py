"""The wheels of a line's main package in this node's indexes and folders.

uv installs but does not list. The sources are those that uv gets (`uvtool`): the site's own
settings, pip's configuration on the node, folders of wheels. The controller decides which of the
files run here.
"""

from __future__ import annotations

import argparse
import base64
import html.parser
import json
import os
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Mapping

from nodeside import interpreters
from nodeside.recipe import Recipe
from nodeside.tracebacks import without_logins
from nodeside.uvtool import environment_of, normal

TIMEOUT_S = 30.0
LARGEST_BYTES = 64 * 2**20
PYPI = "https://pypi.org/simple"
_JSON = "application/vnd.pypi.simple.v1+json"

File = Mapping[str, Any]


def versions(options: argparse.Namespace, code: str) -> dict[str, Any]:
    """Return the verb's document: the wheels of the line's main package in all sources.

    `pythons` are those of its lock that run here, or all of its lock if none runs here.

    Returns:
        {"package", "pythons", "files": [{"name", "requires_python", "yanked"}], "sources",
        "problems"}: file names of wheels, each once. A source that does not answer is a problem;
        the other sources are still read.

    Raises:
        AgentError: there is no such line or variant.
    """
    recipe = Recipe(code, options.line, options.variant, None, None)
    env = environment_of(options)
    package = normal(recipe.package)
    links = [os.path.expanduser(link) for link in options.find_links]
    links += [link for link in env.get("UV_FIND_LINKS", "").split(",") if link]
    indexes = _indexes(env, recipe)
    sources = links + ["{}/{}/".format(index.rstrip("/"), package) for index in indexes]
    found, problems = {}, []
    here = interpreters.those_here(recipe.pythons, interpreters.any_uv(options.root), options.root)
    for source in sources if recipe.pythons else ():
        try:
            for file in _files(source, env):
                name = file["name"]
                if name.endswith(".whl") and normal(name.partition("-")[0]) == package:
                    found.setdefault(name, file)
        except (OSError, ValueError) as error:
            if not (isinstance(error, urllib.error.HTTPError) and error.code == 404):
                shown = "{}: {}".format(source, getattr(error, "reason", None) or error)
                problems.append(without_logins(shown))
    return {
        "package": package,
        "pythons": list(here) or recipe.pythons,
        "files": [found[name] for name in sorted(found)],
        "sources": list(map(without_logins, sources)),
        "problems": problems,
    }


def _indexes(env: Mapping[str, str], recipe: Recipe) -> list[str]:
    if env.get("UV_NO_INDEX"):
        return []
    first = env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL") or PYPI
    more = (env.get("UV_INDEX") or env.get("UV_EXTRA_INDEX_URL") or "").split()
    if recipe.index is not None:
        more.append(recipe.index["url"])
    # uv lets an index have a name: "site=https://…".
    return [re.sub(r"\A[\w-]+=(?=\w+:|/)", "", index) for index in [first, *more]]


def _files(source: str, env: Mapping[str, str]) -> list[File]:
    """Return the files on a page of an index, in a folder, or on a page of links."""
    path = _local(source)
    if path is None:
        return _page(source, env)
    if os.path.isdir(path):
        page = os.path.join(path, "index.html")
        if not os.path.isfile(page):
            return [{"name": n, "requires_python": None, "yanked": False} for n in os.listdir(path)]
        path = page
    elif not os.path.exists(path):
        if source.endswith("/"):
            return []  # an index without the package
        raise OSError("is not there")
    with open(path, encoding="utf-8") as handle:
        return _links(handle.read())


def _local(source: str) -> str | None:
    if source.startswith("file:"):
        return urllib.request.url2pathname(urllib.parse.urlsplit(source).path)
    return None if "://" in source else source


def _page(url: str, env: Mapping[str, str]) -> list[File]:
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    bare = urllib.parse.urlunsplit((parts.scheme, host, *parts[2:]))
    request = urllib.request.Request(bare, headers={"Accept": _JSON + ", text/html;q=0.5"})
    if parts.username:
        words = urllib.parse.unquote("{}:{}".format(parts.username, parts.password or ""))
        coded = base64.b64encode(words.encode()).decode()
        request.add_unredirected_header("Authorization", "Basic " + coded)
    context = ssl.create_default_context(cafile=env.get("SSL_CERT_FILE") or None)
    if parts.hostname in (env.get("UV_INSECURE_HOST") or "").split():
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
        text = answer.read(LARGEST_BYTES).decode("utf-8", "replace")
        kind = answer.headers.get_content_type()
    if kind.endswith("+json"):
        return [
            {
                "name": each["filename"],
                "requires_python": each.get("requires-python"),
                "yanked": bool(each.get("yanked")),
            }
            for each in json.loads(text)["files"]
        ]
    return _links(text)


class _Anchors(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.files: list[File] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            path = urllib.parse.urlsplit(given["href"]).path
            self.files.append(
                {
                    "name": urllib.parse.unquote(path.rsplit("/", 1)[-1]),
                    "requires_python": given.get("data-requires-python"),
                    "yanked": "data-yanked" in given,
                }
            )


def _links(text: str) -> list[File]:
    anchors = _Anchors()
    anchors.feed(text)
    return anchors.files
