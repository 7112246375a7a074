"""The JSON API of comparisons that people request: asking, the queue, what came of it."""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from nightbench.config.compare_builds import committed
from nightbench.core.compare_queue import Planned, Shares, Waiting, left_s, ordered
from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.core.hours import Hours, opening
from nightbench.core.model import Cluster
from nightbench.warehouse.compare_queue import CompareDesk
from nightbench.warehouse.pages import OpenPages, PageRepository
from nightbench.warehouse.repository import Row
from nightbench.web import compare_answer
from nightbench.web.alert_api import document_of, json_response
from nightbench.web.compare_request_models import (
    ClusterBudget,
    ComparisonBudgets,
    ComparisonEstimate,
    MeasuredByPerson,
    RequestedComparison,
    RequestedComparisons,
)
from nightbench.web.errors import BadInput, NotFound, Refused
from nightbench.web.guard import HEADERS, PageUser, refuse_unmeant
from nightbench.web.run_api import OpenSpool

log = logging.getLogger(__name__)

OpenDesk = Callable[[str], AbstractContextManager[CompareDesk]]
"""Opens, by a person's name, what a request changes the queue through."""

PATH = "nightbench/api/comparisons"
PAGE = "plugin/benchmarks/experiments/ab"
WAITING = ("held", "queued")
LIVE = (*WAITING, "running")
STATES = (*LIVE, "done", "failed", "refused", "cancelled")
WHY = 2000
TO = {"cancel": "cancelled", "allow": "queued", "refuse": "refused", "profile": "profiled"}
"""Action of a route -> what `triage.move_compare` is to do."""
PAGE_HEADERS = HEADERS | {
    "Content-Security-Policy": f"{HEADERS['Content-Security-Policy']}; style-src 'unsafe-inline'"
}
"""Of a page that brings its style."""


@dataclass(frozen=True)
class Comparing:
    """What the API asks of the rooms above it."""

    check: Callable[[Mapping[str, Any]], Row]
    """Body of a request -> row for the queue; raises `UserError` where it cannot be measured."""
    cluster: Callable[[str], Cluster]
    """A cluster by its name; raises `UserError` where there is none."""
    desk: OpenDesk
    profile_page: Callable[[str], str | None] = lambda _: None
    """The page of a profile by its id; None where the spool does not have it."""
    check_profile: Callable[[str], None] = lambda _: None
    """A framework line; raises `UserError` where it cannot be profiled."""


class ComparisonApi:
    """Handlers of the API for requested comparisons."""

    def __init__(
        self, repository: OpenPages, comparing: Comparing, spool: OpenSpool, base_url: str
    ) -> None:
        self._repository = repository
        self._spool = spool
        self._comparing = comparing
        self._base_url = base_url.rstrip("/")

    def index(
        self,
        request: Request,
        state: Annotated[list[str] | None, Query()] = None,
        requested_by: str = "",
        size: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> JSONResponse:
        """Requested comparisons, newest first; all unless states are named."""
        if unknown := sorted(set(state or ()) - set(STATES)):
            raise BadInput(f'state: found "{unknown[0][:80]}"; expected {", ".join(STATES)}')
        with self._repository() as repository:
            rows = repository.compares.find(None, state, requested_by or None, size)
            places = self._places(repository, rows)
        items = [self._state(request, row, places) for row in rows]
        return json_response(RequestedComparisons(items=items).model_dump())

    def budgets(self) -> JSONResponse:
        """What comparisons have measured in the last 24 hours, beside the clusters' budgets."""
        with self._repository() as repository:
            spent = repository.compares.spent()
            live = repository.compares.find(states=LIVE)
        items = []
        for name in sorted({row["cluster"] for row in live} | {cluster for cluster, _ in spent}):
            try:
                policy = self._comparing.cluster(name).compare
            except UserError as error:
                log.warning("%s", error)
                continue
            people = sorted(
                ((s, who) for (of, who), s in spent.items() if of == name), reverse=True
            )
            items.append(
                ClusterBudget(
                    cluster=name,
                    spent_s=sum(seconds for seconds, _ in people),
                    day_s=policy.day_s,
                    person_s=policy.person_s,
                    people=[MeasuredByPerson(person=who, spent_s=s) for s, who in people],
                )
            )
        return json_response(ComparisonBudgets(items=items).model_dump())

    def show(self, request: Request, request_id: int) -> JSONResponse:
        """Where one requested comparison stands."""
        row, places = self._known(request_id)
        return json_response(self._state(request, row, places).model_dump())

    def create(self, request: Request) -> JSONResponse:
        """Put a comparison into the queue."""
        row = self._checked(request)
        user: PageUser = request.state.nightbench_user
        with self._comparing.desk(user.name) as desk:
            request_id = desk.request(row)
        found, places = self._known(request_id)
        return json_response(self._state(request, found, places).model_dump(), 202)

    def estimate(self, request: Request) -> JSONResponse:
        """Say what a request would wait and take, without queueing it."""
        row = self._checked(request)
        user: PageUser = request.state.nightbench_user
        asked = {
            **row,
            "request_id": 2**63 - 1,
            "state": "queued",
            "requested_by": user.name,
            "queued_at": datetime.now(UTC),
            "spent_s": 0.0,
        }
        with self._repository() as repository:
            planned, starts_at = self._places(repository, [asked])[asked["request_id"]]
        found = ComparisonEstimate.of(
            asked, place=planned.place, starts_at=starts_at, waits_for=planned.why
        )
        return json_response(found.model_dump())

    def cancel(self, request: Request, request_id: int) -> JSONResponse:
        """End a comparison, now or after the launch that goes on."""
        return self._move(request, request_id, "cancel")

    def allow(self, request: Request, request_id: int) -> JSONResponse:
        """Put a fork's comparison into the queue."""
        return self._move(request, request_id, "allow")

    def refuse(self, request: Request, request_id: int) -> JSONResponse:
        """End a fork's comparison before anything of it is measured."""
        return self._move(request, request_id, "refuse")

    def profile(self, request: Request, request_id: int) -> JSONResponse:
        """Have both builds launched once more under a profiler."""
        return self._move(request, request_id, "profile")

    def comment(self, request_id: int) -> Response:
        """Markdown for one comment on the change: state, or answer."""
        row, places = self._known(request_id)
        planned, starts_at = places.get(request_id, (None, None))
        text = compare_answer.comment(
            row,
            link=self._links(row).get("page", self._links(row)["self"]),
            starts_at=starts_at,
            waits_for=planned.why if planned else "",
            ends_at=_ends_at(row),
        )
        return Response(text, media_type="text/markdown; charset=utf-8", headers=HEADERS)

    def result(self, request_id: int) -> JSONResponse:
        """The result with every round, as `nightbench ab --json` prints it."""
        row, _ = self._known(request_id)
        if row["result"] is None:
            raise NotFound(f"Comparison {request_id} is {row['state']} and has no result.")
        return json_response(row["result"])

    def junit(self, request_id: int) -> Response:
        """JUnit XML: a test for each case."""
        row, _ = self._known(request_id)
        return Response(compare_answer.junit(row), media_type="application/xml", headers=HEADERS)

    def build_log(self, request_id: int, arm: Literal["a", "b"]) -> Response:
        """What the build of a commit said; its end, where it is long."""
        row, _ = self._known(request_id)
        uploads = self._spool().uploads
        builds = (row["comparison_id"] and uploads.note(row["comparison_id"])) or {}
        log = uploads.log(builds[arm]["build"]) if arm in builds else None
        if log is None:
            raise NotFound(f"Of build {arm.upper()} of comparison {request_id} there is no log.")
        return Response(log, media_type="text/plain; charset=utf-8", headers=HEADERS)

    def profile_page(self, request_id: int) -> Response:
        """Where the time of both builds goes: tables and flame graphs."""
        row, _ = self._known(request_id)
        profile = compare_answer.profile_of(row)
        page = self._comparing.profile_page(profile["id"]) if profile else None
        if page is None:
            raise NotFound(f"Of comparison {request_id} there is no profile.")
        return Response(page, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    def _checked(self, request: Request) -> Row:
        refuse_unmeant(request.headers, self._base_url)
        try:
            return self._comparing.check(document_of(request))
        except (WarehouseUnavailable, WarehouseRefused, BadInput):
            raise
        except UserError as error:
            raise BadInput(str(error)) from None

    def _move(self, request: Request, request_id: int, action: str) -> JSONResponse:
        refuse_unmeant(request.headers, self._base_url)
        given = document_of(request)
        why = given.pop("why", "")
        if given or not isinstance(why, str) or len(why) > WHY or not why.isprintable():
            raise BadInput(f"why: expected one line of at most {WHY}, and no other field")
        row, _ = self._known(request_id)
        user: PageUser = request.state.nightbench_user
        if action in ("cancel", "profile") and not _is_theirs(row, user):
            raise Refused(
                f"Comparison {request_id} is {row['requested_by']}'s: an op may {action} it."
            )
        if action == "profile":
            try:
                self._comparing.check_profile(row["a"].partition("=")[0])
            except UserError as error:
                raise BadInput(str(error)) from None
        with self._comparing.desk(user.name) as desk:
            desk.move(request_id, TO[action], why)
        return self.show(request, request_id)

    def _known(self, request_id: int) -> tuple[Row, "_Places"]:
        with self._repository() as repository:
            for row in repository.compares.find(request_id):
                return row, self._places(repository, [row])
        raise NotFound(f"There is no comparison {request_id}.")

    def _places(self, repository: PageRepository, rows: Iterable[Row]) -> "_Places":
        """Return request_id -> where it stands in the queue of its cluster, for those queued."""
        wanted = {row["request_id"]: row for row in rows if row["state"] == "queued"}
        if not wanted:
            return {}
        known = {row["request_id"]: row for row in repository.compares.find(states=LIVE)} | wanted
        spent, now = repository.compares.spent(), datetime.now(UTC)
        found: _Places = {}
        for cluster in {row["cluster"] for row in wanted.values()}:
            mine = [row for row in known.values() if row["cluster"] == cluster]
            try:
                where = self._comparing.cluster(cluster)
            except UserError as error:
                log.warning("%s", error)
                why = f"there is no cluster {cluster} any more, or its file is wrong"
                for row in mine:
                    found[row["request_id"]] = Planned(row["request_id"], None, None, why), None
                continue
            begins = now
            if where.window and (span := opening([Hours.parse(where.window)], now)):
                begins = max(now, span.start)
            shares = Shares(
                where.compare, {who: s for (c, who), s in spent.items() if c == cluster}
            )
            for planned in ordered(_waiting(mine), shares, _busy_s(mine)):
                in_s = planned.starts_in_s
                at = None if in_s is None else begins + timedelta(seconds=in_s)
                found[planned.request_id] = planned, at
        return found

    def _state(self, request: Request, row: Row, places: "_Places") -> RequestedComparison:
        planned, starts_at = places.get(row["request_id"], (None, None))
        waits_for, ends_at = planned.why if planned else "", _ends_at(row)
        user: PageUser = request.state.nightbench_user
        return RequestedComparison.of(
            row,
            conclusion=compare_answer.conclusion(row),
            headline=compare_answer.headline(row, starts_at, waits_for, ends_at),
            place=planned.place if planned else None,
            starts_at=starts_at,
            ends_at=ends_at,
            waits_for=waits_for,
            links=self._links(row),
            may_cancel=row["state"] in LIVE and _is_theirs(row, user),
            may_profile=row["state"] in (*LIVE, "done")
            and row["profile"] is None
            and _is_theirs(row, user),
            may_decide=row["state"] == "held" and user.may_approve,
        )

    def _links(self, row: Row) -> dict[str, str]:
        own = f"{self._base_url}/{PATH}/{row['request_id']}"
        links = {
            "self": own,
            "comment": f"{own}/comment.md",
            "result": f"{own}/result.json",
            "junit": f"{own}/junit.xml",
        }
        if row["comparison_id"]:
            links["page"] = f"{self._base_url}/{PAGE}/{quote(row['comparison_id'])}"
            for arm in ("a", "b"):
                if committed(row[arm]):
                    links[f"{arm}_log"] = f"{own}/{arm}.log"
        if compare_answer.profile_of(row):
            links["profile"] = f"{own}/profile.html"
        return links


_Places = dict[int, tuple[Planned, datetime | None]]


def _waiting(rows: Iterable[Row]) -> list[Waiting]:
    return [Waiting.of(row) for row in rows if row["state"] == "queued"]


def _is_theirs(row: Row, user: PageUser) -> bool:
    return user.may_approve or (user.may_change and row["requested_by"] == user.name)


def _busy_s(rows: Iterable[Row]) -> float:
    """Return what the comparison that runs is expected to take still."""
    return max([0.0, *(left_s(row) for row in rows if row["state"] == "running")])


def _ends_at(row: Row) -> datetime | None:
    if row["state"] != "running" or not row["estimate_s"]:
        return None
    return datetime.now(UTC) + timedelta(seconds=left_s(row))
