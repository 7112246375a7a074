"""Runs the figures: all of them, or the one that is named with its own options."""

from __future__ import annotations

import importlib
import signal
import sys

FIGURES = (
    "one_gang",
    "many_gangs",
    "overhead",
    "detector",
    "detect",
    "histories",
    "bound",
    "clear",
    "real",
    "beside",
    "promises",
    "grades",
    "shared",
    "lines",
    "fleet",
    "warehouse",
)
NAMED = ("ablations", "bandwidth", "pages", "pictures", "pods", "training", "training_nights")
"""Run only if they are named: they take long, need root, or start a whole Airflow."""


def main(words: list[str]) -> int:
    """Run; the exit status of the first that failed."""
    known = (*FIGURES, *NAMED)
    if words and words[0] in ("-h", "--help"):
        print(f"usage: python -m tests.performance [{{{','.join(known)}}} [--help | options]]")
        return 0
    if words and words[0] not in known:
        print(f"{words[0]!r}: expected one of {', '.join(known)}", file=sys.stderr)
        return 2
    # Ends as after an exception: folders, servers and hosts that a figure made are removed.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    chosen = words[:1] or list(FIGURES)
    for name in chosen:
        module = importlib.import_module(f"tests.performance.{name}")
        # Some print lines of JSON on stdout and nothing else.
        print(f"== {name}: {module.__doc__.splitlines()[0]}", file=sys.stderr, flush=True)
        status: int = module.main(words[1:])
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
