"""The read-only JSON API of the pages: how far verdicts can be trusted, and nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import sentence
from nightbench.web.alert_models import (
    AlertLabels,
    ClusterSummary,
    ControlMedian,
    DetectorGrade,
    NightWindowRow,
    NodeActivities,
    NodeHealth,
    Nodes,
    NodeUse,
    Trust,
)
from nightbench.web.case_api import OpenSpool
from nightbench.web.node_activity import node_activity
from nightbench.web.page_queries import OpenQueries
from nightbench.web.ui_models import DriftingSeries, NoisySeries
from nightbench.web.views import grade_sentences

UNDER_WAY = timedelta(days=3)
"""How long ago a run began at most that is looked for in the spool."""


class HealthApi:
    """Handlers of the API that the pages Trust and Nodes read."""

    def __init__(self, repository: OpenQueries, spool: OpenSpool) -> None:
        self._repository = repository
        self._spool = spool

    def trust(self) -> Trust:
        """Grades of the detector, noisy and drifting series, how alerts ended."""
        with self._repository() as repository:
            grades = repository.grades()
            return Trust(
                grades=[DetectorGrade.of(row) for row in grades],
                summary=grade_sentences(grades),
                noisy=[NoisySeries.of(row) for row in repository.noisy()],
                drifting=[DriftingSeries.of(row) for row in repository.drifts()],
                labels=[AlertLabels.of(row) for row in repository.labels()],
            )

    def activity(self) -> NodeActivities:
        """What holds nodes now, and what waits for them."""
        with self._repository() as repository:
            unloaded = repository.unloaded_runs(datetime.now(UTC) - UNDER_WAY)
        return NodeActivities(items=list(node_activity(self._spool(), unloaded)))

    def nodes(self) -> Nodes:
        """Clusters with their nodes: health, and how full the last night was."""
        with self._repository() as repository:
            return Nodes(
                clusters=[ClusterSummary.of(row) for row in repository.clusters()],
                nodes=[
                    NodeHealth.of(
                        row,
                        sentences=[
                            sentence(each) for each in reasons_from_json(row["state_reasons"])
                        ],
                    )
                    for row in repository.nodes()
                ],
                controls=[ControlMedian.of(row) for row in repository.controls()],
                use=[NodeUse.of(row) for row in repository.node_use()],
                windows=[NightWindowRow.of(row) for row in repository.night_windows()],
            )
