"""Who asks, and whether a browser sent a change because its user wanted it.

Airflow keeps a browser logged in by the cookie `_token` (HttpOnly, SameSite=Lax). A page of
another site under the same domain could still make the browser send it along. So a change that
comes with the cookie must come from our own origin, and carry what no other origin can know or
send: a token in the form, or a header in a request of a script. A request with
`Authorization: Bearer` needs neither: no browser adds that by itself.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from time import time
from typing import Any
from urllib.parse import urlsplit

from nightbench.web.errors import Refused

FORM_LIVES_S = 12 * 3600
HEADER = "x-nightbench-request"
"""A script sends it with any value: another origin cannot without our consent."""

Dependency = Callable[..., Any]


@dataclass(frozen=True)
class PageUser:
    """Who is logged in."""

    name: str
    """As Airflow knows them: the name that is written into the history of an alert."""
    may_change: bool
    """Whether it is worth to offer buttons; `PageAccess.trigger` is what guards them."""


@dataclass(frozen=True)
class PageAccess:
    """FastAPI dependencies by which Airflow says who may do what."""

    reader: Dependency
    """Refuses whoever may not read DAG runs; guards every route."""
    trigger: Dependency
    """Refuses whoever may not trigger the DAG on_demand; guards what changes something."""
    user: Dependency
    """Gives the `PageUser`."""


@dataclass(frozen=True)
class FormTokens:
    """Makes and knows the tokens of forms; each is one person's and holds for some hours."""

    secret: bytes
    """The same in all processes that serve the page."""

    def token(self, name: str, now: float | None = None) -> str:
        """A token for a person's forms."""
        until = int((time() if now is None else now) + FORM_LIVES_S)
        return f"{until}.{self._sign(until, name)}"

    def check(self, token: str, name: str) -> None:
        """Refuse a token that is not this person's, or too old.

        Raises:
            Refused: it is.
        """
        until, _, signature = token.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) < 12):
            raise Refused("The form came without its token. Load the page again.")
        if not hmac.compare_digest(signature.encode(), self._sign(int(until), name).encode()):
            raise Refused("The form's token is not yours. Load the page again.")
        if int(until) < time():
            raise Refused("The form is too old. Load the page again.")

    def _sign(self, until: int, name: str) -> str:
        return hmac.new(self.secret, f"{until}\n{name}".encode(), hashlib.sha256).hexdigest()


def has_bearer(headers: Mapping[str, str]) -> bool:
    """Whether a request carries a token of its own, and not the browser's cookie."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and bool(token.strip())


def refuse_foreign(headers: Mapping[str, str], hosts: Collection[str]) -> None:
    """Refuse what no page of ours sent.

    Args:
        headers: of the request, by lower-case names.
        hosts: host and port by which the site calls itself, beside the request's own.

    Raises:
        Refused: another origin sent it, or nobody says who did.
    """
    # Browsers send this where the page came by HTTPS or from the same machine; no script can
    # change it, and no proxy on the way needs to be understood.
    site = headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise Refused("This change was sent from another site, and was not made.")
        return
    origin = headers.get("origin", "")
    if _host(origin) not in {_host(f"//{headers.get('host', '')}"), *hosts} - {""}:
        raise Refused(
            "This change was not sent from a page of this site, and was not made. Scripts send "
            "Airflow's token as `Authorization: Bearer …`; behind a proxy, [api] base_url has to "
            "be the address that browsers see."
        )


def hosts_of(base_url: str) -> frozenset[str]:
    """The host and port in the site's own address; nothing where it has none."""
    return frozenset({_host(base_url)} - {""})


def _host(address: str) -> str:
    """Host and port of an address; the ports that go without saying are left out."""
    try:
        netloc = urlsplit(address).netloc.lower().rpartition("@")[2]
    except ValueError:  # a bracket that is not closed
        return ""
    for usual in (":80", ":443"):
        netloc = netloc.removesuffix(usual)
    return netloc
