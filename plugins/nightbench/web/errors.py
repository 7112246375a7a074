"""What goes wrong on the pages, each with its HTTP status."""

from __future__ import annotations

from nightbench.core.errors import UserError


class WebError(UserError):
    """Something to be said to whoever asked; any other `UserError` is a warehouse that is away."""

    status = 503


class NotFound(WebError):
    """There is nothing of that name."""

    status = 404


class NotAllowed(WebError):
    """An alert in that state cannot be moved so."""

    status = 409


class BadInput(WebError):
    """What was sent cannot be read, or means nothing."""

    status = 422


class Refused(WebError):
    """It may be this person, but the request does not prove that they meant it."""

    status = 403
