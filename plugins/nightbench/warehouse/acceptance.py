"""The results of accepting clusters: which configurations of the lines work there."""

from dataclasses import dataclass
from datetime import datetime

from nightbench.core.model import reasons_from_json
from nightbench.core.sentences import sentences
from nightbench.warehouse.repository import Repository

PASSED = "passed"


@dataclass(frozen=True)
class AcceptedMode:
    """The newest result of a configuration and shape on a cluster with one build."""

    line: str
    mode: str
    nodes: int
    devices_per_node: int
    variant: str
    build_id: str
    framework_version: str | None
    driver: str | None
    is_driver_same: bool
    """The cluster's newest preflight found the same driver."""
    code_digest: str
    checks_digest: str
    run_id: str
    started_at: datetime
    outcome: str
    """passed, failed, not reported or skipped."""
    reason: str | None
    """Why it did not pass."""
    efficiency: float | None = None
    """Speed-up over one device in the same acceptance, divided by the devices."""

    @property
    def devices(self) -> str:
        """Its shape, nodes x devices of each: `2x8`."""
        return f"{self.nodes}x{self.devices_per_node}"


class AcceptanceRepository(Repository):
    """Reads of `marts.fct_acceptance`; runs are stored as all runs are."""

    def modes(self, cluster: str) -> list[AcceptedMode]:
        """Return the newest result of each configuration and shape with each build."""
        found = []
        for row in self.read("accepted_modes", cluster=cluster):
            why = {name: row[name] for name in ("code", "node", "subject", "observed", "expected")}
            said = sentences(reasons_from_json([why])) if row["code"] else None
            names = AcceptedMode.__dataclass_fields__.keys() - {"reason"}
            found.append(AcceptedMode(**{name: row[name] for name in names}, reason=said))
        return found
