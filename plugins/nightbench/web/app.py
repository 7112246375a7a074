"""The FastAPI app: the JSON API of the pages in Airflow's UI, and pages rendered here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from nightbench.core.errors import UserError
from nightbench.web.alert_api import AlertApi, json_response
from nightbench.web.alert_pages import AlertPages, OpenQueries, OpenTriage, dag_run_url
from nightbench.web.errors import BadInput, status_of
from nightbench.web.guard import FormTokens, PageAccess, PageUser, hosts_of
from nightbench.web.page_queries import PageQueries
from nightbench.web.plot_svg import draw
from nightbench.web.rendering import HEADERS, HERE, STYLE, page
from nightbench.web.run_api import RunApi
from nightbench.web.ui_api import UiApi
from nightbench.web.ui_models import (
    AxisValues,
    CaseRepeats,
    DagRunRun,
    Morning,
    RunPage,
    RunResults,
    SeriesHistory,
    SeriesPage,
)
from nightbench.web.views import (
    ago,
    grade_sentences,
    group_alerts,
    result_sentences,
    result_state,
    series_views,
)

PLOTS = 60
"""Largest number of plots on one page; the table always has all series."""

BODY_BYTES = 64 * 1024
API = "/api"


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
    repository: OpenQueries,
    triage: OpenTriage,
    access: PageAccess,
    form_secret: bytes,
    airflow_url: str = "",
    base_url: str = "",
) -> FastAPI:
    """Return the app.

    Args:
        repository: opens what a request reads from.
        triage: opens, by a person's name, what a request changes alerts through.
        access: authorisation of requests.
        form_secret: signs the tokens of forms; the same in all processes that serve the app.
        airflow_url: path below which Airflow's own UI lies, without a slash at its end.
        base_url: the address by which browsers see the site, where it is known.
    """

    def remember(request: Request, user: PageUser = Depends(access.user)) -> None:  # noqa: B008 - how FastAPI injects
        request.state.nightbench_user = user

    # The descriptions that FastAPI makes by itself would be public.
    app = FastAPI(
        title="Nightbench",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(access.reader), Depends(remember), Depends(_refuse_nul)],
    )
    app.state.airflow_url = airflow_url
    hosts = hosts_of(base_url)
    pages = ResultPages(repository, airflow_url)
    alerts = AlertPages(repository, triage, FormTokens(form_secret), hosts, airflow_url)
    api = AlertApi(repository, triage, hosts)
    changing = [Depends(access.trigger), Depends(_body)]

    app.add_api_route("/", pages.index, methods=["GET"], response_class=HTMLResponse)
    app.add_api_route("/trust", pages.trust, methods=["GET"], response_class=HTMLResponse)
    app.add_api_route("/alerts", alerts.index, methods=["GET"], response_class=HTMLResponse)
    app.add_api_route("/alerts/{alert_id:alert}", alerts.show, methods=["GET"], response_model=None)
    app.add_api_route(
        "/alerts/{alert_id:alert}/{action}",
        alerts.change,
        methods=["POST"],
        dependencies=changing,
        response_model=None,
    )
    # Where a form was refused, its address stays in the browser: it may be loaded again or copied.
    app.add_api_route(
        "/alerts/{alert_id:alert}/{action}",
        alerts.back,
        methods=["GET"],
        response_model=None,
    )
    ui, runs = UiApi(repository), RunApi(repository)
    for path, handler, answer in (
        ("morning", ui.morning, Morning),
        ("series", ui.series_list, SeriesPage),
        ("series/{cluster}/{case_id:path}", ui.series, SeriesHistory),
        ("axes", ui.axis_values, AxisValues),
        ("runs", runs.index, RunPage),
        ("runs/of-dag-run", runs.of_dag_run, DagRunRun),
        ("runs/{run_id}", runs.show, RunResults),
        ("runs/{run_id}/{case_id:path}", runs.repeats, CaseRepeats),
    ):
        app.add_api_route(
            f"{API}/{path}",
            handler,
            methods=["GET"],
            response_model=answer,
            dependencies=[Depends(_headers)],
        )
    app.add_api_route(f"{API}/openapi.json", _openapi, methods=["GET"], include_in_schema=False)
    app.add_api_route(f"{API}/alerts", api.index, methods=["GET"])
    app.add_api_route(f"{API}/alerts/{{alert_id:alert}}", api.show, methods=["GET"])
    app.add_api_route(
        f"{API}/alerts/{{alert_id:alert}}/{{action}}",
        api.change,
        methods=["POST"],
        dependencies=changing,
    )
    for name, kind in (
        ("style.css", "text/css"),
        ("links.js", "text/javascript"),
        ("static/nightbench.js", "text/javascript"),
    ):
        app.add_api_route(f"/{name}", _file(name, kind), methods=["GET"])
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    return app


# --- requests -----------------------------------------------------------------------------


def _refuse_nul(request: Request) -> None:
    """Refuse NUL characters, which PostgreSQL cannot store: nothing has such a name."""
    if any("\0" in value for value in request.query_params.values()):
        raise BadInput("The address holds a character that no name has.")


async def _body(request: Request) -> None:
    """Read the body before a thread handles it, up to the largest size of a form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            raise HTTPException(413, f"More than {BODY_BYTES} bytes were sent.")
    request.state.nightbench_body = body


def _headers(response: Response) -> None:
    """Set the headers of every answer."""
    response.headers.update(HEADERS)


def _openapi(request: Request) -> Response:
    """The description of the API, for those who may read it."""
    routes = [each for each in request.app.routes if each.path.startswith(f"{API}/")]
    servers = [{"url": request.scope.get("root_path", "") or "/"}]
    return json_response(
        get_openapi(title="Nightbench", version="1", routes=routes, servers=servers)
    )


def _is_api(request: Request) -> bool:
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return bool(path.startswith(f"{API}/"))


# --- errors -------------------------------------------------------------------------------


def _user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError)
    status = status_of(error)
    if _is_api(request):
        return json_response({"detail": str(error)}, status)
    return _error_page(request, status, str(error))


def _http_error(request: Request, error: Exception) -> Response:
    """Show errors that FastAPI and Airflow raise."""
    assert isinstance(error, HTTPException)
    if _is_api(request):
        return json_response({"detail": error.detail}, error.status_code, error.headers)
    found = _error_page(request, error.status_code, str(error.detail))
    found.headers.update(error.headers or {})
    return found


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return _user_error(request, BadInput(f"{first['loc'][-1]}: {first['msg']}"))


def _error_page(request: Request, status: int, message: str) -> HTMLResponse:
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    root = "../" * max(0, path.count("/") - 1) or "./"
    if status == 401:
        back = quote(request.scope.get("root_path", "") + path, safe="/")
        login = f"{request.app.state.airflow_url}/api/v2/auth/login?next={back}"
        more = {"login": login, "inline_style": STYLE}
        return page("error.html", status=status, root=root, code=status, message=message, **more)
    template = "away.html" if status == 503 else "error.html"
    return page(template, status=status, root=root, code=status, message=message)


# --- pages --------------------------------------------------------------------------------


def _file(name: str, media_type: str) -> Callable[[], Response]:
    content = (HERE / name).read_text(encoding="utf-8")

    def serve() -> Response:
        return Response(content, media_type=media_type, headers={**HEADERS})

    return serve


class ResultPages:
    """The pages of results, each from one template."""

    def __init__(self, repository: OpenQueries, airflow_url: str) -> None:
        self._repository = repository
        self._airflow_url = airflow_url

    def index(
        self,
        run: str = "",
        dag_id: str = "",
        dag_run: str = "",
        workload: str = "",
        framework: str = "",
        cluster: str = "",
    ) -> HTMLResponse:
        """The latest medians; with `run`, or a DAG run, the results of one run."""
        chosen = {"workload": workload, "framework": framework, "cluster": cluster}
        with self._repository() as repository:
            if dag_run and not run:
                found = repository.run_of(dag_id, dag_run)
                if found is None:
                    return page("waiting.html", dag_run=dag_run)
                run = found
            if run:
                return self._run(repository, run)
            return self._latest(repository, chosen)

    def _latest(self, repository: PageQueries, chosen: dict[str, str]) -> HTMLResponse:
        now = datetime.now(UTC)
        series = series_views(
            repository.series(*(chosen[k] or None for k in ("workload", "framework", "cluster")))
        )
        choices, grades = repository.choices(), repository.grades()
        lines: list[dict[str, Any]] = [
            {
                "series": each,
                "anchor": f"s{number}",
                "age": ago(each.newest.at, now),
                "drawn": number < PLOTS,
                "plot": draw(each, each.head["unit"] or "units") if number < PLOTS else None,
            }
            for number, each in enumerate(series)
        ]
        return page(
            "index.html",
            lines=lines,
            chosen=chosen,
            options={k: sorted({row[k] for row in choices}) for k in chosen},
            empty=not choices,
            undrawn=max(0, len(lines) - PLOTS),
            runs=repository.runs(),
            groups=group_alerts(repository.alerts()),
            noisy=len(repository.noisy()),
            nights=repository.missing_nights(),
            graded=grade_sentences(grades),
            too_low=[row["below"] for row in grades if row["below"]],
            now=now,
        )

    def trust(self) -> HTMLResponse:
        """The quality of verdicts: grades, noisy series, drifts, labels."""
        with self._repository() as repository:
            return page(
                "trust.html",
                grades=repository.grades(),
                noisy=repository.noisy(),
                drifts=repository.drifts(),
                labels=repository.labels(),
            )

    def _run(self, repository: PageQueries, run_id: str) -> HTMLResponse:
        found = repository.run(run_id)
        if found is None:
            return page("unknown.html", status=404, run_id=run_id)
        rows = [
            {**row, "state": result_state(row), "why": result_sentences(row)}
            for row in repository.results(run_id)
        ]
        return page(
            "run.html", run=found, rows=rows, dag_run_url=dag_run_url(self._airflow_url, found)
        )
