"""Answers of the JSON API about alerts, the detector and nodes."""

from datetime import datetime

from nightbench.web.api_model import ApiModel, Page
from nightbench.web.experiment_models import BisectSearch
from nightbench.web.ui_models import AlertGroupRow, AlertRow, DriftingSeries, NoisySeries


class AlertList(Page):
    """A page of alerts, newest first."""

    alerts: list[AlertRow]


class AlertGroups(Page):
    """A page of groups of alerts, the worst first."""

    items: list[AlertGroupRow]
    alerts: int
    """Number of alerts in all groups."""


class AlertEvent(ApiModel):
    """Something that happened to an alert."""

    event_id: int
    at: datetime
    what: str
    from_state: str | None
    to_state: str | None
    by_whom: str
    db_role: str
    why: str
    run_id: str | None


class OfferedAction(ApiModel):
    """Something that the user may do with an alert in its state."""

    name: str
    label: str
    hint: str
    field: str
    """Field that the action needs in addition to `why`: reason, until, owner, or none."""


class AlertDetail(AlertRow):
    """An alert with its history, and what its reader may do with it."""

    unplanned: str
    """Why no night can end the alert: its suite no longer has the case. Empty if it has."""
    evidence_sentences: list[str]
    """Evidence for and against the cause."""
    events: list[AlertEvent]
    bisects: list[BisectSearch]
    group: list[AlertRow]
    """All alerts of the same cause, including this alert; empty if there is no other alert."""
    actions: list[OfferedAction]
    """Actions that the user may choose; empty for users who may only read."""
    reasons: dict[str, str]
    """Reasons for dismissing the alert, with their labels."""


# --- trust --------------------------------------------------------------------------------


class DetectorGrade(ApiModel):
    """One measure of how well a suite's detector does."""

    suite: str
    cluster: str
    run_id: str
    started_at: datetime
    measure: str
    """Size of the injected slowdowns, or false alarms."""
    trials: int
    rate: float | None
    """Share of slowdowns that were detected; for false alarms, their number in 1,000 nights."""
    low: float | None
    high: float | None
    median_delay: float | None
    limit_value: float | None
    below: str
    """Why the value is not good enough; empty if it is good enough."""


class AlertLabels(ApiModel):
    """How many alerts of a cluster ended in which way within a year."""

    cluster: str
    alerts: int
    live: int
    resolved: int
    intended: int
    wont_fix: int
    false_alarms: int


class Trust(ApiModel):
    """How far the verdicts can be trusted."""

    grades: list[DetectorGrade]
    noisy: list[NoisySeries]
    drifting: list[DriftingSeries]
    labels: list[AlertLabels]


# --- nodes --------------------------------------------------------------------------------


class NodeHealth(ApiModel):
    """State of a node, and the findings of its last preflight."""

    cluster: str
    node: str
    address: str | None
    state: str
    state_since: datetime | None
    sentences: list[str]
    """Reason of the node's state."""
    state_by: str | None
    faults_in_a_row: int
    last_preflight_at: datetime | None
    last_preflight_run_id: str | None
    was_reachable: bool | None
    last_level: str | None
    last_complaints: list[str]


class ControlMedian(ApiModel):
    """The newest control measurement of a node, and the median of up to ten before it."""

    cluster: str
    node: str
    metric: str
    device: str
    backend: str
    at: datetime
    run_id: str | None
    median: float
    unit: str
    median_before: float | None
    ratio: float | None
    """median / median_before; below 1 if the node is slow, but not if the framework is slow."""


class ClusterSummary(ApiModel):
    """A cluster that runs were planned on."""

    cluster: str
    description: str | None
    device_kind: str | None
    nodes: int | None
    devices_per_node: int | None
    runs: int
    first_run_at: datetime
    last_run_at: datetime


class NodeActivity(ApiModel):
    """A case under way, with its nodes."""

    cluster: str
    run_id: str
    case_id: str
    nodes: list[str]
    is_holding: bool
    """True if the gang has locked all its nodes; otherwise it prepares, or waits for a node."""
    state: str
    message: str
    """Reason for waiting: which job has locked which node, and since when."""
    repeat: int | None
    repeats: int | None
    since: datetime
    """Time at which the controller took over the gang."""
    at: datetime
    """Time of the controller's last report."""


class ClusterAcceptance(ApiModel):
    """Numbers of configurations that passed a cluster's acceptance test and that need a retest."""

    cluster: str
    passed: int
    failed: int
    not_reported: int
    due: int
    """Number of tested configurations whose build, driver or version has changed since the test."""
    reasons: list[str]
    """Reasons why they must be retested, each reason once."""
    last_run_id: str
    last_at: datetime


class NodeUse(ApiModel):
    """Time that a node spent on a suite in the last night."""

    cluster: str
    node: str
    suite: str
    cases: int
    used_s: float
    planned_s: float
    """Sum of the usual durations of the cases: medians of good runs in the two weeks before."""
    busy_s: float
    """Time in which any case ran on the node. Cases that ran at the same time count once."""


class NodeNights(ApiModel):
    """Cases, faults and quarantine of a node in the last nights, oldest first."""

    cluster: str
    node: str
    first_night: datetime
    """Date (UTC) of the night, which ends at noon of this date."""
    cases: list[int]
    faults: list[int]
    quarantined: list[bool]


class NightWindowRow(ApiModel):
    """From when to when a cluster's suites were to measure in the last night."""

    cluster: str
    begins_at: datetime
    ends_at: datetime


class Nodes(ApiModel):
    """Clusters with their nodes and control measurements."""

    clusters: list[ClusterSummary]
    nodes: list[NodeHealth]
    controls: list[ControlMedian]
    use: list[NodeUse]
    nights: list[NodeNights]
    windows: list[NightWindowRow]
