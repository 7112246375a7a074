"""The FastAPI app of the results page: server-rendered, without a build step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nightbench.errors import UserError
from nightbench.web.plot import draw
from nightbench.web.repository import Repository
from nightbench.web.series import ago, day, figure, gather, percent, state

HERE = Path(__file__).resolve().parent
PLOTS = 60
"""Series that are drawn on one page; the table always holds all."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Dependency = Callable[..., Any]
OpenRepository = Callable[[], AbstractContextManager[Repository]]


def create_app(
    repository: OpenRepository,
    require_reader: Dependency,
    require_trigger: Dependency,
    airflow_url: str = "",
) -> FastAPI:
    """Make the app.

    Args:
        repository: opens what a request reads from.
        require_reader: refuses whoever may not read DAG runs; guards every route.
        require_trigger: refuses whoever may not trigger DAG runs; for routes that change
            something, of which there are none yet.
        airflow_url: path below which Airflow's own UI lies, without a slash at its end.
    """
    del require_trigger
    # The descriptions that FastAPI makes by itself would be public.
    app = FastAPI(
        title="Nightbench",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(require_reader)],
    )
    pages = _Pages(repository, airflow_url)
    app.add_api_route("/", pages.index, methods=["GET"], response_class=HTMLResponse)
    for name, kind in (("style.css", "text/css"), ("links.js", "text/javascript")):
        app.add_api_route(f"/{name}", _file(name, kind), methods=["GET"])
    return app


def _file(name: str, media_type: str) -> Callable[[], Response]:
    content = (HERE / name).read_text(encoding="utf-8")

    def serve() -> Response:
        return Response(content, media_type=media_type, headers={**HEADERS})

    return serve


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"figure": figure, "percent": percent, "day": day}
    return environment


class _Pages:
    """The pages, each from one template."""

    def __init__(self, repository: OpenRepository, airflow_url: str) -> None:
        self._repository = repository
        self._airflow_url = airflow_url

    def index(
        self,
        request: Request,
        run: str = "",
        dag_id: str = "",
        dag_run: str = "",
        workload: str = "",
        framework: str = "",
        cluster: str = "",
    ) -> HTMLResponse:
        """The latest medians; with `run`, or a DAG run, what one run brought."""
        chosen = {"workload": workload, "framework": framework, "cluster": cluster}
        try:
            with self._repository() as repository:
                if dag_run and not run:
                    found = repository.run_of(dag_id, dag_run)
                    if found is None:
                        return self._page("waiting.html", dag_run=dag_run)
                    run = found
                if run:
                    return self._run(repository, run)
                return self._latest(repository, chosen)
        except UserError as error:
            return self._page("away.html", status=503, message=str(error))

    def _latest(self, repository: Repository, chosen: dict[str, str]) -> HTMLResponse:
        now = datetime.now(UTC)
        series = gather(
            repository.series(*(chosen[k] or None for k in ("workload", "framework", "cluster")))
        )
        choices = repository.choices()
        lines = [
            {
                "series": each,
                "anchor": f"s{number}",
                "age": ago(each.newest.at, now),
                "drawn": number < PLOTS,
                "plot": draw(each, each.head["unit"] or "units") if number < PLOTS else None,
            }
            for number, each in enumerate(series)
        ]
        return self._page(
            "index.html",
            lines=lines,
            chosen=chosen,
            options={k: sorted({row[k] for row in choices}) for k in chosen},
            empty=not choices,
            undrawn=max(0, len(lines) - PLOTS),
            runs=repository.runs(),
            alerts=repository.alerts(),
            now=now,
        )

    def _run(self, repository: Repository, run_id: str) -> HTMLResponse:
        found = repository.run(run_id)
        if found is None:
            return self._page("unknown.html", status=404, run_id=run_id)
        rows = [{**row, "state": state(row)} for row in repository.results(run_id)]
        return self._page("run.html", run=found, rows=rows, dag_run_url=self._dag_run(found))

    def _dag_run(self, run: Any) -> str | None:
        if not run["dag_id"] or not run["dag_run_id"]:
            return None
        dag, dag_run = quote(run["dag_id"], safe=""), quote(run["dag_run_id"], safe="")
        return f"{self._airflow_url}/dags/{dag}/runs/{dag_run}"

    def _page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        def link(**query: str) -> str:
            given = {key: value for key, value in query.items() if value}
            return f"./?{urlencode(given)}" if given else "./"

        text = _templates().get_template(template).render(link=link, **values)
        return HTMLResponse(text, status_code=status, headers=HEADERS)
