"""Views of warehouse rows: results in words, grades in sentences. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import percent, sentence, sentences
from nightbench.warehouse.repository import Row

GRADED_SLOWDOWN = "5%"
"""The planted slowdown in the sentence about grades; the table has all sizes."""
FALSE_ALARMS = "false alarms"


def result_state(row: Row) -> str:
    """Return a result in one word."""
    # A failed case fails a check as well; failed is more specific, as in the command's table.
    if row["status"] != "ok":
        return str(row["status"])
    if row["quarantined"]:
        return "quarantined"
    if row["private_build"]:
        return "private_build"
    return str(row["verdict"] or "measured")


def result_sentences(row: Row) -> list[str]:
    """Return the sentence of its verdict, or why it has none; the failed checks if quarantined."""
    if row["status"] == "ok" and row["quarantined"]:
        return [sentence(reason) for reason in reasons_from_json(row["quarantine_reasons"])]
    said = row["verdict_sentence"] or sentences(reasons_from_json(row["reasons"]))
    return [said] if said else []


# --- grades of the detector ---------------------------------------------------------------


def grade_sentences(grades: Iterable[Row]) -> list[str]:
    """Return one sentence for each suite and cluster with grades."""
    found = []
    for (suite, cluster), rows in itertools.groupby(
        grades, key=lambda row: (row["suite"], row["cluster"])
    ):
        by_measure = {row["measure"]: row for row in rows}
        parts = [_power(by_measure.get(GRADED_SLOWDOWN)), _alarms(by_measure.get(FALSE_ALARMS))]
        if said := "; ".join(filter(None, parts)):
            found.append(f"{suite} on {cluster}: {said}.")
    return found


def _power(row: Row | None) -> str:
    if row is None or row["rate"] is None:
        return ""
    delay = row["median_delay"]
    after = "" if delay is None else f", after {delay:g} nights in the median"
    return (
        f"the detector found {percent(row['rate'], 0)} ({percent(row['low'], 0)} to "
        f"{percent(row['high'], 0)}) of "
        f"{row['trials']:,} planted slowdowns of 5 % within two weeks{after}"
    )


def _alarms(row: Row | None) -> str:
    if row is None or row["rate"] is None:
        return ""
    return f"{row['rate']:.1f} false alarms in 1,000 nights ({row['low']:.1f} to {row['high']:.1f})"
