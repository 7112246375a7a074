"""Actions of people on alerts: parses and checks the fields of forms and of the API. Pure.

The functions of schema triage decide which changes are allowed. `actions_for` returns those that
pages offer; a test compares both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.hours import moment
from nightbench.core.printable import UNSTORED, has_control_characters
from nightbench.warehouse import MoveRefused, Triage
from nightbench.web.errors import BadInput

REASONS = {"false_alarm": "false alarm", "intended": "intended", "wont_fix": "won't fix"}
"""Reasons to dismiss an alert, with their labels."""

LIVE = ("open", "acknowledged")
STATES = (*LIVE, "resolved", "dismissed")

WHY_CHARACTERS = 2000
OWNER_CHARACTERS = 200
LONGEST_SNOOZE = timedelta(days=366)


@dataclass(frozen=True)
class Action:
    """One action on an alert."""

    name: str
    label: str
    hint: str
    states: tuple[str, ...]
    """States in which pages offer it."""
    to: str = ""
    """The state that it leads to; empty where it leaves the state as it is."""
    field: str = ""
    """The field that it needs beside `why`: reason, until or owner."""


ACTIONS = {
    action.name: action
    for action in (
        Action("acknowledge", "Acknowledge", "You are working on it.", ("open",), "acknowledged"),
        Action(
            "resolve",
            "Resolve",
            "The cause is fixed. If the drop continues, it is reported again.",
            LIVE,
            "resolved",
        ),
        Action(
            "dismiss",
            "Dismiss",
            "Close the alert. The series opens a new one only if it drops further.",
            LIVE,
            "dismissed",
            "reason",
        ),
        Action(
            "reopen",
            "Reopen",
            "Open the alert again, with its history.",
            ("acknowledged", "resolved", "dismissed"),
            "open",
        ),
        Action(
            "snooze",
            "Snooze",
            "Send no message until this date; then report it again.",
            LIVE,
            "",
            "until",
        ),
        Action("assign", "Assign", "Set the owner. Empty: no owner.", LIVE, "", "owner"),
    )
}


def actions_for(state: str) -> tuple[Action, ...]:
    """Return the actions on an alert in a state."""
    return tuple(action for action in ACTIONS.values() if state in action.states)


_TEXT = {"type": ["string", "null"], "pattern": f"^[^{UNSTORED}]*$"}
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "why": {**_TEXT, "maxLength": WHY_CHARACTERS},
    "reason": {"enum": list(REASONS)},
    "until": {"type": "string", "maxLength": 80},
    "owner": {**_TEXT, "maxLength": OWNER_CHARACTERS},
    "group": {"type": "boolean"},
}


def _body(*names: str, required: str = "") -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _FIELDS[name] for name in names if name},
        "required": [required] if required else [],
        "additionalProperties": False,
    }


WHY_BODY = _body("why")
"""JSON Schema of the body of a change that takes a reason and nothing else."""


def body_of(action: Action) -> dict[str, Any]:
    """Return the JSON Schema of the body of an action."""
    return _body("why", action.field, "group", required=action.field)


Change = Callable[[Triage, int], str]
"""A change of one alert; returns its state before."""


def parse_change(action: Action, given: Mapping[str, object], now: datetime) -> Change:
    """Return the change that fields describe; values are texts, absent ones are empty.

    Raises:
        BadInput: an unknown field, or an invalid value.
    """
    known = {"why", action.field} - {""}
    if unknown := sorted(set(given) - known):
        raise BadInput(
            f"{unknown[0][:80]}: {action.name} takes {', '.join(sorted(known))} and nothing else"
        )
    why = _text(given, "why", WHY_CHARACTERS)
    if action.name == "snooze":
        until = _until(_text(given, "until", 80), now)
        return lambda triage, alert_id: triage.snooze(alert_id, until, why)
    if action.name == "assign":
        if "owner" not in given:
            raise BadInput('owner: expected a name, or "" for no owner')
        owner = _text(given, "owner", OWNER_CHARACTERS)
        return lambda triage, alert_id: triage.assign(alert_id, owner, why)
    reason = _reason(_text(given, "reason", 80)) if action.field == "reason" else None
    return lambda triage, alert_id: triage.move(alert_id, action.to, why, reason)


def apply_change(
    change: Change,
    action: Action,
    triage: Triage,
    alert: Mapping[str, Any],
    group: Sequence[Any],
) -> None:
    """Apply a change to an alert, and to those of its group whose state allows it.

    Each is a change of its own. An alert that somebody else has changed meanwhile is left alone;
    sending the same again completes a group that was interrupted.

    Raises:
        MoveRefused: nothing was changed.
    """
    refused, changed = None, 0
    for row in group or [alert]:
        # A single alert goes to the warehouse, which refuses it with a reason.
        if group and row["state"] not in action.states:
            continue
        try:
            change(triage, row["alert_id"])
            changed += 1
        except MoveRefused as error:
            refused = error
    if not changed:
        raise refused or MoveRefused(f"No alert of the group can be changed so ({action.name}).")


def one_line(given: Mapping[str, object], name: str) -> str:
    """Return a text of a body on one line, empty if it is absent.

    Raises:
        BadInput: it is no text, too long, or has several lines.
    """
    return " ".join(_text(given, name, WHY_CHARACTERS).split())


def _text(given: Mapping[str, object], name: str, longest: int) -> str:
    value = given.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name}: found {type(value).__name__}, expected a text")
    text = value.replace("\r\n", "\n").strip()
    if len(text) > longest:
        raise BadInput(f"{name}: found {len(text)} characters, expected {longest} at most")
    if has_control_characters(text):
        raise BadInput(f"{name}: found a control character, expected a text")
    return text


def _until(text: str, now: datetime) -> datetime:
    try:
        found = moment(text, now)
    except UserError as error:
        raise BadInput(str(error)) from None
    if not now < found <= now + LONGEST_SNOOZE:
        raise BadInput(
            f'until: found "{text}", expected a time to come, {LONGEST_SNOOZE.days} days ahead at '
            "most"
        )
    return found


def _reason(text: str) -> str:
    found = text.replace("-", "_")
    if found not in REASONS:
        raise BadInput(f'reason: found "{found}", expected {", ".join(REASONS)}')
    return found
