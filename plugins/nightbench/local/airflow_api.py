"""A small client of Airflow's REST API (v2): what the command needs and no more."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import httpx

from nightbench.config.control_plane import how_to_start
from nightbench.core.errors import UserError

PAGE = 100
RUN_ID = re.compile(r"(?!\.+\Z)[A-Za-z0-9_.~:+-]{1,250}\Z")
"""Ids of DAG runs, as Airflow allows them by default."""

PASSING = frozenset({408, 425, 429})
"""Statuses, in addition to 5xx, of a request that may succeed later."""


class AirflowUnavailable(UserError):
    """Airflow does not answer, or answers that it cannot do so now; it may answer later."""


class AirflowApi:
    """Talks to one Airflow as one user; the token is fetched at the first call."""

    def __init__(
        self,
        base_url: str,
        username: str,
        password: str,
        timeout_s: float = 30.0,
        *,
        trust_env: bool = False,
    ) -> None:
        self.base_url = base_url
        self._login = {"username": username, "password": password}
        # Requests to loopback must not use the proxy of the environment variables.
        self._http = httpx.Client(base_url=base_url, timeout=timeout_s, trust_env=trust_env)
        self._token: str | None = None

    def __enter__(self) -> Self:
        """Return the client itself; leaving the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._http.close()

    def health(self) -> dict[str, str]:
        """Return `{component: status}`, for example `{"scheduler": "healthy", …}`.

        Raises:
            UserError: nothing answers there.
        """
        body = self._send("GET", "/api/v2/monitor/health", token=False).json()
        return {name: str((entry or {}).get("status")) for name, entry in body.items()}

    def dag(self, dag_id: str) -> dict[str, Any] | None:
        """Return what Airflow knows about a DAG; None until it has been parsed."""
        answer = self._send("GET", f"/api/v2/dags/{dag_id}", allow=(404,))
        return None if answer.status_code == 404 else dict(answer.json())

    def parse_again(self, dag_id: str) -> None:
        """Have the file of a DAG parsed now, before its interval has passed; asked twice, once."""
        if dag := self.dag(dag_id):
            self._send("PUT", f"/api/v2/parseDagFile/{dag['file_token']}", allow=(409,))

    def import_errors(self) -> dict[str, str]:
        """Return `{file: traceback}` of DAG files that do not import."""
        return {
            str(entry["filename"]): str(entry["stack_trace"])
            for entry in self._pages("/api/v2/importErrors", "import_errors")
        }

    def unpause(self, dag_id: str) -> None:
        """Let a DAG run; what its schedule missed is up to the DAG's `catchup`."""
        self._send("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def trigger(
        self, dag_id: str, conf: Mapping[str, Any], run_id: str | None = None, note: str = ""
    ) -> str:
        """Start a run of a DAG now and return its dag_run_id.

        With a `run_id` of its own the same call may be made again if an answer was lost, and
        starts no second run. [default: Airflow's choice]

        Raises:
            AirflowUnavailable: there is no answer; the run may have been started all the same.
            UserError: Airflow refused, for instance because `conf` does not fit the form.
        """
        body: dict[str, Any] = {"logical_date": None, "conf": dict(conf)}
        if run_id:
            body["dag_run_id"] = run_id
        if note:
            body["note"] = note
        path = f"/api/v2/dags/{dag_id}/dagRuns"
        # 409: a run with this id exists; an earlier attempt of this call started it.
        answer = self._send("POST", path, json=body, allow=(409,) if run_id else ())
        return run_id or str(answer.json()["dag_run_id"])

    def dag_run(self, dag_id: str, run_id: str) -> dict[str, Any] | None:
        """Return one run of a DAG, whose `state` is queued, running, success or failed.

        Returns:
            None if Airflow has no such run.
        """
        if not RUN_ID.match(run_id):
            return None
        answer = self._send("GET", self._run_path(dag_id, run_id), allow=(404,))
        return None if answer.status_code == 404 else dict(answer.json())

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return all task instances of a run, every mapped one with its own `map_index`."""
        path = f"{self._run_path(dag_id, run_id)}/taskInstances"
        return list(self._pages(path, "task_instances"))

    def fail_run(self, dag_id: str, run_id: str) -> None:
        """End a run as failed: its running and deferred tasks are ended too (`on_kill`).

        Airflow works by task, not by map index: mapped instances that had already succeeded show as
        failed afterwards, too. Their results stay in the spool.
        """
        self._send("PATCH", self._run_path(dag_id, run_id), json={"state": "failed"})

    def run_again(self, dag_id: str, run_id: str, task_ids: Sequence[str]) -> None:
        """Clear tasks of a run that has ended, whatever their state: Airflow runs them again."""
        request = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": list(task_ids),
            "only_failed": False,
            "reset_dag_runs": True,
        }
        self._send("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", json=request)

    def log_tail(
        self, dag_id: str, run_id: str, task_id: str, try_number: int, map_index: int, lines: int
    ) -> list[str]:
        """Return the last lines of a task's log as plain text."""
        path = f"{self._run_path(dag_id, run_id)}/taskInstances/{task_id}/logs/{try_number}"
        answer = self._send("GET", path, params={"map_index": map_index, "full_content": True})
        content = answer.json().get("content") or []
        events = [str(e.get("event", "")) if isinstance(e, dict) else str(e) for e in content]
        return events[-lines:]

    @staticmethod
    def _run_path(dag_id: str, run_id: str) -> str:
        return f"/api/v2/dags/{dag_id}/dagRuns/{httpx.URL('/' + run_id).raw_path[1:].decode()}"

    def _pages(self, path: str, key: str) -> Iterator[dict[str, Any]]:
        offset = 0
        while True:
            page = {"limit": PAGE, "offset": offset}
            entries = self._send("GET", path, params=page).json()[key]
            yield from entries
            offset += PAGE
            if len(entries) < PAGE:
                return

    def _send(
        self,
        method: str,
        path: str,
        *,
        token: bool = True,
        allow: tuple[int, ...] = (),
        json: Any = None,
        params: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        try:
            answer = self._attempt(method, path, token, json, params)
            if answer.status_code == 401 and token:  # a token lives for a day
                self._token = None
                answer = self._attempt(method, path, token, json, params)
        except httpx.HTTPError as error:
            raise AirflowUnavailable(
                f"Airflow does not answer at {self.base_url} ({error}). See: nightbench status. "
                f"{how_to_start()}"
            ) from error
        if answer.status_code not in allow:
            _raise_if_refused(answer, f"Airflow refused {method} {path}")
        return answer

    def _attempt(
        self, method: str, path: str, token: bool, json: Any, params: Mapping[str, Any] | None
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._fetch_token()}"} if token else {}
        return self._http.request(method, path, json=json, params=params, headers=headers)

    def _fetch_token(self) -> str:
        if self._token is None:
            answer = self._http.post("/auth/token", json=self._login)
            name = self._login["username"]
            _raise_if_refused(answer, f"Airflow at {self.base_url} refuses {name!r}")
            self._token = str(answer.json()["access_token"])
        return self._token


def _raise_if_refused(answer: httpx.Response, what: str) -> None:
    """Raise `AirflowUnavailable` if the same request may succeed later, else `UserError`."""
    if not answer.is_error:
        return
    passing = answer.is_server_error or answer.status_code in PASSING
    raise (AirflowUnavailable if passing else UserError)(
        f"{what}: {answer.status_code} {_detail(answer)}"
    )


def _detail(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        return answer.text[:500]
    return str(body.get("detail", body) if isinstance(body, dict) else body)[:500]
