"""The detector's grades in a sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from nightbench.web.repository import Row
from nightbench.web.series import percent

SHOWN = "5%"
"""The size of planted slowdown that the sentence is about; the table has all."""
FALSE_ALARMS = "false alarms"


def sentences(grades: Iterable[Row]) -> list[str]:
    """One sentence for each suite and cluster whose grades are known."""
    found = []
    for (suite, cluster), rows in groupby(grades, key=lambda row: (row["suite"], row["cluster"])):
        by_measure = {row["measure"]: row for row in rows}
        parts = [_power(by_measure.get(SHOWN)), _alarms(by_measure.get(FALSE_ALARMS))]
        if said := "; ".join(filter(None, parts)):
            found.append(f"{suite} on {cluster}: {said}.")
    return found


def _power(row: Row | None) -> str:
    if row is None or row["rate"] is None:
        return ""
    delay = row["median_delay"]
    after = "" if delay is None else f", after {delay:g} nights in the median"
    return (
        f"the detector told {percent(row['rate'], 0)} ({percent(row['low'], 0)} to "
        f"{percent(row['high'], 0)}) of "
        f"{row['trials']:,} planted slowdowns of 5 % within two weeks{after}"
    )


def _alarms(row: Row | None) -> str:
    if row is None or row["rate"] is None:
        return ""
    return f"{row['rate']:.1f} false alarms in 1,000 nights ({row['low']:.1f} to {row['high']:.1f})"
