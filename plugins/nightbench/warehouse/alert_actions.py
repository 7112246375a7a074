"""Actions of people on alerts: the requests of pages, scripts and the command, and their effect.

The functions of schema triage decide which changes are allowed. `actions_for` returns those that
pages offer; a test compares both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from nightbench.core.errors import UserError
from nightbench.core.hours import moment
from nightbench.core.printable import UNSTORED, has_control_characters
from nightbench.warehouse.alerts import LIVE, MoveRefused, Triage

REASONS = {"false_alarm": "false alarm", "intended": "intended", "wont_fix": "won't fix"}
"""Reasons to dismiss an alert, with their labels."""

STATES = (*LIVE, "resolved", "dismissed")

LONGEST_SNOOZE = timedelta(days=366)


# --- requests -----------------------------------------------------------------------------


def _at_most(longest: int) -> Callable[[str], str]:
    def check(value: str) -> str:
        if len(value) > longest:
            raise ValueError(f"found {len(value)} characters; expected {longest} at most")
        if has_control_characters(value):
            raise ValueError("found a control character; expected a text")
        return value.replace("\r\n", "\n")

    return check


def _schema(longest: int) -> WithJsonSchema:
    return WithJsonSchema(
        {"type": "string", "pattern": f"^[^{UNSTORED}]*$", "maxLength": longest, "default": ""}
    )


def _time_to_come(value: object) -> datetime:
    now = datetime.now(UTC)
    try:
        found = moment(str(value), now)
    except UserError as error:
        raise ValueError(str(error).removeprefix("until: ")) from None
    if not now < found <= now + LONGEST_SNOOZE:
        raise ValueError(
            f'found "{value}"; expected a future time, {LONGEST_SNOOZE.days} days ahead at most'
        )
    return found


class Explained(BaseModel):
    """A change of anything, with its reason."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, str_strip_whitespace=True)

    why: Annotated[str, AfterValidator(_at_most(2000)), _schema(2000)] = ""
    """Reason, kept in the history."""


class Move(Explained):
    """A change of an alert's state."""

    group: bool = False
    """Apply the change to all alerts of the same cause."""


class Dismissal(Move):
    """A change to the state dismissed."""

    reason: Annotated[
        Literal["false_alarm", "intended", "wont_fix"],
        BeforeValidator(lambda value: str(value).replace("-", "_")),
    ]
    """false_alarm, intended or wont_fix."""


class Snooze(Move):
    """A time before which an alert sends no message."""

    until: Annotated[
        datetime,
        BeforeValidator(_time_to_come),
        WithJsonSchema({"type": "string", "maxLength": 80}),
    ]
    """12h, 3d, 2w, a date or a time."""


class Assignment(Move):
    """The owner of an alert."""

    owner: Annotated[str, AfterValidator(_at_most(200)), _schema(200)]
    """A name; empty: no owner."""


# --- actions ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Action:
    """One action on an alert."""

    name: str
    hint: str
    states: tuple[str, ...]
    """States in which pages offer it."""
    request: type[Move] = Move
    to: str = ""
    """The state that it leads to; empty if it leaves the state as it is."""

    @property
    def label(self) -> str:
        """Its name on pages."""
        return self.name.capitalize()

    @property
    def field(self) -> str:
        """The field that its request requires: reason, until, owner or none."""
        fields = self.request.model_fields.items()
        return next((name for name, field in fields if field.is_required()), "")


ACTIONS = {
    action.name: action
    for action in (
        Action("acknowledge", "You are working on it.", ("open",), to="acknowledged"),
        Action(
            "resolve",
            "The cause is fixed. If the drop continues, it is reported again.",
            LIVE,
            to="resolved",
        ),
        Action(
            "dismiss",
            "Close the alert. The series opens a new one only if it drops further.",
            LIVE,
            Dismissal,
            "dismissed",
        ),
        Action("reopen", "Open the alert again, with its history.", STATES[1:], to="open"),
        Action("snooze", "Send no message until this date; then report it again.", LIVE, Snooze),
        Action("assign", "Set the owner. Empty: no owner.", LIVE, Assignment),
    )
}


def actions_for(state: str) -> tuple[Action, ...]:
    """Return the actions on an alert in a state."""
    return tuple(action for action in ACTIONS.values() if state in action.states)


def apply_change(
    change: Move,
    action: Action,
    triage: Triage,
    alert: Mapping[str, Any],
    group: Sequence[Any],
) -> int:
    """Apply a change to an alert, or to those of its group whose state allows it.

    Each is a change of its own. An alert that another user has changed meanwhile is left alone;
    sending the same again completes a group that was interrupted.

    Returns:
        How many alerts were changed.

    Raises:
        MoveRefused: nothing was changed.
    """
    refused, changed = None, 0
    for row in group or [alert]:
        # A single alert goes to the warehouse, which refuses it with a reason.
        if group and row["state"] not in action.states:
            continue
        try:
            _apply(change, action.to, triage, row["alert_id"])
            changed += 1
        except MoveRefused as error:
            refused = error
    if not changed:
        raise refused or MoveRefused(
            f"{action.label}: no alert of the group is {' or '.join(action.states)}."
        )
    return changed


def _apply(change: Move, to: str, triage: Triage, alert_id: int) -> None:
    match change:
        case Snooze():
            triage.snooze(alert_id, change.until, change.why)
        case Assignment():
            triage.assign(alert_id, change.owner, change.why)
        case Dismissal():
            triage.move(alert_id, to, change.why, change.reason)
        case _:
            triage.move(alert_id, to, change.why)
