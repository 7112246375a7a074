"""Commands that were renamed."""

import sys
from collections.abc import Sequence

import typer

FORMER: dict[tuple[str, ...], str] = {
    ("ab",): "compare",
    ("bisect",): "compare bisect",
    ("profile",): "compare profile",
    ("alert", "confirm"): "compare confirm",
    ("migrate",): "db migrate",
    ("backup",): "db backup",
    ("restore",): "db restore",
    ("sweep",): "clean --orphans",
    ("report",): "results --report FILE",
    ("noisy",): "series noisy",
    ("drifts",): "series drifts",
    ("backtest",): "grade --policy POLICY",
    ("load",): "offline load",
    ("plan", "--export"): "offline export",
}
"""Words of a former command, or a command and an option that it had -> the words now."""


def refuse_former_name(words: Sequence[str]) -> None:
    """Print the new name of a former command, and exit with code 2."""
    for was, now in FORMER.items():
        names = [word for word in was if not word.startswith("-")]
        if list(words[: len(names)]) == names and set(was) <= set(words):
            former = " ".join(("nightbench", *was))
            print(f"error: `{former}` is now `nightbench {now}`", file=sys.stderr)
            raise typer.Exit(2)
