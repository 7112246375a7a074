"""The pages of alerts: the list, one alert with its history, and the forms that change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from nightbench.core.errors import UserError
from nightbench.core.model.alerts import CauseEvidence
from nightbench.warehouse import MoveRefused
from nightbench.web.actions import (
    ACTIONS,
    LIVE,
    REASONS,
    STATES,
    Action,
    AlertTriage,
    actions_for,
    apply_change,
    parse_change,
)
from nightbench.web.errors import BadInput, NotFound, status_of
from nightbench.web.guard import FormTokens, PageUser, refuse_foreign
from nightbench.web.page_queries import PageQueries, Row, UiQueries
from nightbench.web.plot_svg import draw
from nightbench.web.rendering import page
from nightbench.web.views import group_alerts, series_views

OpenQueries = Callable[[], AbstractContextManager[UiQueries]]
OpenTriage = Callable[[str], AbstractContextManager[AlertTriage]]

SHOWN = 200
"""Alerts on one page."""
BIGGEST_ID = 2**63 - 1
FIELDS = 10


def states_of(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the states that a request names; None for all, the live ones without a name.

    Raises:
        BadInput: there is no such state.
    """
    given = [state for state in names if state]
    if unknown := sorted(set(given) - {*STATES, "live", "all"}):
        raise BadInput(f'state: found "{unknown[0][:80]}", expected live, all, {", ".join(STATES)}')
    if "all" in given:
        return None
    live = LIVE if "live" in given or not given else ()
    return tuple(dict.fromkeys([*live, *(state for state in given if state in STATES)]))


@contextmanager
def known_alert(open_repository: OpenQueries, alert_id: int) -> Iterator[tuple[PageQueries, Row]]:
    """Open a repository and read an alert.

    Raises:
        NotFound: there is none of that number.
    """
    with open_repository() as repository:
        row = repository.alert(alert_id) if alert_id <= BIGGEST_ID else None
        if row is None:
            raise NotFound(f"There is no alert {alert_id}.")
        yield repository, row


def group_of(repository: PageQueries, row: Row) -> Sequence[Row]:
    """Return all alerts of an alert's cause, itself included; empty where it is the only one."""
    key = row.get("group_key")
    found = repository.group(key) if key else ()
    return found if len(found) > 1 else ()


def known_action(name: str) -> Action:
    """Return an action by its name.

    Raises:
        NotFound: there is none of that name.
    """
    action = ACTIONS.get(name)
    if action is None:
        raise NotFound(f"There is no action {name[:80]}, only {', '.join(ACTIONS)}.")
    return action


class AlertPages:
    """Handlers of the list, of one alert, and of its forms."""

    def __init__(
        self,
        repository: OpenQueries,
        triage: OpenTriage,
        forms: FormTokens,
        hosts: frozenset[str],
        airflow_url: str,
    ) -> None:
        self._repository = repository
        self._triage = triage
        self._forms = forms
        self._hosts = hosts
        self._airflow_url = airflow_url

    def index(self, state: str = "", cluster: str = "", framework: str = "") -> HTMLResponse:
        """The live alerts, or those of one state."""
        with self._repository() as repository:
            rows = repository.find_alerts(
                states_of([state]), cluster or None, framework or None, SHOWN
            )
            choices = repository.choices()
            nights = repository.missing_nights()
        return page(
            "alerts.html",
            groups=group_alerts(rows),
            found=len(rows),
            nights=nights,
            chosen={"state": state or "live", "cluster": cluster, "framework": framework},
            states=("live", *STATES, "all"),
            options={k: sorted({row[k] for row in choices}) for k in ("cluster", "framework")},
            shown=SHOWN,
            now=datetime.now(UTC),
        )

    def show(self, request: Request, alert_id: int) -> HTMLResponse:
        """One alert."""
        return self._show(request.state.nightbench_user, alert_id, "../")

    def change(self, request: Request, alert_id: int, action: str) -> Response:
        """Apply a form and redirect to the alert, so that reloading sends nothing again."""
        user: PageUser = request.state.nightbench_user
        given = _form(request.state.nightbench_body)
        refuse_foreign(request.headers, self._hosts)
        self._forms.check(given.pop("token", ""), user.name)
        chosen = known_action(action)
        typed = {**given, "of": action}
        whole = bool(given.pop("group", ""))
        try:
            change = parse_change(chosen, given, datetime.now(UTC))
            with known_alert(self._repository, alert_id) as (repository, row):
                group = group_of(repository, row) if whole else ()
            with self._triage(user.name) as triage:
                apply_change(change, chosen, triage, row, group)
        except (MoveRefused, BadInput) as error:
            return self._show(user, alert_id, "../../", error, typed)
        return RedirectResponse(f"../{alert_id}", status_code=303)

    def back(self, alert_id: int) -> Response:
        """Redirect the address of a form to its alert, without a change."""
        return RedirectResponse(f"../{alert_id}", status_code=303)

    def _show(
        self,
        user: PageUser,
        alert_id: int,
        root: str,
        error: UserError | None = None,
        typed: Mapping[str, str] | None = None,
    ) -> HTMLResponse:
        with known_alert(self._repository, alert_id) as (repository, row):
            events = repository.alert_events(alert_id)
            series = series_views(repository.series_of(row["case_id"], row["cluster"]))
            group = group_of(repository, row)
            bisects = repository.bisects(alert_id)
            here = (row["case_id"], row["cluster"])
            noisy = [s for s in repository.noisy() if (s["case_id"], s["cluster"]) == here]
            runs = {
                name: repository.run(row[name]) if row[name] else None
                for name in ("last_good_run_id", "first_bad_run_id", "opened_run_id", "last_run_id")
            }
        drawn = series[0] if series else None
        unit = (drawn.head["unit"] if drawn else None) or "units"
        return page(
            "alert.html",
            status=status_of(error) if error else 200,
            root=root,
            alert=row,
            evidence=[CauseEvidence.from_json(each) for each in row.get("evidence") or ()],
            airflow_url=self._airflow_url,
            events=events,
            group=group,
            bisects=bisects,
            noisy=noisy[0] if noisy else None,
            unit=unit,
            plot=draw(drawn, unit, row["first_bad_run_id"] or row["opened_run_id"])
            if drawn
            else None,
            dag_runs={name: dag_run_url(self._airflow_url, run) for name, run in runs.items()},
            actions=actions_for(row["state"]) if user.may_change else (),
            reasons=REASONS,
            token=self._forms.token(user.name) if user.may_change else "",
            error=str(error) if error else "",
            typed=typed or {},
            now=datetime.now(UTC),
        )


def dag_run_url(airflow_url: str, run: Row | None) -> str | None:
    """Return the page of a run in Airflow's UI; None for a run that Airflow did not start."""
    if not run or not run["dag_id"] or not run["dag_run_id"]:
        return None
    dag, dag_run = quote(run["dag_id"], safe=""), quote(run["dag_run_id"], safe="")
    return f"{airflow_url}/dags/{dag}/runs/{dag_run}"


def _form(body: bytes) -> dict[str, str]:
    """Return the fields of a form (application/x-www-form-urlencoded)."""
    try:
        pairs = parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS
        )
    except ValueError:
        raise BadInput("The form cannot be read.") from None
    return dict(pairs)
