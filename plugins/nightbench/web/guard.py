"""Identifies users, and protects changes against cross-site requests.

Airflow keeps a browser logged in by the cookie `_token` (HttpOnly, SameSite=Lax). A page of
another site under the same domain could still make the browser send it along. So a change that
comes with the cookie must come from the site's own origin, and carry a header that no other origin
can send without permission. A request with `Authorization: Bearer` needs neither: no browser adds
that by itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fastapi import HTTPException

HEADER = "x-nightbench-request"
"""Header that scripts send with any value; other origins cannot without permission."""

HEADERS = {
    # An answer that a browser opens as a page must not run or load anything.
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""

Dependency = Callable[..., Any]


@dataclass(frozen=True)
class PageUser:
    """The user who is logged in."""

    name: str
    """Airflow's user name, which is stored in the history of alerts."""
    may_change: bool
    """True if pages show buttons; `PageAccess.trigger` enforces the right."""
    may_approve: bool = False
    """True if they may allow a fork's build, and cancel what others have requested."""


@dataclass(frozen=True)
class PageAccess:
    """FastAPI dependencies by which Airflow authorises requests."""

    reader: Dependency
    """Refuses users who may not read DAG runs; guards every route."""
    trigger: Dependency
    """Refuses users who may not trigger the DAG on_demand; guards every change."""
    user: Dependency
    """Returns the `PageUser`."""
    approve: Dependency
    """Refuses users who may not read Connections; guards what lets a fork's build run."""
    logs: Dependency
    """Refuses users who may not read the logs of tasks; guards those of ranks."""


def _has_bearer(headers: Mapping[str, str]) -> bool:
    """Return whether a request is authorised by a bearer token instead of a cookie."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and bool(token.strip())


def _refuse_foreign(headers: Mapping[str, str], base_url: str) -> None:
    # Browsers send this if the page came by HTTPS or from the same machine; no script can
    # change it, and no proxy on the way needs to be understood.
    site = headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise HTTPException(403, "The request came from another site; nothing was changed.")
        return
    own = {_host(f"//{headers.get('host', '')}"), _host(base_url)} - {""}
    if _host(headers.get("origin", "")) not in own:
        raise HTTPException(
            403,
            "The request did not come from a page of this site; nothing was changed. Scripts must "
            "send Airflow's token as `Authorization: Bearer …`. Behind a proxy, set [api] base_url "
            "to the address that browsers use.",
        )


def refuse_unmeant(headers: Mapping[str, str], base_url: str) -> None:
    """Check that the user who is logged in meant to send a change.

    Raises:
        HTTPException: it came by a cookie from elsewhere, or without `HEADER`.
    """
    if _has_bearer(headers):
        return
    _refuse_foreign(headers, base_url)
    if HEADER not in headers:
        raise HTTPException(403, f"A request with a login cookie must send the header {HEADER}.")


def _host(address: str) -> str:
    """Return host and port of an address, without default ports."""
    try:
        netloc = urlsplit(address).netloc.lower().rpartition("@")[2]
    except ValueError:  # a bracket that is not closed
        return ""
    for usual in (":80", ":443"):
        netloc = netloc.removesuffix(usual)
    return netloc
