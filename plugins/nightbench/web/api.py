"""The alerts as JSON, for programs: the same rights, the same moves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import JSONResponse

from nightbench.web.actions import apply, read
from nightbench.web.alerts import (
    OpenDesk,
    OpenRepository,
    group_of,
    known_action,
    known_alert,
    states_of,
)
from nightbench.web.errors import BadInput, Refused
from nightbench.web.guard import HEADER, Visitor, has_bearer, refuse_foreign
from nightbench.web.rendering import HEADERS

MOST = 1000


class AlertApi:
    """What programs ask, and what they change."""

    def __init__(self, repository: OpenRepository, desk: OpenDesk, hosts: frozenset[str]) -> None:
        self._repository = repository
        self._desk = desk
        self._hosts = hosts

    def index(
        self,
        state: Annotated[list[str] | None, Query()] = None,
        cluster: str = "",
        framework: str = "",
        limit: Annotated[int, Query(ge=1, le=MOST)] = 200,
    ) -> JSONResponse:
        """Alerts, newest first; the live ones unless states are named."""
        with self._repository() as repository:
            rows = repository.find_alerts(
                states_of(state or []), cluster or None, framework or None, limit
            )
        return answer({"alerts": rows})

    def show(self, alert_id: int) -> JSONResponse:
        """One alert with its history and the searches for the version behind it."""
        with known_alert(self._repository, alert_id) as (repository, row):
            events, bisects = repository.alert_events(alert_id), repository.bisects(alert_id)
            return answer({**row, "events": events, "bisects": bisects})

    def change(self, request: Request, alert_id: int, action: str) -> JSONResponse:
        """Do something with an alert; answers what it is then."""
        if not has_bearer(request.headers):
            refuse_foreign(request.headers, self._hosts)
            if HEADER not in request.headers:
                raise Refused(f"A request that is logged in by a cookie sends the header {HEADER}.")
        chosen = known_action(action)
        given = _document(request)
        whole = given.pop("group", False)
        if not isinstance(whole, bool):
            raise BadInput("group: expected true or false")
        change = read(chosen, given, datetime.now(UTC))
        visitor: Visitor = request.state.nightbench_visitor
        with known_alert(self._repository, alert_id) as (repository, row):
            group = group_of(repository, row) if whole else ()
        with self._desk(visitor.name) as desk:
            apply(change, chosen, desk, row, group)
        return self.show(alert_id)


def answer(
    content: object, status: int = 200, more: Mapping[str, str] | None = None
) -> JSONResponse:
    """JSON with the headers of every answer."""
    return JSONResponse(_plain(content), status_code=status, headers={**(more or {}), **HEADERS})


def _document(request: Request) -> dict[str, object]:
    body: bytes = request.state.nightbench_body
    if not body.strip():
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadInput("Content-Type: expected application/json")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise BadInput("The body cannot be read as JSON.") from None
    if not isinstance(found, dict):
        raise BadInput('The body: expected an object such as {"why": "…"}')
    return found


def _plain(value: Any) -> Any:
    """What JSON can say: dates as ISO 8601, no figure instead of one that is none."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
