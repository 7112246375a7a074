"""The words of Nightbench as plain data: frozen dataclasses, and frozen models of pydantic.

A section of a file is a model (`values.StrictModel`): one class says which keys the file may have,
is what code works with, and is stored with a run.

Everything that one package hands to another is defined here. Durations are seconds (`_s`), sizes
are bytes (`_bytes`), throughput is in units of work per second, and the unit of work ("images",
"samples", "tokens") is stored with it. Documents that cross SSH are described by the JSON Schemas
under `benchmarks/contract/`; the classes here that have a `to_json`/`from_json` are the control
plane's side of that contract.
"""

from nightbench.core.model.cases import (
    LINE_AXES,
    MAX_BATCH,
    SEVERAL,
    SPLIT_AXES,
    Build,
    Case,
    Protocol,
    ReferenceLosses,
)
from nightbench.core.model.catalog import (
    FrameworkInfo,
    Role,
    Untried,
    Variant,
    series_key,
)
from nightbench.core.model.clusters import (
    Cluster,
    ComparePolicy,
    EnvironmentPolicy,
    GitRepository,
    HealthPolicy,
    JumpHost,
    KubernetesPolicy,
    NeighbourPolicy,
    Node,
    SlurmPolicy,
)
from nightbench.core.model.metrics import (
    THROUGHPUT,
    AlertMetric,
    MetricInfo,
    info_of,
)
from nightbench.core.model.pairs import MeasuredPair, Pair, PairNight, PlannedPair
from nightbench.core.model.policies import NightPolicy, Publication, RegressionPolicy, Route
from nightbench.core.model.reasons import (
    Reason,
    ReasonCode,
    reasons_from_json,
    reasons_to_json,
)
from nightbench.core.model.results import (
    FIGURES,
    CheckResult,
    ClockOffset,
    Figures,
    HistoryPoint,
    Measurement,
    RankResult,
    RepeatRecord,
    RepeatSummary,
    Verdict,
    gain_of,
)
from nightbench.core.model.runs import (
    CaseToLoad,
    JobSpec,
    Limits,
    LoadBatch,
    MeasuredCase,
    PlannedCase,
    Process,
    RepeatToLoad,
    Run,
)
from nightbench.core.model.suites import (
    Accepted,
    Catalog,
    Suite,
    SuiteTable,
    TableMetric,
)
from nightbench.core.model.words import (
    SLUG,
    CaseStatus,
    RunKind,
    Severity,
    Strategy,
    TrainingKind,
    VerdictKind,
    differ,
    digest_of,
)
from nightbench.core.model.workloads import Cost, WorkloadInfo
