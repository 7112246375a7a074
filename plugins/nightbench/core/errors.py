"""The errors that a user can do something about."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from nightbench.core.printable import without_controls

log = logging.getLogger(__name__)

LONGEST_VALUE = 200
"""Characters of a value that is echoed in quotes."""

LONGEST_LINE = 2000
"""Characters of a line of a message."""

_QUOTED = re.compile(r'"([^"\n]*)"')
_WORD = re.compile(r"\S{300,}")
_FOUND = re.compile(r"(?<=found )'([^'\n]*)'")


class UserError(Exception):
    """An error that the user can fix; the command prints it and ends without a traceback.

    The message names the place (file, line, key or host), the value found, what was expected, and
    what to do. Values of any length may be put into it: what is longer than a person reads is cut.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(bounded(message))


class ItemErrors(dict[str, Exception]):
    """Reads items of many: the error of one is logged and kept, and the others continue.

    errors = ItemErrors()
    for run in runs:
        with errors.of(f"run {run.run_id}"):
            ...
    """

    @contextmanager
    def of(self, item: str) -> Iterator[None]:
        """Keep the error of an item: what a user can fix, or a file that cannot be reached."""
        try:
            yield
        except (UserError, OSError) as error:
            log.error("%s", without_controls(f"{item}: {error}"))
            self[item] = error


class WarehouseUnavailable(UserError):
    """PostgreSQL is away or does not let us in; what waits in the spool can be loaded later."""


class WarehouseRefused(UserError):
    """PostgreSQL answered, and refused the data or the statement; nothing was stored."""


def bounded(message: str) -> str:
    """Return a message with long values in quotes, and lines that are longer still, cut."""
    message = _QUOTED.sub(lambda match: f'"{_cut(match[1], LONGEST_VALUE)}"', message)
    message = _FOUND.sub(lambda match: f"'{_cut(match[1], LONGEST_VALUE)}'", message)
    message = _WORD.sub(lambda match: _cut(match[0], LONGEST_VALUE), message)
    return "\n".join(_cut(line, LONGEST_LINE) for line in message.split("\n"))


def _cut(text: str, longest: int) -> str:
    """Return a text with its middle left out, and how much that was, if it is too long."""
    if len(text) <= longest:
        return text
    kept = longest // 2
    return f"{text[:kept]}… ({len(text) - 2 * kept} characters) …{text[-kept:]}"
