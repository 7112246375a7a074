"""The read-only JSON API of the pages: how far verdicts can be trusted, and nodes."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import percent, sentence
from nightbench.spool import Spool
from nightbench.warehouse.pages import OpenPages
from nightbench.warehouse.repository import Row
from nightbench.web.alert_models import (
    ClusterAcceptances,
    NodeActivities,
    NodeActivity,
    Nodes,
    Trust,
)
from nightbench.web.answer_cache import AnswerCache
from nightbench.web.run_api import OpenSpool

GRADED_SLOWDOWN = "5%"
"""The planted slowdown in the sentence about grades; the table has all sizes."""
FALSE_ALARMS = "false alarms"
HOLDING = ("running", "collecting")
"""States in which the gang has the locks of all its nodes."""
UNDER_WAY = timedelta(days=3)
"""How long ago a run began at most that is looked for in the spool."""


OpenAcceptances = Callable[[], list[Row]]
"""Returns the rows of `ClusterAcceptance`: what is due depends on the lines' files, too."""


class HealthApi:
    """Handlers of the API that the pages Trust and Nodes read."""

    def __init__(
        self,
        repository: OpenPages,
        spool: OpenSpool,
        acceptances: OpenAcceptances,
        cache: AnswerCache[ClusterAcceptances],
    ) -> None:
        self._repository = repository
        self._spool = spool
        self._acceptances = acceptances
        self._cache = cache

    def acceptance(self) -> ClusterAcceptances:
        """What of the clusters' acceptance holds, and what is due again and why."""
        return self._cache.get(
            "acceptance", "", lambda: ClusterAcceptances.of(items=self._acceptances())
        )

    def trust(self) -> Trust:
        """Grades of the detector, noisy and drifting series, how alerts ended."""
        with self._repository() as repository:
            grades = repository.grades()
            return Trust.of(
                grades=grades,
                summary=grade_sentences(grades),
                noisy=repository.noisy(),
                drifting=repository.drifts(),
                labels=repository.labels(),
            )

    def activity(self) -> NodeActivities:
        """What holds nodes now, and what waits for them."""
        with self._repository() as repository:
            unloaded = repository.unloaded_runs(datetime.now(UTC) - UNDER_WAY)
        return NodeActivities(items=list(node_activity(self._spool(), unloaded)))

    def nodes(self) -> Nodes:
        """Clusters with their nodes: health, and how full the last night was."""
        with self._repository() as repository:
            return Nodes.of(
                clusters=repository.clusters(),
                nodes=[
                    row
                    | {
                        "sentences": [
                            sentence(each) for each in reasons_from_json(row["state_reasons"])
                        ]
                    }
                    for row in repository.nodes()
                ],
                controls=repository.controls(),
                use=repository.node_use(),
                windows=repository.night_windows(),
            )


def node_activity(spool: Spool, runs: Iterable[Row]) -> Iterator[NodeActivity]:
    """Yield the cases under way of runs that may be, each with the nodes that it holds or wants."""
    for run in runs:
        folder = spool.run(run["run_id"])
        for case_id in folder.case_ids():
            case = folder.latest(case_id)
            job = case.job() if case else None
            progress = case.progress() if case else None
            if case is None or job is None or progress is None or case.outcome() is not None:
                continue
            state = str(progress["state"])
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


def grade_sentences(grades: Iterable[Row]) -> list[str]:
    """Return one sentence for each suite and cluster with grades."""
    found = []
    for (suite, cluster), rows in itertools.groupby(
        grades, key=lambda row: (row["suite"], row["cluster"])
    ):
        by_measure = {row["measure"]: row for row in rows}
        parts = [_power(by_measure.get(GRADED_SLOWDOWN)), _alarms(by_measure.get(FALSE_ALARMS))]
        if said := "; ".join(filter(None, parts)):
            found.append(f"{suite} on {cluster}: {said}.")
    return found


def _power(row: Row | None) -> str:
    if row is None or row["rate"] is None:
        return ""
    delay = row["median_delay"]
    after = "" if delay is None else f", after {delay:g} nights in the median"
    return (
        f"the detector found {percent(row['rate'], 0)} ({percent(row['low'], 0)} to "
        f"{percent(row['high'], 0)}) of "
        f"{row['trials']:,} planted slowdowns of 5 % within two weeks{after}"
    )


def _alarms(row: Row | None) -> str:
    if row is None or row["rate"] is None:
        return ""
    return f"{row['rate']:.1f} false alarms in 1,000 nights ({row['low']:.1f} to {row['high']:.1f})"
