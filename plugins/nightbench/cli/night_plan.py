"""`nightbench plan --night`: what a night would hold, beforehand."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any

from rich.table import Table

from nightbench.cli import common
from nightbench.cli.common import out, say
from nightbench.core.budget import CaseHistory, Entry, NightPlan, duration
from nightbench.core.errors import UserError
from nightbench.core.hours import Hours
from nightbench.core.model import Cluster, Suite
from nightbench.core.sentences import sentence

_MINUTE = "%Y-%m-%d %H:%M"


def show_night(chosen: common.Chosen, at: str | None, *, json: bool) -> None:
    """Print which cases the night has room for, when each begins, and what is left out and why.

    Args:
        chosen: the suite and its cluster.
        at: the night that goes on then, or comes next; now when None.
        json: as JSON.

    Raises:
        UserError: the time cannot be read, or the hours never hold together.
    """
    from nightbench.night.night_plan import plan_night

    suite, cluster = chosen.suite, chosen.cluster
    place = zone_of(suite, cluster)
    past = common.past(cluster.name)
    night = plan_night(suite, cluster, chosen.catalog, past, moment(at, place))
    if json:
        common.print_json([_document(chosen, entry, past) for entry in night.entries])
    else:
        _show(night, past, chosen, place)


def moment(text: str | None, place: tzinfo) -> datetime:
    """Read a date with its time of day; without an offset it is the time at a place.

    Raises:
        UserError: the text is none.
    """
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f'at: found "{text}"; expected a date with its time, such as 2026-11-21T22:00'
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=place)


def zone_of(suite: Suite, cluster: Cluster) -> tzinfo:
    """Return the time zone in which a suite's nights are spoken of."""
    written = suite.night.window or cluster.window
    return Hours.parse(written).zone if written else UTC


def _show(
    night: NightPlan, past: dict[str, CaseHistory], chosen: common.Chosen, place: tzinfo
) -> None:
    nodes = {case_id: " ".join(names) for case_id, names in _nodes(chosen).items()}
    inside = Table()
    for name in (f"begins ({place})", "case", "on", "takes", "last tried"):
        inside.add_column(name, overflow="fold")
    for entry in night.entries:
        if entry.start is None:
            continue
        last = past.get(entry.case_id, CaseHistory()).last
        inside.add_row(
            f"{entry.start.astimezone(place):{_MINUTE}}",
            entry.case_id,
            nodes[entry.case_id],
            f"{duration(entry.seconds)}{' (guessed)' if entry.guessed else ''}",
            f"{last.astimezone(place):%Y-%m-%d}" if last else "never",
        )
    if inside.row_count:
        out.print(inside)
    for case_id, reason in night.left_out.items():
        say(f"left out: {case_id}: {sentence(reason)}")
    room = night.room
    begins = f"{room.start.astimezone(place):{_MINUTE}}"
    last_end = f"{night.end.astimezone(place):{_MINUTE}}"
    count = len(night.entries) - len(night.left_out)
    words = f"the night begins at {begins}; "
    if count:
        words += f"{count} of {len(night.entries)} cases end by {last_end}"
    else:
        words += f"none of {len(night.entries)} cases fits"
    if room.end is None:
        say(f"{words}; nothing limits it")
    else:
        say(f"{words}; it ends at {room.end.astimezone(place):{_MINUTE}} ({room.why})")


def _nodes(chosen: common.Chosen) -> dict[str, list[str]]:
    from nightbench.core.placement import nodes_for

    return {
        case.case_id: [node.name for node in nodes_for(case, chosen.cluster)]
        for case in chosen.suite.cases
    }


def _document(chosen: common.Chosen, entry: Entry, past: dict[str, CaseHistory]) -> dict[str, Any]:
    last = past.get(entry.case_id, CaseHistory()).last
    return {
        "case_id": entry.case_id,
        "cluster": chosen.cluster.name,
        "nodes": _nodes(chosen)[entry.case_id],
        "start": entry.start.isoformat() if entry.start else None,
        "estimate_s": entry.seconds,
        "guessed": entry.guessed,
        "last_tried": last.isoformat() if last else None,
        "left_out": entry.left_out and entry.left_out.to_json(),
    }
