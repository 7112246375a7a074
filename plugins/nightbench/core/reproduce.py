"""Makes the command that measures an alert's case again. Pure."""

import shlex
from collections.abc import Mapping
from typing import Any


def command_of(
    suite: str, case_id: str, good: Mapping[str, Any] | None, bad: Mapping[str, Any] | None
) -> str:
    """Return a shell command: it compares the two builds, or runs the case if there is one.

    `good` and `bad` are rows of `case_states`: the last good run's, and the first bad run's or that
    of a run without a result.
    """
    old, new = (_build(state) if state else None for state in (good, bad))
    if old and new and old != new and good and bad and good["line"] == bad["line"]:
        words = ["compare", old, new, "--suite", suite, "--case", case_id]
    else:
        words = ["run", suite, "--case", case_id, *(["--build", new] if new else [])]
    return shlex.join(["nightbench", *words])


def _build(state: Mapping[str, Any]) -> str | None:
    """`LINE=BUILD` as the command line takes it; None if the build is unknown."""
    if not state.get("line"):
        return None
    if state.get("source") == "image":
        return None  # the cluster's file names it
    if state.get("source") != "index":
        return f"{state['line']}={state['location']}" if state.get("location") else None
    # The index does not have the local part of a wheel's version: 2.13.0+cpu is 2.13.0 there.
    version = (state.get("build_version") or state.get("framework_version") or "").split("+")[0]
    return f"{state['line']}={version}" if version else None
