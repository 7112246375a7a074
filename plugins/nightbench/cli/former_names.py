"""Commands that have another name now: each prints it and ends with exit code 2."""

from collections.abc import Sequence

FORMER: dict[tuple[str, ...], str] = {
    ("ab",): "compare",
    ("bisect",): "compare bisect",
    ("profile",): "compare profile",
    ("alert", "confirm"): "compare confirm",
}
"""Words of a former command -> words of the command now."""


def new_name(words: Sequence[str]) -> str | None:
    """Return what is called `nightbench ...` now; None if the words are no former command."""
    found = (now for was, now in FORMER.items() if tuple(words[: len(was)]) == was)
    return next(found, None)
