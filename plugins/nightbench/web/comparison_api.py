"""The JSON API of comparisons that people and CIs request: for scripts."""

from datetime import UTC, datetime
from typing import Literal

from fastapi import HTTPException, Request, Response

from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.warehouse.repository import Row
from nightbench.web import compare_answer
from nightbench.web.alert_api import document_of
from nightbench.web.api_model import JsonAnswer
from nightbench.web.experiment_api import ExperimentApi, expected_end
from nightbench.web.experiment_models import ComparisonEstimate, ExperimentItem
from nightbench.web.guard import HEADERS, PageUser, refuse_unmeant

PAGE_HEADERS = {
    "Content-Security-Policy": f"{HEADERS['Content-Security-Policy']}; style-src 'unsafe-inline'"
}
"""Security policy of a page with its own style."""


class ComparisonApi(ExperimentApi):
    """Handlers of the API for requested comparisons, which are experiments."""

    def show(self, request: Request, request_id: int) -> ExperimentItem:
        """The state of one requested comparison."""
        return self._answer(request, request_id)

    def create(self, request: Request) -> ExperimentItem:
        """Put a comparison into the queue."""
        row = self._checked(request)
        user: PageUser = request.state.nightbench_user
        with self.comparing.desk(user.name) as desk:
            request_id = desk.request(row)
        return self._answer(request, request_id)

    def estimate(self, request: Request) -> ComparisonEstimate:
        """Say what a request would wait and take, without queueing it."""
        row = self._checked(request)
        user: PageUser = request.state.nightbench_user
        asked = {
            **row,
            "experiment_id": 2**63 - 1,
            "state": "queued",
            "requested_by": user.name,
            "queued_at": datetime.now(UTC),
            "spent_s": 0.0,
        }
        with self.repository() as repository:
            planned, starts_at = self._places(repository, [asked])[asked["experiment_id"]]
        return ComparisonEstimate.of(
            asked,
            cases=row["request"]["cases"],
            place=planned.place,
            starts_at=starts_at,
            waits_for=planned.why,
        )

    def comment(self, request_id: int) -> Response:
        """Markdown for one comment on the change: state, or answer."""
        row, places = self._known(request_id)
        planned, starts_at = places.get(request_id, (None, None))
        text = compare_answer.comment(
            row,
            link=self._links(row).get("page", self._links(row)["self"]),
            starts_at=starts_at,
            waits_for=planned.why if planned else "",
            ends_at=expected_end(row),
        )
        return Response(text, media_type="text/markdown; charset=utf-8")

    def result(self, request_id: int) -> JsonAnswer:
        """The result with every round, as `nightbench compare --json` prints it."""
        row, _ = self._known(request_id)
        if row["result"] is None:
            raise HTTPException(
                404, f"Comparison {request_id} is {row['state']} and has no result."
            )
        return JsonAnswer(row["result"])

    def junit(self, request_id: int) -> Response:
        """JUnit XML: a test for each case."""
        row, _ = self._known(request_id)
        return Response(compare_answer.junit(row), media_type="application/xml")

    def build_log(self, request_id: int, arm: Literal["a", "b"]) -> Response:
        """Return the build log of a commit; only the end of a long one."""
        row, _ = self._known(request_id)
        uploads = self.spool().uploads
        builds = uploads.note(row["name"]) or {}
        log = uploads.log(builds[arm]["build"]) if arm in builds else None
        if log is None:
            raise HTTPException(404, f"Build {arm.upper()} of comparison {request_id} has no log.")
        return Response(log, media_type="text/plain; charset=utf-8")

    def profile_page(self, request_id: int) -> Response:
        """Where the time of both builds goes: tables and flame graphs."""
        row, _ = self._known(request_id)
        profile = compare_answer.profile_of(row)
        page = self.comparing.profile_page(profile["id"]) if profile else None
        if page is None:
            raise HTTPException(404, f"Comparison {request_id} has no profile.")
        return Response(page, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    def _checked(self, request: Request) -> Row:
        refuse_unmeant(request.headers, self.base_url)
        try:
            return self.comparing.check(document_of(request))
        except (WarehouseUnavailable, WarehouseRefused):
            raise
        except UserError as error:
            raise HTTPException(422, str(error)) from None
