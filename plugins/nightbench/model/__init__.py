"""The words of Nightbench as plain data: frozen dataclasses, standard library only.

Everything that one package hands to another is defined here. Durations are seconds
(`_s`), sizes are bytes (`_bytes`), throughput is in units of work per second, and the
unit of work ("images", "samples", "tokens") travels beside it. Documents that cross SSH
are described by the JSON Schemas under `benchmarks/contract/`; the classes here that have
a `to_json`/`from_json` are the control plane's side of that contract.
"""

from nightbench.model.cases import Build, Case, Protocol
from nightbench.model.clusters import (
    Cluster,
    EnvironmentPolicy,
    HealthPolicy,
    JumpHost,
    NeighbourPolicy,
    Node,
)
from nightbench.model.results import (
    CheckResult,
    ClockOffset,
    Measurement,
    RankResult,
    RepeatRecord,
    RepeatSummary,
)
from nightbench.model.runs import JobSpec, Limits, Process, Run
from nightbench.model.suites import (
    Catalog,
    FrameworkInfo,
    NightPolicy,
    RegressionPolicy,
    Route,
    Suite,
    WorkloadInfo,
)
from nightbench.model.verdicts import HistoryPoint, Verdict
from nightbench.model.words import (
    SLUG,
    CaseStatus,
    RunKind,
    Severity,
    Strategy,
    VerdictKind,
    digest_of,
)

__all__ = [
    "SLUG",
    "Build",
    "Case",
    "CaseStatus",
    "Catalog",
    "CheckResult",
    "ClockOffset",
    "Cluster",
    "EnvironmentPolicy",
    "FrameworkInfo",
    "HealthPolicy",
    "HistoryPoint",
    "JobSpec",
    "JumpHost",
    "Limits",
    "Measurement",
    "NeighbourPolicy",
    "NightPolicy",
    "Node",
    "Process",
    "Protocol",
    "RankResult",
    "RegressionPolicy",
    "RepeatRecord",
    "RepeatSummary",
    "Route",
    "Run",
    "RunKind",
    "Severity",
    "Strategy",
    "Suite",
    "Verdict",
    "VerdictKind",
    "WorkloadInfo",
    "digest_of",
]
