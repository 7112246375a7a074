"""The JSON API of experiments: requests, the queue, and what was measured of each."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import HTTPException, Query, Request

from nightbench.config.compare_builds import committed
from nightbench.core.errors import UserError
from nightbench.core.experiment_queue import Planned, Shares, left_s, ordered
from nightbench.core.hours import Hours, opening
from nightbench.core.model import Cluster
from nightbench.core.model.experiments import LIVE, ExperimentKind, State
from nightbench.core.sentences import retention_text
from nightbench.warehouse.alert_actions import Explained
from nightbench.warehouse.experiments import ExperimentDesk
from nightbench.warehouse.pages import OpenPages, PageRepository
from nightbench.warehouse.repository import Row
from nightbench.web import compare_answer
from nightbench.web.alert_api import sent
from nightbench.web.api_model import Items, first_readable
from nightbench.web.experiment_models import (
    BisectSearch,
    ClusterBudget,
    ExperimentDetail,
    ExperimentItem,
    SearchedVersion,
)
from nightbench.web.guard import PageUser, refuse_unmeant
from nightbench.web.run_api import OpenSpool

log = logging.getLogger(__name__)

OpenDesk = Callable[[str], AbstractContextManager[ExperimentDesk]]
"""Opens, by a person's name, what a request changes the queue through."""

PATH = "nightbench/api/comparisons"
PAGE = "plugin/benchmarks/experiments"
MOVES = {
    "cancel": ("cancelled", "Cancel an experiment: now, or after the current launch."),
    "profile": ("profiled", "Have both builds launched once more under a profiler."),
    "allow": ("queued", "Put a fork's comparison into the queue."),
    "refuse": ("refused", "End a fork's comparison before anything of it is measured."),
}
"""Action of a route -> what `triage.move_experiment` is to do, and the route's description."""
COMPARE = [ExperimentKind.COMPARE]
States = Annotated[list[State] | None, Query()]


ReadExperiment = Callable[[str], Row | None]
"""Name -> experiment as the spool has it, whose parts have the fields of the models, or None."""


@dataclass(frozen=True)
class Comparing:
    """Functions that the API needs from packages that it cannot import."""

    check: Callable[[Mapping[str, Any]], Row]
    """Body of a request -> row for the queue; raises `UserError` if it cannot be measured."""
    cluster: Callable[[str], Cluster]
    """A cluster by its name; raises `UserError` if there is none."""
    desk: OpenDesk
    profile_page: Callable[[str], str | None] = lambda _: None
    """The page of a profile by its id; None if the spool does not have it."""
    check_profile: Callable[[str], None] = lambda _: None
    """A framework line; raises `UserError` if it cannot be profiled."""


@dataclass(frozen=True)
class ExperimentApi:
    """Handlers of the API for experiments of every kind."""

    repository: OpenPages
    files: ReadExperiment
    comparing: Comparing
    spool: OpenSpool
    base_url: str

    def index(
        self,
        request: Request,
        kind: Annotated[list[ExperimentKind] | None, Query()] = None,
        state: States = None,
        requested_by: str = "",
        size: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Items[ExperimentItem]:
        """Experiments, newest first; all unless kinds or states are named."""
        with self.repository() as repository:
            rows = repository.experiments.find(
                kinds=kind, states=state, requested_by=requested_by or None, limit=size
            )
            places = self._places(repository, rows)
        items = [self._document(request, row, places) for row in rows]
        return Items[ExperimentItem].of(items=items)

    def experiment(self, request: Request, name: str) -> ExperimentDetail:
        """One experiment with its comparisons, round by round, and the tests of a bisect."""
        files = self.files(name)
        with self.repository() as repository:
            row = repository.experiments.get(name)
            places = self._places(repository, [row]) if row else {}
        if row is None and files is None:
            raise HTTPException(
                404,
                f"There is no experiment {name[:200]}: files are {retention_text('spool_days')}.",
            )
        row = row or _of_files(name, files or {})
        bisect = None
        if row["kind"] == ExperimentKind.BISECT:
            found = files["result"] if files else row["result"]
            bisect = first_readable(BisectSearch.of_row, {**row, "result": found})
        return ExperimentDetail.of(
            self._document(request, row, places),
            is_measured=files and files["is_measured"],
            again=files and files["again"],
            resume=files["resume"] if files and row["state"] not in ("held", "queued") else None,
            comparisons=files["comparisons"] if files else [],
            bisect=bisect,
            searched=version_states(bisect) if bisect else [],
        )

    def budgets(self) -> Items[ClusterBudget]:
        """Return the measuring time of experiments in 24 hours, and the clusters' budgets."""
        with self.repository() as repository:
            spent = repository.experiments.spent()
            live = repository.experiments.find(states=LIVE)
        items = []
        for name in sorted({row["cluster"] for row in live} | {cluster for cluster, _ in spent}):
            try:
                policy = self.comparing.cluster(name).compare
            except UserError as error:
                log.warning("%s", error)
                continue
            people = {who: s for (of, who), s in spent.items() if of == name}
            items.append(
                ClusterBudget(
                    cluster=name,
                    spent_s=sum(people.values()),
                    day_s=policy.day_s,
                    person_s=policy.person_s,
                    people=dict(sorted(people.items(), key=itemgetter(1), reverse=True)),
                )
            )
        return Items(items=items)

    def moving(self, action: str) -> Callable[[Request, int], ExperimentItem]:
        """Return the handler of an action of `MOVES`."""

        def move(request: Request, request_id: int) -> ExperimentItem:
            return self._move(request, request_id, action)

        _, move.__doc__ = MOVES[action]
        return move

    def _move(self, request: Request, request_id: int, action: str) -> ExperimentItem:
        refuse_unmeant(request.headers, self.base_url)
        why = " ".join(sent(Explained, request).why.split())
        row, _ = self._known(request_id, None)
        user: PageUser = request.state.nightbench_user
        if action in ("cancel", "profile") and not _may_manage(row, user):
            raise HTTPException(
                403,
                f"{row['name']} was requested by {row['requested_by']}: only this user or an "
                f"operator may {action} it.",
            )
        if action == "profile":
            try:
                self.comparing.check_profile(str(row.get("a", "")).partition("=")[0])
            except UserError as error:
                raise HTTPException(422, str(error)) from None
        with self.comparing.desk(user.name) as desk:
            desk.move(request_id, MOVES[action][0], why)
        return self._answer(request, request_id, kinds=None)

    def _answer(
        self,
        request: Request,
        request_id: int,
        kinds: Sequence[str] | None = COMPARE,
    ) -> ExperimentItem:
        row, places = self._known(request_id, kinds)
        return ExperimentItem.of(self._document(request, row, places))

    def _known(
        self, request_id: int, kinds: Sequence[str] | None = COMPARE
    ) -> tuple[Row, "_Places"]:
        with self.repository() as repository:
            for row in repository.experiments.find(request_id, kinds=kinds):
                return row, self._places(repository, [row])
        raise HTTPException(404, f"There is no comparison {request_id}.")

    def _places(self, repository: PageRepository, rows: Iterable[Row]) -> "_Places":
        """Return experiment_id -> its place in the queue of its cluster, for those queued."""
        wanted = {row["experiment_id"]: row for row in rows if row["state"] == "queued"}
        if not wanted:
            return {}
        live = repository.experiments.find(states=LIVE)
        known = {row["experiment_id"]: row for row in live} | wanted
        spent, now = repository.experiments.spent(), datetime.now(UTC)
        found: _Places = {}
        for cluster in {row["cluster"] for row in wanted.values()}:
            mine = [row for row in known.values() if row["cluster"] == cluster]
            try:
                where = self.comparing.cluster(cluster)
            except UserError as error:
                log.warning("%s", error)
                why = f"the cluster {cluster} no longer exists, or its file has an error"
                for row in mine:
                    number = row["experiment_id"]
                    found[number] = Planned(number, None, None, why), None
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
                found[planned.experiment_id] = planned, at
        return found

    def _document(self, request: Request, row: Row, places: "_Places") -> Row:
        planned, starts_at = places.get(row["experiment_id"], (None, None))
        waits_for, ends_at = planned.why if planned else "", expected_end(row)
        user: PageUser = request.state.nightbench_user
        is_theirs = row["experiment_id"] != 0 and _may_manage(row, user)
        is_compare = row["kind"] == ExperimentKind.COMPARE
        is_profiled = row["profile"] in LIVE
        cases = [row["case_id"]] if row.get("case_id") else []
        nothing = {"note": "", "change_url": "", "cases": cases}
        return {
            **nothing,
            **row,
            "title": compare_answer.title(row),
            "conclusion": compare_answer.conclusion(row) if is_compare else None,
            "headline": compare_answer.headline(row, starts_at, waits_for, ends_at),
            "is_fork": bool(row.get("fork")),
            "place": planned.place if planned else None,
            "starts_at": starts_at,
            "ends_at": ends_at,
            "waits_for": waits_for,
            "links": self._links(row),
            "may_cancel": is_theirs and (row["state"] in LIVE or is_profiled),
            "may_profile": is_theirs
            and is_compare
            and row["state"] in (*LIVE, "done")
            and not is_profiled,
            "may_decide": row["state"] == "held" and user.may_approve,
        }

    def _links(self, row: Row) -> dict[str, str]:
        links = {}
        if row["started_at"]:
            links["page"] = f"{self.base_url}/{PAGE}/{quote(row['name'])}"
        if row["kind"] != ExperimentKind.COMPARE or not row["experiment_id"]:
            return links
        own = f"{self.base_url}/{PATH}/{row['experiment_id']}"
        links |= {
            "self": own,
            "comment": f"{own}/comment.md",
            "result": f"{own}/result.json",
            "junit": f"{own}/junit.xml",
        }
        if row["started_at"]:
            for arm in ("a", "b"):
                if committed(row[arm]):
                    links[f"{arm}_log"] = f"{own}/{arm}.log"
        if compare_answer.profile_of(row):
            links["profile"] = f"{own}/profile.html"
        return links


_Places = dict[int, tuple[Planned, datetime | None]]


def _waiting(rows: Sequence[Row]) -> list[Row]:
    """Return queued experiments, without profiles whose comparison has not ended."""
    live = {row["name"] for row in rows}
    return [row for row in rows if row["state"] == "queued" and row.get("of") not in live]


def _may_manage(row: Row, user: PageUser) -> bool:
    return user.may_approve or (user.may_change and row["requested_by"] == user.name)


def _busy_s(rows: Iterable[Row]) -> float:
    """Return the expected remaining seconds of the experiment that a DAG run measures."""
    running = [row for row in rows if row["state"] == "running" and row["dag_run_id"]]
    return max([0.0, *(left_s(row) for row in running)])


def expected_end(row: Row) -> datetime | None:
    """Return when an experiment that is measured is expected to end."""
    if row["state"] != "running" or not row["estimate_s"]:
        return None
    return datetime.now(UTC) + timedelta(seconds=left_s(row))


def _of_files(name: str, files: Row) -> Row:
    """Return the row of an experiment that the warehouse does not have."""
    empty = "alert_id budget_s estimate_s decided_by cancelled_by replaced_by dag_run_id verdict"
    state = "done" if files["is_complete"] else "running" if files["is_measured"] else "cancelled"
    return {
        **files["request"],
        **dict.fromkeys([*empty.split(), "ended_at", "profile", "profile_why"]),
        **{key: files[key] for key in ("kind", "suite", "cluster", "requested_by")},
        "started_at": datetime.fromisoformat(files["started_at"]),
        "name": name,
        "experiment_id": 0,
        "state": state,
        "requested_at": files["started_at"],
        "priority": 0,
        "spent_s": 0.0,
        "why": "",
        "request": files["request"],
        "result": files["result"],
    }


def version_states(search: BisectSearch) -> list[SearchedVersion]:
    """Return the state of each version: from its own last test, else from its neighbours."""
    said: dict[str, Any] = {search.good: "good"}
    for test in search.tests:
        if test.result is not None:
            said[test.version] = test.result
    versions = search.versions
    good = max((at for at, v in enumerate(versions) if said.get(v) == "good"), default=-1)
    bad = min((at for at, v in enumerate(versions) if said.get(v) == "bad"), default=len(versions))
    found = []
    for at, version in enumerate(versions):
        standing = said.get(version)
        is_inferred = standing is None
        if search.outcome == "found" and version == search.first_bad:
            standing = "first_bad"
        elif is_inferred and at < good:
            standing = "good"
        elif is_inferred and at > bad:
            standing = "bad"
        elif is_inferred:
            standing = "suspect" if version in search.suspects else "untested"
        found.append(SearchedVersion(version=version, standing=standing, is_inferred=is_inferred))
    return found
