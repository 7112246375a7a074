"""What measuring a suspect again says: from the answers of its comparisons to an outcome. Pure.

The fall that a night claims, and none at all, are what has to be told apart. So the bound lies
between them: half way, or at the suite's smallest change where that is nearer. An interval that
lies wholly below it confirms, one wholly above it does not, and one that holds it tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nightbench.core.model import Build
from nightbench.core.model.alerts import Confirmation, ConfirmationResult
from nightbench.experiments import paired
from nightbench.experiments.paired import LEAST_ROUNDS
from nightbench.night.suspected_regressions import SuspectedRegression

Document = Mapping[str, Any]
"""An answer, see `answers.answer`, with one case."""

_SAID = {
    ConfirmationResult.CONFIRMED: "the fall is there",
    ConfirmationResult.NOT_CONFIRMED: "the fall is not there",
    ConfirmationResult.INCONCLUSIVE: "too uneven to tell",
}


def smallest_effect(suspect: SuspectedRegression, min_change: float, *, has_two: bool) -> float:
    """The fall that an interval has to lie beyond, as a ratio less one: .015 for 1.5 %.

    Args:
        suspect: says how large the fall is.
        min_change: the suite's smallest change that is told.
        has_two: two builds beside each other have the hour in common, so a small rest of the fall
            is real as well. One build against a level of earlier nights has not: half way is what
            divides the levels best.
    """
    half = -math.log(suspect.value / suspect.baseline) / 2
    bound = min(half, -math.log1p(-min_change)) if has_two else half
    return math.expm1(bound)


def decide(low: float | None, high: float | None, effect: float) -> ConfirmationResult:
    """Say what an interval of a ratio means.

    Args:
        low: its lower bound; None where there were too few rounds for one.
        high: its upper bound.
        effect: see `smallest_effect`.
    """
    if low is None or high is None:
        return ConfirmationResult.INCONCLUSIVE
    bound = 1 / (1 + effect)
    if high < bound:
        return ConfirmationResult.CONFIRMED
    return ConfirmationResult.NOT_CONFIRMED if low > bound else ConfirmationResult.INCONCLUSIVE


def confirmation(
    suspect: SuspectedRegression,
    builds: tuple[Build, Build] | None,
    here: Document,
    there: Document | str | None,
) -> Confirmation:
    """The outcome by the night's own nodes; what others say stands in its sentence.

    Args:
        suspect: what is doubted.
        builds: the last good and the night's; None where they are one.
        here: the answer of the night's nodes.
        there: that of others, why there is none, or None where the cluster has no others.
    """
    found = _read(suspect, builds, here)
    if builds is None:
        what = (
            f"Nothing of the framework changed since the last good night, so "
            f"{_label(suspect.bad, suspect.bad_version)} was measured again against the baseline "
            f"of {suspect.baseline:.4g}"
        )
    else:
        good, bad = builds
        what = (
            f"{_label(bad, suspect.bad_version)} beside {_label(good, suspect.good_version)}, "
            "interleaved"
        )
    said = [f"{what}: {_figures(found, here)}, where the night lost {-suspect.change:.1%}"]
    said[0] += f": {_said(found.outcome, builds is None)}"
    if found.rounds < LEAST_ROUNDS:
        said = [f"{what}: {_why_few(here)}"]
    if isinstance(there, str):
        said.append(f"on other nodes: {there}")
    elif there is not None:
        other = _read(suspect, builds, there)
        said.append(f"{_figures(other, there)}: {_said(other.outcome, builds is None)}")
    return Confirmation(
        found.outcome, "; ".join(said) + ".", found.ratio, found.low, found.high, found.rounds
    )


def inconclusive(why: str) -> Confirmation:
    """Nothing was measured: why."""
    return Confirmation(ConfirmationResult.INCONCLUSIVE, f"It could not be measured again: {why}")


def _read(
    suspect: SuspectedRegression, builds: tuple[Build, Build] | None, document: Document
) -> Confirmation:
    (row,) = document["cases"]
    effect = document["min_effect"]
    if builds is not None:
        ratio, low, high, n = row["ratio"], row["low"], row["high"], row["n"]
    else:
        launches = [each[side] for each in row["rounds"] for side in ("a", "b")]
        level = paired.estimate([value / suspect.baseline for value in launches], effect)
        ratio, low, high, n = level.ratio, level.low, level.high, level.n
    return Confirmation(decide(low, high, effect), "", ratio, low, high, n)


def _figures(found: Confirmation, document: Document) -> str:
    nodes = ", ".join(document["cases"][0]["nodes"])
    if found.ratio is None or found.low is None or found.high is None:
        return f"on {nodes} {_why_few(document)}"
    return (
        f"on {nodes} {found.ratio - 1:+.1%} ({found.low - 1:+.1%} to {found.high - 1:+.1%}, "
        f"n {found.rounds})"
    )


def _why_few(document: Document) -> str:
    row = document["cases"][0]
    return f"{row['n']} of {document['rounds']} rounds: {row['stopped'] or 'too few'}"


def _said(outcome: ConfirmationResult, is_one: bool) -> str:
    if is_one and outcome is ConfirmationResult.CONFIRMED:
        return "it is still down"
    if is_one and outcome is ConfirmationResult.NOT_CONFIRMED:
        return "the level is back"
    return _SAID[outcome]


def _label(build: Build, version: str | None) -> str:
    if build.source == "index":
        return f"{build.line} {build.version or version or 'locked'}"
    return f"{build.line} {build.location}" + (f" ({version})" if version else "")
