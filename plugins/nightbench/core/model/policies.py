"""A suite's policies for nights, verdicts, messages and publication."""

from typing import Annotated, Literal

from pydantic import Field

from nightbench.core.model import values as v
from nightbench.core.model.metrics import METRICS, JudgedMetric, MetricInfo

_AlertKind = Literal["regressed", "failed", "unavailable", "missing", "training_changed"]
"""Verdicts that open an alert."""


class NightPolicy(v.StrictModel):
    """The part of a night that scheduled runs may take; cases that do not fit are left out."""

    window: v.HoursText | None = None
    """Hours within which cases start and end, such as `22:00-06:00 Europe/Berlin`. The cluster's
    `limits.hours` apply too."""
    budget_s: v.PositiveDuration | None = Field(None, alias="budget")
    """Longest duration of a night, from its first case on."""
    deadline: v.ClockText | None = None
    """A night without results at this time is missing, `07:00 Europe/Berlin` [default: an hour
    after the end of the night]."""


class RegressionPolicy(v.StrictModel):
    """Changes that the suite reports."""

    min_change: v.PercentageOrAuto = "auto"
    """A change whose whole 90 % interval is smaller is not reported. `auto`: all detectable changes
    of 1 % or more are reported."""
    min_history: Annotated[int, Field(ge=2), v.Words("whole number, at least 2")] = 10
    """Number of earlier nights that a verdict other than `insufficient_data` needs."""
    max_spread: v.Percentage = 0.10
    """A series that varies by more is still measured, but a drop opens no alert."""
    urgent: v.Percentage = 0.20
    """A drop of this size is reported at once, in its own message."""
    confirm_s: v.Duration = Field(3600.0, alias="confirm")
    """Time of a night to repeat the measurement of suspected regressions; `0s`: none. Only
    throughput is repeated."""
    metric: JudgedMetric = "throughput"
    """Metric that is judged, by its name in the marts; for `joules_per_unit` and the two metrics of
    memory an increase is the regression."""
    training: Literal["alert", "warn", "off"] = "alert"
    """Reaction to changed losses of a case: `alert` opens an alert if the series is reproducible,
    `warn` gives only the verdict, `off` does not compare losses."""

    @property
    def judged(self) -> MetricInfo:
        """The metric that is judged, with its unit and direction."""
        return METRICS[self.metric]

    @property
    def reported_from(self) -> float:
        """Relative size from which a change of level is reported."""
        return 0.01 if self.min_change == "auto" else self.min_change

    @property
    def clear_change(self) -> float:
        """Relative size from which a drop grew, a drift is reported and another series changed."""
        return 0.03 if self.min_change == "auto" else self.min_change


class Route(v.StrictModel):
    """Who owns the alerts of some cases, and the channels that get them."""

    frameworks: v.Many[v.FrameworkName] = ()
    """Only cases of these framework lines."""
    workloads: v.Many[v.WorkloadName] = ()
    """Only cases of these workloads."""
    clusters: v.Many[v.Name] = ()
    """Only on these clusters."""
    verdicts: v.Many[_AlertKind] = ()
    """Only alerts of these kinds."""
    owner: v.Text | None = None
    """Owner of these alerts [default: the suite's]."""
    alerts: v.Many[v.Url] | None = None
    """Channels for these alerts [default: the suite's `alerts`]. `[]`: none."""


class Publication(v.StrictModel):
    """Results that `nightbench publish` may show to everybody. `{}`: all cases without names."""

    frameworks: v.Many[v.FrameworkName] = ()
    """Only cases of these framework lines."""
    workloads: v.Many[v.WorkloadName] = ()
    """Only cases of these workloads."""
    nodes: bool = False
    """Also publish names of nodes, and the sentences about causes, which name nodes."""
    owner: bool = False
    """Also publish the suite's owner."""
    notes: bool = False
    """Also publish the suite's description and users' notes about its alerts."""
