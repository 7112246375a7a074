"""Commands that have another name now."""

import sys
from collections.abc import Sequence

import typer

FORMER: dict[tuple[str, ...], str] = {
    ("migrate",): "db migrate",
    ("backup",): "db backup",
    ("restore",): "db restore",
    ("sweep",): "clean --orphans",
    ("report",): "results --report FILE",
    ("noisy",): "series noisy",
    ("drifts",): "series drifts",
    ("backtest",): "grade --policy POLICY",
    ("load",): "offline load",
    ("k8s",): "offline k8s",
    ("plan", "--export"): "offline export",
}
"""Former command, with an option that it had -> what replaces it."""


def refuse_former_name(words: Sequence[str]) -> None:
    """Print the new name of a former command, and exit with code 2."""
    for (command, *options), now in FORMER.items():
        if words[:1] == [command] and set(options) <= set(words):
            former = " ".join(("nightbench", command, *options))
            print(f"error: `{former}` is now `nightbench {now}`", file=sys.stderr)
            raise typer.Exit(2)
