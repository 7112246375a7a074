"""The read-only JSON API of the pages: how far verdicts can be trusted, and nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import sentence
from nightbench.warehouse.pages import OpenPages
from nightbench.web.alert_models import (
    NodeActivities,
    Nodes,
    Trust,
)
from nightbench.web.case_api import OpenSpool
from nightbench.web.node_activity import node_activity
from nightbench.web.views import grade_sentences

UNDER_WAY = timedelta(days=3)
"""How long ago a run began at most that is looked for in the spool."""


class HealthApi:
    """Handlers of the API that the pages Trust and Nodes read."""

    def __init__(self, repository: OpenPages, spool: OpenSpool) -> None:
        self._repository = repository
        self._spool = spool

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
