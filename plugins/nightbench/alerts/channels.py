"""Channels, and how messages are sent to them by Apprise.

A channel is an Apprise URL. Such URLs hold tokens, so no URL and no part of one is ever logged or
returned. A channel is named by its place in the suite's list and its scheme. A URL of the form
`apprise://conn/<conn_id>` names an Airflow Connection that holds the real one.
"""

import contextlib
import functools
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from logging.handlers import BufferingHandler
from typing import Any
from urllib.parse import unquote

from nightbench.alerts.plot_png import Picture
from nightbench.core.errors import UserError
from nightbench.core.model import Route

CONNECTION = re.compile(r"apprise://conn/(?P<conn_id>[A-Za-z0-9_.-]+)/?\Z")
"""Prefix of a channel whose URL is in a Connection."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)")
_SECRETS = re.compile(r"[^/:@?&=+#,]{3,}")
_HIDDEN = "***"

ResolveConnection = Callable[[str], str]
"""Connection id -> Apprise URL; its errors are reported as the delivery's."""


@dataclass(frozen=True)
class Channel:
    """A destination of messages."""

    place: str
    """Its place in the suite's file: `alerts[0]`, `routes[1].alerts[0]`."""
    url: str

    @property
    def name(self) -> str:
        """Its name, which holds no secret."""
        connection = CONNECTION.match(self.url)
        if connection is not None:
            return f"{self.place} connection {connection['conn_id']}"
        scheme = _SCHEME.match(self.url)
        return f"{self.place} {scheme.group() if scheme else 'without a scheme'}"


@dataclass(frozen=True)
class Delivery:
    """Result of sending a message to one channel."""

    channel: str
    """`alerts[0] slack`, or `alerts[1] connection benchmarks_slack`: holds no secret."""
    sent: bool
    error: str | None = None


def named(urls: Sequence[str], place: str = "alerts") -> list[Channel]:
    """Return the channels of a list in a suite's file."""
    return [Channel(f"{place}[{k}]", url) for k, url in enumerate(urls)]


def send(
    channels: Sequence[str | Channel],
    title: str,
    body: str,
    resolve: ResolveConnection | None = None,
    pictures: Sequence[Picture] = (),
) -> list[Delivery]:
    """Send to each channel, or URL, and return one delivery for each, in their order.

    Pictures go along if the channel takes attachments. If it refuses the message with them,
    it gets the message alone. A Connection that holds several services is one channel: each of
    them is tried by itself, and it took the message when all of them did.

    A channel that cannot be reached is reported in its delivery and never keeps the message from
    the others; nothing is raised for it. Blocks for as long as the channels take to answer
    (Apprise gives up after some seconds each).
    """
    given = [
        each if isinstance(each, Channel) else Channel(f"alerts[{k}]", each)
        for k, each in enumerate(channels)
    ]
    return [_send_to(channel, title, body, resolve, pictures) for channel in given]


def _send_to(
    channel: Channel,
    title: str,
    body: str,
    resolve: ResolveConnection | None,
    pictures: Sequence[Picture],
) -> Delivery:
    connection = CONNECTION.match(channel.url)
    if connection is None:
        return _notify(channel.name, channel.url, title, body, pictures)
    if resolve is None:
        return Delivery(channel.name, False, "connections can be read only inside Airflow")
    try:
        resolved = resolve(connection["conn_id"])
    except UserError as error:
        return Delivery(channel.name, False, str(error))
    except Exception as error:  # A secrets backend may raise any error.
        # Its text may quote the Connection's URL.
        return Delivery(
            channel.name, False, f"the connection cannot be read: {type(error).__name__}"
        )
    return _notify(channel.name, resolved, title, body, pictures)


def _notify(channel: str, url: str, title: str, body: str, pictures: Sequence[Picture]) -> Delivery:
    apprise = _apprise()
    with _captured() as said:
        notifier = apprise.Apprise()
        if not notifier.add(url) or not len(notifier):
            # Apprise's error about an unreadable URL quotes the URL.
            return Delivery(channel, False, "Apprise cannot read this URL: see its list of schemes")
        reasons = []
        for service in notifier:
            # Some services refuse a digest above their limit; the URL may change this setting.
            if "overflow=" not in url:
                service.overflow_mode = apprise.OverflowMode.SPLIT
            said.clear()
            # One by one, so that a retry does not repeat the message if it was accepted.
            if not _was_accepted(service, title, body, pictures):
                reasons.append(_reason(said, url))
        return Delivery(channel, not reasons, "; ".join(dict.fromkeys(reasons)) or None)


def _was_accepted(service: Any, title: str, body: str, pictures: Sequence[Picture]) -> bool:
    apprise = _apprise()
    alone = apprise.Apprise(service)
    return any(
        alone.notify(
            title=title,
            body=body,
            body_format=apprise.NotifyFormat.TEXT,
            attach=_attachments(attached),
        )
        for attached in ([pictures, ()] if pictures and service.attachment_support else [()])
    )


def _attachments(pictures: Sequence[Picture]) -> Any:
    if not pictures:
        return None
    from apprise.attachment import memory

    found = _apprise().AppriseAttachment()
    in_memory: Any = memory.AttachMemory
    for picture in pictures:
        found.add(in_memory(content=picture.data, name=picture.name, mimetype="image/png"))
    return found


@functools.cache
def _apprise() -> Any:
    """Return Apprise with its plugins: hundreds of modules, imported only before sending."""
    with warnings.catch_warnings():
        # Some plugins import modules that Python deprecates; the user cannot change that.
        warnings.simplefilter("ignore", DeprecationWarning)
        import apprise

        apprise.Apprise.instantiate("json://localhost")  # Loads the plugins.
    return apprise


MOST_WARNINGS = 1000
_SPEAKERS = ("apprise", "urllib3", "requests", "slixmpp", "paho")
"""Loggers that may quote a URL: Apprise's own, and those of what its plugins send with."""


@contextlib.contextmanager
def _captured() -> Iterator[list[logging.LogRecord]]:
    """Collect warnings, which may quote secrets, instead of logging them."""
    collector = BufferingHandler(MOST_WARNINGS)
    collector.setLevel(logging.WARNING)
    loggers = [logging.getLogger(name) for name in _SPEAKERS]
    before = [(one.handlers[:], one.propagate) for one in loggers]
    for one in loggers:
        one.handlers, one.propagate = [collector], False
    try:
        yield collector.buffer
    finally:
        for one, (handlers, propagate) in zip(loggers, before, strict=True):
            one.handlers, one.propagate = handlers, propagate


def _reason(records: Sequence[logging.LogRecord], url: str) -> str:
    """Return Apprise's last warning without any part of the URL."""
    said = [each.getMessage() for each in records if each.name.startswith("apprise")]
    text = " ".join(said[-1].split()) if said else "Apprise reported no reason"
    _, _, secret = url.partition("://")
    words = {w for part in _SECRETS.findall(secret) for w in (part, unquote(part))}
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, _HIDDEN)
    return text


def channels_of(urls: Sequence[str], routes: Sequence[Route]) -> list[Channel]:
    """Return every channel of a suite once, named by its first place."""
    every = named(urls)
    for place, route in enumerate(routes):
        every += named(route.alerts or (), f"routes[{place}].alerts")
    found: dict[str, Channel] = {}
    for channel in every:
        found.setdefault(channel.url, channel)
    return list(found.values())
