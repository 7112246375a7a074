"""What goes wrong on the pages, each with its HTTP status."""

from __future__ import annotations

from nightbench.core.errors import UserError
from nightbench.warehouse import MoveRefused


class WebError(UserError):
    """An error of the request, with its HTTP status."""

    status: int


class NotFound(WebError):
    """There is nothing of that name."""

    status = 404


class BadInput(WebError):
    """A field that is not known, or a value that cannot be used."""

    status = 422


class Refused(WebError):
    """The request does not prove that its user meant to send it."""

    status = 403


def status_of(error: UserError) -> int:
    """HTTP status of an error: any that is no error of the request is the warehouse's, 503."""
    if isinstance(error, WebError):
        return error.status
    return 409 if isinstance(error, MoveRefused) else 503
