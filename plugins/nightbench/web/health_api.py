"""The read-only JSON API of the pages: nodes, and the detector's quality."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nightbench.core.errors import ItemErrors
from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import sentence
from nightbench.spool import Spool
from nightbench.warehouse.pages import OpenPages
from nightbench.warehouse.repository import Row
from nightbench.web.alert_models import ClusterAcceptance, NodeActivity, Nodes, Trust
from nightbench.web.answer_cache import AnswerCache
from nightbench.web.api_model import Items
from nightbench.web.run_api import OpenSpool

HOLDING = ("running", "collecting")
"""States in which the gang has the locks of all its nodes."""
UNDER_WAY = timedelta(days=3)
"""How long ago a run began at most that is looked for in the spool."""


OpenAcceptances = Callable[[], list[Row]]
"""Returns the rows of `ClusterAcceptance`: retests also depend on the lines' files."""


@dataclass(frozen=True)
class HealthApi:
    """Handlers of the API that the page Nodes reads."""

    repository: OpenPages
    spool: OpenSpool
    acceptances: OpenAcceptances
    cache: AnswerCache[Items[ClusterAcceptance]]

    def acceptance(self) -> Items[ClusterAcceptance]:
        """Return the numbers of valid accepted configurations, and why others need a retest."""
        return self.cache.get(
            "acceptance", "", lambda: Items[ClusterAcceptance].of(items=self.acceptances())
        )

    def trust(self) -> Trust:
        """Grades of the detector, noisy and drifting series, how alerts ended."""
        with self.repository() as repository:
            return Trust.of(
                grades=repository.grades.latest(),
                noisy=repository.series.noisy(),
                drifting=repository.series.drifts(),
                labels=repository.read("page_labels"),
            )

    def activity(self) -> Items[NodeActivity]:
        """Return the jobs that use nodes now, and those that wait for them."""
        with self.repository() as repository:
            unloaded = repository.read("ui_unloaded_runs", since=datetime.now(UTC) - UNDER_WAY)
        return Items(items=list(node_activity(self.spool(), unloaded)))

    def nodes(self) -> Nodes:
        """Clusters with their nodes: health, and how full the last night was."""
        with self.repository() as repository:
            return Nodes.of(
                clusters=repository.read("ui_clusters"),
                nodes=[
                    row
                    | {
                        "sentences": [
                            sentence(each) for each in reasons_from_json(row["state_reasons"])
                        ]
                    }
                    for row in repository.read("nodes", cluster=None)
                ],
                controls=repository.read("ui_controls"),
                use=repository.read("ui_node_use"),
                nights=repository.node_nights(),
                windows=repository.read("ui_night_windows"),
            )


def node_activity(spool: Spool, runs: Iterable[Row]) -> Iterator[NodeActivity]:
    """Yield the cases under way of runs that may be, each with the nodes that it holds or wants."""
    errors = ItemErrors()
    for run in runs:
        folder = spool.run(run["run_id"])
        for case_id in folder.case_ids():
            with errors.of(f"run {run['run_id']}, case {case_id}"):
                case = folder.latest(case_id)
                job = (case and case.job()) or {}
                progress = (case and case.progress()) or {}
                if not case or case.outcome() or not job.get("nodes") or not progress.get("at"):
                    continue
                state = str(progress.get("state"))
                yield NodeActivity(
                    cluster=run["cluster"],
                    run_id=run["run_id"],
                    case_id=case_id,
                    nodes=[node["name"] for node in job["nodes"]],
                    is_holding=state in HOLDING,
                    state=state,
                    message=str(progress.get("message") or ""),
                    repeat=progress.get("repeat"),
                    repeats=progress.get("repeats"),
                    since=case.prepared_at(),
                    at=datetime.fromisoformat(progress["at"]),
                )
