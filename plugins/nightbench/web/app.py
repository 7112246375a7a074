"""The FastAPI app behind the pages in Airflow's UI: their code, and the JSON that they read."""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Match

from nightbench.config.experiment_requests import CompareRequest
from nightbench.config.request_fields import schema_of
from nightbench.core.errors import UserError
from nightbench.core.printable import without_controls
from nightbench.core.prometheus import CONTENT_TYPE
from nightbench.warehouse import MoveRefused
from nightbench.warehouse.alert_actions import ACTIONS, Explained
from nightbench.warehouse.pages import OpenPages
from nightbench.web.alert_api import AlertApi, OpenTriage
from nightbench.web.answer_cache import AnswerCache, shared_answers
from nightbench.web.api_model import ApiError, ApiModel, Items, JsonAnswer
from nightbench.web.compare_api import CompareApi, ComparedPairs, OverviewCell, PublishedCell
from nightbench.web.comparison_api import ComparisonApi
from nightbench.web.documentation import documentation
from nightbench.web.experiment_api import MOVES, Comparing, ReadExperiment
from nightbench.web.guard import HEADERS, PageAccess, PageUser
from nightbench.web.health_api import HealthApi, OpenAcceptances
from nightbench.web.run_api import CaseApi, OpenSpool, RunApi
from nightbench.web.run_models import RunResults
from nightbench.web.ui_api import UiApi
from nightbench.web.ui_models import SeriesHistory, SeriesPage
from nightbench.web.upload_api import uploading

STATIC = Path(__file__).resolve().parent / "static"
ENTRY = "nightbench.js"
"""The module that Airflow's UI imports; the names of all others hold the hash of their content."""

FOR_EVER = "private, max-age=31536000, immutable"

CACHED_S = 10.0
"""How old an answer may be that is read from files as well: experiments, acceptances."""

NO_NUL = "^[^\\x00]*$"
BODY_BYTES = 64 * 1024
API = "/api"
FORMER: Mapping[str, str] = {
    "experiments/ab/{name}": "experiments/{name}",
    "experiments/bisects/{name}": "experiments/{name}",
}
"""Former path of a route -> present path, which the answer to the former path names."""
REPEAT = "runs/{run_id}/{case_id}/repeats/{generation}/{repeat}"

ALSO_CSV: Mapping[str, type[ApiModel]] = {
    "series": SeriesPage,
    "series/{cluster}/{case_id:path}": SeriesHistory,
    "compare": ComparedPairs,
    "overview": Items[OverviewCell],
    "published/cells": Items[PublishedCell],
    "runs/{run_id}": RunResults,
}
"""Path -> answer of routes that also answer CSV; other routes use the handlers' annotations."""

TEXTS: Mapping[str, str] = {
    "metrics": CONTENT_TYPE,
    "comment.md": "text/markdown",
    "junit.xml": "application/xml",
    "profile.html": "text/html",
    "{arm}.log": "text/plain",
}
"""End of a path -> media type, of routes that answer no JSON."""

ERRORS: Mapping[int, str] = {
    401: "No user is logged in.",
    403: "The user's role does not include the permission.",
    404: "No such item.",
    422: "A parameter or the body is wrong.",
    503: "The warehouse does not answer.",
}
"""Statuses of every route, with `ApiError`."""

CHANGE_ERRORS: Mapping[int, str] = {
    409: "The state of the item does not allow the change.",
    413: "The body is too large.",
    507: "The upload cannot be stored.",
}
"""Further statuses of routes that change something."""


class AlertNumber(Convertor[int]):
    """A number as PostgreSQL has it: of more digits Python makes an error before any login."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        """Return the number in an address."""
        return int(value)

    def to_string(self, value: int) -> str:
        """Return the number as an address has it."""
        return str(value)


register_url_convertor("alert", AlertNumber())


def create_app(
    repository: OpenPages,
    triage: OpenTriage,
    access: PageAccess,
    spool: OpenSpool,
    experiments: ReadExperiment,
    acceptances: OpenAcceptances,
    comparing: Comparing,
    base_url: str = "",
) -> FastAPI:
    """Return the app; `base_url` is the address by which browsers see the site, if it is known."""
    base_url = base_url.rstrip("/")

    def remember(request: Request, user: PageUser = Depends(access.user)) -> None:  # noqa: B008 - how FastAPI injects
        request.state.nightbench_user = user

    # The descriptions that FastAPI makes by itself would be public.
    app = FastAPI(
        title="Nightbench",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        default_response_class=JsonAnswer,
        dependencies=[Depends(access.reader), Depends(remember), Depends(_refuse_nul)],
    )

    def add(
        path: str,
        handler: Callable[..., Any],
        *guards: Callable[..., Any],
        method: str = "GET",
        answer: type[ApiModel] | None = None,
        body: Mapping[str, Any] | None = None,
        media_type: str = "application/json",
        status: int = 200,
    ) -> None:
        # Without `answer`, the handler's annotation applies.
        more: dict[str, Any] = {"response_model": answer} if answer else {}
        more |= _described(path, method)
        if body is not None:
            needed = bool(body.get("required")) or body["type"] != "object"
            content = {media_type: {"schema": body}}
            more["openapi_extra"] = {"requestBody": {"content": content, "required": needed}}
        app.add_api_route(
            f"{API}/{path}",
            handler,
            methods=[method],
            status_code=status,
            dependencies=[Depends(guard) for guard in guards],
            **more,
        )

    alerts = AlertApi(repository, triage, base_url)
    health = HealthApi(repository, spool, acceptances, AnswerCache(CACHED_S))
    for path, handler in _reads(repository, spool, alerts, health):
        add(path, handler, answer=ALSO_CSV.get(path))
    add(f"{REPEAT}/log", CaseApi(repository, spool).log, access.logs)
    app.add_api_route(f"{API}/openapi.json", _openapi, methods=["GET"], include_in_schema=False)
    one, change = "alerts/{alert_id:alert}", (access.trigger, _body)
    add("alerts", alerts.index)
    add(one, alerts.show)
    for action in ACTIONS.values():
        # One route for each action, because each has its own body.
        schema = action.request.model_json_schema()
        add(f"{one}/{action.name}", alerts.changing(action), *change, method="POST", body=schema)
    api = ComparisonApi(repository, experiments, comparing, spool, base_url)
    _experiments(add, api, access)
    for path, now in FORMER.items():
        app.add_api_route(f"{API}/{path}", _gone(now), methods=["GET"], include_in_schema=False)
    add(
        "comparisons/wheels/{name}",
        uploading(spool, base_url),
        access.trigger,
        method="POST",
        body={"type": "string", "format": "binary"},
        media_type="application/octet-stream",
        status=201,
    )
    app.add_api_route("/static/{name}", _code(), methods=["GET"])
    app.add_api_route("/help/{name:path}", documentation, methods=["GET"])
    app.middleware("http")(_add_headers)
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    return app


def _reads(
    repository: OpenPages,
    spool: OpenSpool,
    alerts: AlertApi,
    health: HealthApi,
) -> tuple[tuple[str, Callable[..., Any]], ...]:
    """Return path and handler of the pages' data, except single alerts and logs."""
    shared = shared_answers(repository)
    ui, runs, cases = UiApi(repository), RunApi(repository), CaseApi(repository, spool)
    compare = CompareApi(repository)
    return (
        ("morning", shared(ui.morning)),
        ("series", shared(ui.series_list)),
        ("series/{cluster}/{case_id:path}", shared(ui.series)),
        ("losses/{cluster}/{case_id:path}", shared(ui.losses)),
        ("axes", shared(ui.axis_values)),
        ("trust", shared(health.trust)),
        ("nodes", shared(health.nodes)),
        ("nodes/activity", health.activity),
        ("nodes/acceptance", health.acceptance),
        ("compare", shared(compare.pairs)),
        ("compare/proposal", shared(compare.proposal)),
        ("overview", shared(compare.overview)),
        ("overview/curves", shared(compare.curves)),
        ("compare/sides", shared(compare.sides)),
        ("alerts/groups", shared(alerts.groups)),
        ("published", shared(compare.tables)),
        ("published/cells", shared(compare.cells)),
        ("metrics", ui.metrics),
        ("runs", shared(runs.index)),
        ("runs/of-dag-run", runs.of_dag_run),
        ("runs/{run_id}", shared(runs.show)),
        (f"{REPEAT}/steps", cases.steps),
        (f"{REPEAT}/telemetry", cases.telemetry),
        ("runs/{run_id}/{case_id}", cases.show),
    )


def _experiments(add: Callable[..., None], api: ComparisonApi, access: PageAccess) -> None:
    every, one = "comparisons", "comparisons/{request_id:alert}"
    add("experiments", api.index)
    add("experiments/{name}", api.experiment)
    add(f"{every}/budgets", api.budgets)
    add(one, api.show)
    add(f"{one}/comment.md", api.comment)
    add(f"{one}/result.json", api.result)
    add(f"{one}/junit.xml", api.junit)
    add(f"{one}/profile.html", api.profile_page)
    add(f"{one}/{{arm}}.log", api.build_log, access.logs)
    request = schema_of(CompareRequest, required=("b", "suite"))
    why = Explained.model_json_schema()
    change = partial(add, method="POST")
    change(every, api.create, access.trigger, _body, body=request, status=202)
    change(f"{every}/estimate", api.estimate, access.trigger, _body, body=request)
    for name in MOVES:
        guard = access.approve if name in ("allow", "refuse") else access.trigger
        change(f"{one}/{name}", api.moving(name), guard, _body, body=why)


def _gone(now: str) -> Callable[[Request], Response]:
    def handler(request: Request) -> Response:
        path = f"/nightbench{API}/{now.format(**request.path_params)}"
        raise HTTPException(410, f"This route has moved to {path}")

    return handler


def _described(path: str, method: str) -> dict[str, Any]:
    """Return statuses and media types of a route for the API's description."""
    known = ERRORS if method == "GET" else {**ERRORS, **CHANGE_ERRORS}
    responses: dict[int, Any] = {
        status: {"model": ApiError, "description": why} for status, why in known.items()
    }
    text = next((kind for end, kind in TEXTS.items() if path.endswith(end)), None)
    if path in ALSO_CSV:
        responses[200] = {"content": {"text/csv": {"schema": {"type": "string"}}}}
    if text is None:
        return {"responses": responses}
    responses[200] = {"content": {text: {"schema": {"type": "string"}}}}
    return {"responses": responses, "response_class": Response}


# --- requests -----------------------------------------------------------------------------


def _refuse_nul(request: Request) -> None:
    """Refuse NUL characters, which PostgreSQL cannot store: nothing has such a name."""
    parameters = (word for item in request.query_params.multi_items() for word in item)
    given = (*parameters, *request.path_params.values())
    if any("\0" in str(value) for value in given):
        raise HTTPException(422, "The address contains a character that no name has.")


async def _body(request: Request) -> None:
    """Read the body before a thread handles it, up to the largest size of a form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            raise HTTPException(413, f"More than {BODY_BYTES} bytes were sent.")
    request.state.nightbench_body = body


async def _add_headers(request: Request, answer: Callable[..., Any]) -> Response:
    response: Response = await answer(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _openapi(request: Request) -> Response:
    """Return the API's description to users who may read it."""
    routes = [each for each in request.app.routes if each.path.startswith(f"{API}/")]
    servers = [{"url": request.scope.get("root_path", "") or "/"}]
    found = get_openapi(title="Nightbench", version="1", routes=routes, servers=servers)
    operations = [each for path in found["paths"].values() for each in path.values()]
    for parameter in (each for operation in operations for each in operation.get("parameters", ())):
        for schema in _parts(parameter["schema"]):
            if schema.get("type") == "string" and not schema.keys() & {"pattern", "enum", "format"}:
                schema["pattern"] = NO_NUL
    return JsonAnswer(found)


def _parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema of a parameter with those of its alternatives and of a list's items."""
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return [schema, *(each for part in inner for each in _parts(part))]


# --- errors -------------------------------------------------------------------------------


def _user_error(_request: Request, error: Exception) -> Response:
    status = 409 if isinstance(error, MoveRefused) else 503
    return JsonAnswer({"detail": without_controls(str(error))}, status)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = error.headers
    if error.status_code == 405:
        # Starlette names the methods of one route; a path may have a route for each method.
        here = (each for each in request.app.routes if each.matches(request.scope)[0] != Match.NONE)
        headers = {"Allow": ", ".join(sorted({name for each in here for name in each.methods}))}
    return JsonAnswer({"detail": without_controls(str(error.detail))}, error.status_code, headers)


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return _http_error(request, HTTPException(422, f"{first['loc'][1]}: {first['msg']}"))


# --- the pages' code ----------------------------------------------------------------------


def _code() -> Callable[[Request, str], Response]:
    files = {path.name: path.read_bytes() for path in STATIC.glob("*.js")}
    tag = f'"{hashlib.sha256(files[ENTRY]).hexdigest()[:32]}"'

    def serve(request: Request, name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "The pages have no script of this name.")
        headers = {"Cache-Control": FOR_EVER}
        if name == ENTRY:
            headers = {"Cache-Control": "private, no-cache", "ETag": tag}
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers=headers)
        return Response(files[name], media_type="text/javascript", headers=headers)

    return serve
