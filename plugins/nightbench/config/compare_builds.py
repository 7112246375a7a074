"""Builds of requested comparisons: those of a form, wheels that were sent or are at an address."""

import hashlib
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from typing import IO, Any

from nightbench.config import locations
from nightbench.config.builds import locked_staging, parse_untrusted_build, wheel_version
from nightbench.core.errors import UserError
from nightbench.core.model import Build, Cluster

MOST_BYTES = 8 * 1024**3
"""Largest size of a wheel: those of GPU lines have 1 to 3 GB."""

TIMEOUT_S = 60.0
_CHUNK = 1024 * 1024
WHEEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]*\.whl")
"""Names of files that may be sent."""
_UPLOAD = re.compile(
    rf"[^=]+=upload:(?P<sha256>[0-9a-f]{{64}})/(?P<name>{WHEEL.pattern})", re.ASCII
)
MERGE_BASE = "merge-base"
"""In the place of a commit: where the other build's commit left the repository's branch."""
_COMMIT = re.compile(
    rf"[^=]+=commit:(?P<name>[\w.-]+)@(?P<commit>[0-9a-f]{{40}}|[0-9a-f]{{64}}|{MERGE_BASE})",
    re.ASCII,
)
_URL = re.compile(
    r"(?P<folder>https?://[A-Za-z0-9][\w.:-]*/(?:[\w.~+-]+/)*)"
    r"(?P<name>\w[\w.+!-]*\.whl)(?:#sha256=(?P<sha256>[0-9a-f]{64}))?\Z",
    re.ASCII,
)


def planned_build(text: str, cluster: Cluster) -> Build:
    """Read a build that a request names, before anything of it is fetched.

    A wheel by address counts as the version that its name says, a commit as the line's lock: enough
    to plan with.

    Raises:
        UserError: the text is no build, or names what is not allowed.
    """
    line, _, value = text.partition("=")
    if value.startswith("commit:"):
        known = cluster.compare.repositories
        if (of := committed(text)) is None or of[0] not in known:
            names = " or ".join(sorted(known)) or "one of compare.repositories, which is empty"
            raise UserError(
                f'build: found "{text}"; expected {line}=commit:REPOSITORY@COMMIT with the whole '
                f"hash of a commit, and as repository {names} (cluster {cluster.name})"
            )
        return Build(line, "", "index")
    if (found := _UPLOAD.fullmatch(text) or _address(text, cluster)) is None:
        return parse_untrusted_build(text, cluster)
    name = locations.wheels_folder() / found["name"]
    return Build(line, "", "index", wheel_version(name))


def committed(text: str) -> tuple[str, str] | None:
    """Return repository and commit of a build that names one; None of any other."""
    found = _COMMIT.fullmatch(text)
    return found and (found["name"], found["commit"])


def uploaded(text: str) -> tuple[str, str] | None:
    """Return digest and name of the wheel of a build that was sent; None of any other."""
    found = _UPLOAD.fullmatch(text)
    return found and (found["sha256"], found["name"])


def fetch_wheel(text: str, cluster: Cluster, opened: Callable[[str, str], IO[bytes]]) -> str:
    """Return a build whose wheel is here: one that was sent or is at an address is fetched.

    Its content is not checked.

    Args:
        text: a build as a request names it.
        cluster: says which addresses are allowed.
        opened: opens a wheel that was sent, by digest and name.

    Raises:
        UserError: the address is not allowed, nothing is there, or its digest is another one.
    """
    line, _, value = text.partition("=")
    if sent := uploaded(text):
        expected, name = sent
        with opened(expected, name) as file:
            place = _kept(text, file, name, expected)
    elif found := _address(text, cluster):
        url = value.partition("#")[0]
        try:
            with urllib.request.build_opener(_NoRedirect).open(url, timeout=TIMEOUT_S) as answer:
                place = _kept(text, answer, found["name"], found["sha256"])
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise UserError(f"build: {url} cannot be fetched: {error}") from None
    else:
        return text
    return f"{line}={place}"


def _kept(text: str, source: IO[bytes], name: str, expected: str | None) -> os.PathLike[str]:
    folder = locations.wheels_folder()
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{name}.{os.getpid()}"
    digest, size = hashlib.sha256(), 0
    try:
        with beside.open("xb") as file:
            while chunk := source.read(_CHUNK):
                size += len(chunk)
                if size > MOST_BYTES:
                    raise UserError(f"build: {text} is larger than {MOST_BYTES} bytes")
                digest.update(chunk)
                file.write(chunk)
        sha256 = digest.hexdigest()
        if expected not in (None, sha256):
            raise UserError(f'build: found "{text}" with sha256 {sha256}; expected the stated one')
        with locked_staging():
            place = folder / sha256[:16] / name
            place.parent.mkdir(exist_ok=True)
            beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)
    return place


def _address(text: str, cluster: Cluster) -> re.Match[str] | None:
    """Return the parts of a wheel's address; None if the build is named in another way."""
    value = text.partition("=")[2]
    if not value.startswith(("http://", "https://")):
        return None
    found = _URL.match(value)
    allowed = cluster.compare.wheel_urls
    segments = found["folder"].split("/") if found else []
    if found is None or ".." in segments or not found["folder"].startswith(allowed):
        below = " or ".join(allowed) or "one of compare.wheel_urls, which is empty"
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
