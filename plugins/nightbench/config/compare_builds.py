"""Builds of requested comparisons: those of a form, and wheels by address from a cluster's list."""

import hashlib
import os
import re
import urllib.error
import urllib.request
from email.message import Message
from typing import IO, Any

from nightbench.config import locations
from nightbench.config.builds import locked_staging, parse_untrusted_build, wheel_version
from nightbench.core.errors import UserError
from nightbench.core.model import Build, Cluster

MOST_BYTES = 8 * 1024**3
"""Of a wheel: those of GPU lines have 1 to 3 GB."""

TIMEOUT_S = 60.0
_CHUNK = 1024 * 1024
_URL = re.compile(
    r"(?P<folder>https?://[A-Za-z0-9][\w.:-]*/(?:[\w.~+-]+/)*)"
    r"(?P<name>\w[\w.+!-]*\.whl)(?:#sha256=(?P<sha256>[0-9a-f]{64}))?\Z",
    re.ASCII,
)


def planned_build(text: str, cluster: Cluster) -> Build:
    """Read a build that a request names, before anything of it is fetched.

    A wheel by address stands as the version that its name says: enough to plan with.

    Raises:
        UserError: the text is no build, or names what nobody has allowed.
    """
    if (found := _address(text, cluster)) is None:
        return parse_untrusted_build(text, cluster)
    name = locations.wheels_folder() / found["name"]
    return Build(text.partition("=")[0], "", "index", wheel_version(name))


def fetch_wheel(text: str, cluster: Cluster) -> str:
    """Return a build whose wheel lies here: one by address is fetched, and looked at by nobody.

    Raises:
        UserError: the address is not allowed, nothing is there, or its digest is another one.
    """
    if (found := _address(text, cluster)) is None:
        return text
    line, _, url = text.partition("=")
    folder = locations.wheels_folder()
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{found['name']}.{os.getpid()}"
    try:
        digest = _download(url.partition("#")[0], beside)
        if found["sha256"] not in (None, digest):
            raise UserError(f'build: found "{text}" with sha256 {digest}; expected the one named')
        with locked_staging():
            place = folder / digest[:16] / found["name"]
            place.parent.mkdir(exist_ok=True)
            beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)
    return f"{line}={place}"


def _address(text: str, cluster: Cluster) -> re.Match[str] | None:
    """Return the parts of a wheel's address; None where the build is named in another way."""
    value = text.partition("=")[2]
    if not value.startswith(("http://", "https://")):
        return None
    found = _URL.match(value)
    allowed = cluster.compare.wheel_urls
    segments = found["folder"].split("/") if found else []
    if found is None or ".." in segments or not found["folder"].startswith(allowed):
        below = " or ".join(allowed) or "one of compare.wheel_urls, of which there is none"
        raise UserError(
            f'build: found "{text}"; expected a wheel (.whl) below {below} (cluster '
            f"{cluster.name}), with #sha256=… or without"
        )
    return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An address that leads elsewhere may lead where nobody has allowed."""

    def redirect_request(
        self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Follow none: urllib then raises what the server answered."""


def _download(url: str, place: os.PathLike[str]) -> str:
    digest, size = hashlib.sha256(), 0
    try:
        with (
            urllib.request.build_opener(_NoRedirect).open(url, timeout=TIMEOUT_S) as answer,
            open(place, "xb") as file,
        ):
            while chunk := answer.read(_CHUNK):
                size += len(chunk)
                if size > MOST_BYTES:
                    raise UserError(f"build: {url} is larger than {MOST_BYTES} bytes")
                digest.update(chunk)
                file.write(chunk)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise UserError(f"build: {url} cannot be fetched: {error}") from None
    return digest.hexdigest()
