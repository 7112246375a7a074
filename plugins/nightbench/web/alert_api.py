"""The JSON API of alerts: reading them, and what people do with them."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from fastapi import HTTPException, Query, Request

from nightbench.config.validate import parsed
from nightbench.core.errors import UserError
from nightbench.core.model.alerts import CauseEvidence
from nightbench.core.sentences import evidence_sentence, unplanned_sentences
from nightbench.warehouse import Triage
from nightbench.warehouse.alert_actions import (
    REASONS,
    STATES,
    Action,
    actions_for,
    apply_change,
)
from nightbench.warehouse.alerts import LIVE, worst_first
from nightbench.warehouse.pages import OpenPages, PageRepository
from nightbench.warehouse.repository import Row
from nightbench.web.alert_models import AlertDetail, AlertGroups, AlertList
from nightbench.web.api_model import first_readable, readable
from nightbench.web.experiment_models import BisectSearch
from nightbench.web.guard import PageUser, refuse_unmeant
from nightbench.web.ui_models import AlertGroupRow

T = TypeVar("T")

OpenTriage = Callable[[str], AbstractContextManager[Triage]]
"""Opens, by a person's name, what a request changes alerts through."""

Together = Literal["cause", "onset", "nothing"]
"""Common property of the alerts of one row: their cause, the first slow run, or nothing."""

_KEYS: Mapping[Together, Callable[[Row], object]] = {
    "cause": lambda row: row["group_key"],
    "onset": lambda row: (row["cluster"], row["first_bad_run_id"] or row["opened_run_id"]),
    "nothing": lambda row: row["alert_id"],
}

Asked = Literal["", "live", "all", "open", "acknowledged", "resolved", "dismissed"]
"""Filter of a request: a state, the live ones, or all."""

MOST = 1000


def _states_of(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the requested states; None for all states; the live states by default."""
    given = [state for state in names if state]
    if "all" in given:
        return None
    live = LIVE if "live" in given or not given else ()
    return tuple(dict.fromkeys([*live, *(state for state in given if state in STATES)]))


@contextmanager
def _known_alert(open_repository: OpenPages, alert_id: int) -> Iterator[tuple[PageRepository, Row]]:
    with open_repository() as repository:
        row = repository.alert(alert_id)
        if row is None:
            raise HTTPException(404, f"There is no alert {alert_id}.")
        yield repository, row


def _group_of(repository: PageRepository, row: Row) -> Sequence[Row]:
    """Return all alerts of an alert's cause, itself included; empty if it is the only one."""
    key = row.get("group_key")
    found = repository.group(key) if key else ()
    return found if len(found) > 1 else ()


@dataclass(frozen=True)
class AlertApi:
    """Handlers of the API for alerts."""

    repository: OpenPages
    triage: OpenTriage
    base_url: str

    def index(
        self,
        state: Annotated[list[Asked] | None, Query()] = None,
        cluster: str = "",
        framework: str = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
        size: Annotated[int, Query(ge=1, le=MOST)] = 200,
    ) -> AlertList:
        """Alerts, newest first; the live ones unless states are named."""
        chosen = _chosen(state, cluster, framework)
        with self.repository() as repository:
            rows = repository.find_alerts(**chosen, max_rows=size, skipped=(page - 1) * size)
            total = len(repository.read("page_alert_marks", **chosen))
        return AlertList.of(alerts=rows, total=total, page=page, size=size)

    def groups(
        self,
        state: Annotated[list[Asked] | None, Query()] = None,
        cluster: str = "",
        framework: str = "",
        together: Together = "cause",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
        size: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> AlertGroups:
        """Alerts of one cause or onset in one item, the worst first."""
        with self.repository() as repository:
            chosen = _chosen(state, cluster, framework)
            marks = repository.read("page_alert_marks", **chosen)
            groups = worst_first(marks, _KEYS[together])
            items = group_rows(repository, groups[(page - 1) * size : page * size])
        return AlertGroups(items=items, total=len(groups), alerts=len(marks), page=page, size=size)

    def show(self, request: Request, alert_id: int) -> AlertDetail:
        """One alert with its history, and what its reader may do with it."""
        user: PageUser = request.state.nightbench_user
        with _known_alert(self.repository, alert_id) as (repository, row):
            group = _group_of(repository, row)
            evidence = map(CauseEvidence.from_json, row["evidence"] or ())
            return AlertDetail.of(
                row,
                unplanned=unplanned_sentences(repository.read("unmeasured_alerts")).get(
                    alert_id, ""
                ),
                evidence_sentences=[evidence_sentence(each) for each in evidence],
                events=repository.read("alert_events", alert_id=alert_id),
                bisects=readable(BisectSearch.of_row, repository.bisects(alert_id)),
                group=group,
                actions=[
                    vars(each) | {"label": each.label, "field": each.field}
                    for each in (actions_for(row["state"]) if user.may_change else ())
                ],
                reasons=REASONS,
            )

    def changing(self, action: Action) -> Callable[[Request, int], AlertDetail]:
        """Return the handler of an action."""

        def change(request: Request, alert_id: int) -> AlertDetail:
            refuse_unmeant(request.headers, self.base_url)
            change = sent(action.request, request)
            user: PageUser = request.state.nightbench_user
            with _known_alert(self.repository, alert_id) as (repository, row):
                group = _group_of(repository, row) if change.group else ()
            with self.triage(user.name) as triage:
                apply_change(change, action, triage, row, group)
            return self.show(request, alert_id)

        change.__doc__ = f"{action.label}: {action.hint}"
        return change


def _chosen(state: Sequence[str] | None, cluster: str, framework: str) -> Row:
    return {
        "states": _states_of(state or []),
        "cluster": cluster or None,
        "framework": framework or None,
    }


def group_rows(repository: PageRepository, groups: Sequence[Sequence[Row]]) -> list[AlertGroupRow]:
    """Return groups of alerts, each with its worst alert, the first of the group."""
    heads = repository.alerts([group[0]["alert_id"] for group in groups])
    medians = repository.sparklines((row["case_id"], row["cluster"]) for row in heads.values())
    bisects = repository.newest_bisects([row["alert_id"] for group in groups for row in group])
    found = []
    for group in groups:
        head = heads[group[0]["alert_id"]]
        bisect = next((bisects[i] for each in group if (i := each["alert_id"]) in bisects), None)
        row = AlertGroupRow.of(
            head=head,
            alerts=len(group),
            states=Counter(each["state"] for each in group),
            medians=medians.get((head["case_id"], head["cluster"]), []),
            bisect=bisect and first_readable(BisectSearch.of_row, bisect),
        )
        found.append(row)
    return found


def document_of(request: Request) -> dict[str, object]:
    """Return the JSON object that a request was sent with; empty without a body.

    Raises:
        HTTPException: it is no JSON object.
    """
    body: bytes = request.state.nightbench_body
    if not body.strip():
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(422, "Content-Type: expected application/json")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(422, "The body cannot be read as JSON.") from None
    if not isinstance(found, dict):
        raise HTTPException(422, 'The body: expected an object such as {"why": "…"}')
    return found


def sent(kind: type[T], request: Request) -> T:
    """Return the body of a request as its class.

    Raises:
        HTTPException: an unknown field, or an invalid value.
    """
    try:
        return parsed(kind, document_of(request))
    except UserError as error:
        raise HTTPException(422, str(error)) from None
