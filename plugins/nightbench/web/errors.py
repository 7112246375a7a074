"""Errors of the pages with their HTTP status."""

from nightbench.core.errors import UserError
from nightbench.warehouse import MoveRefused
from nightbench.web.api_model import ApiModel


class ApiError(ApiModel):
    """The answer of every request that fails."""

    detail: str
    """Description of the error, for people."""


class WebError(UserError):
    """An error of the request, with its HTTP status."""

    status: int


class NotFound(WebError):
    """There is nothing of that name."""

    status = 404


class BadInput(WebError):
    """An unknown field or an invalid value."""

    status = 422


class Refused(WebError):
    """The request does not prove that its user meant to send it."""

    status = 403


def status_of(error: UserError) -> int:
    """Return the HTTP status of an error: 503 for errors of the warehouse."""
    if isinstance(error, WebError):
        return error.status
    return 409 if isinstance(error, MoveRefused) else 503
