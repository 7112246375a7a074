"""Replays a series night by night: which alerts a policy would have raised. Pure."""

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from nightbench.alerts import AlertChanges, LiveAlert, alerts_for
from nightbench.core.model import HistoryPoint, RegressionPolicy, Verdict
from nightbench.detection import Detector, noise
from nightbench.detection.grading import wilson

SERIES = tuple[str, str]
"""Case and cluster."""

WARM_UP = 30
"""Nights that are replayed before those that count; alerts that are live then are not raised."""

NEAR = timedelta(days=14)
"""Largest distance between the first nights of two alerts that count as the same."""

_MADE_UP = "replay"


@dataclass(frozen=True)
class RaisedAlert:
    """An alert that a replay has opened."""

    case_id: str
    cluster: str
    at: datetime
    """The night that opened it."""
    since: datetime | None
    """First night at the lower level."""
    change: float | None
    sentence: str
    ended_at: datetime | None = None

    @property
    def series(self) -> SERIES:
        """Its series."""
        return self.case_id, self.cluster


@dataclass(frozen=True)
class LabelledAlert:
    """A past alert with the label that people gave it."""

    alert_id: int
    case_id: str
    cluster: str
    opened_at: datetime
    """The night that opened it."""
    last_at: datetime
    """The last night with the same verdict."""
    is_true: bool

    @property
    def series(self) -> SERIES:
        """Its series."""
        return self.case_id, self.cluster


def label_of(events: Sequence[Mapping[str, Any]], dismissed_as: str | None) -> bool | None:
    """Return people's label of an alert: true, false, or None without one.

    Acknowledged, resolved by a person, dismissed as intended or as `wont_fix`: there was a change.
    Dismissed as a false alarm: there was none. An alert that was opened again has no label.

    Args:
        events: rows of `marts.fct_alert_event` of one alert, oldest first.
        dismissed_as: why it is dismissed; None if it is not.
    """
    label: bool | None = None
    for event in events:
        if event["what"] != "moved":
            continue
        to = event["to_state"]
        if to == "open":
            label = None
        elif event["by_whom"] != "nightbench":
            label = not (to == "dismissed" and dismissed_as == "false_alarm")
    return label


def replay(
    series: SERIES,
    points: Sequence[HistoryPoint],
    policy: RegressionPolicy,
    detector: Detector,
    since: datetime | None = None,
) -> list[RaisedAlert]:
    """Return the alerts on drops that a series would have raised, judged night by night.

    Every night is judged with the nights before it only. Noisy stretches raise nothing, and alerts
    open and end as real ones do; people, confirmations and failed nights are not simulated. Alerts
    of nights before `since` are not returned.
    """
    life = AlertLife(policy.clear_change)
    return list(_Replay(series, policy, detector, life).run(points, since))


@dataclass
class AlertLife:
    """The alert of one series, as real ones open, continue and end from night to night."""

    clear_change: float
    live: LiveAlert | None = None

    def night(self, verdict: Verdict, at: datetime, *, is_noisy: bool = False) -> AlertChanges:
        """Return what a night changes of the alert."""
        live = [self.live] if self.live else []
        noisy = {verdict.case_id} if is_noisy else ()
        changes = alerts_for([verdict], live, at, self.clear_change, noisy)
        if changes.to_resolve:
            self.live = None
        for alert, suspect in changes.to_watch:
            run_id = verdict.run_id
            self.live = replace(alert, suspect=suspect, suspect_run_id=run_id, suspect_at=at)
        for each in (*changes.to_open, *changes.to_continue):
            self.live = LiveAlert(
                each.case_id, each.cluster, each.kind, each.value, each.baseline, 1
            )
        return changes


@dataclass
class _Replay:
    series: SERIES
    policy: RegressionPolicy
    detector: Detector
    life: AlertLife
    raised: RaisedAlert | None = None
    is_noisy: bool = False

    def run(self, points: Sequence[HistoryPoint], since: datetime | None) -> Iterator[RaisedAlert]:
        first = 0
        if since is not None:
            first = max(0, bisect.bisect_left(points, since, key=lambda p: p.at) - WARM_UP)
        for index in range(first, len(points)):
            ended = self._night(points[:index], points[index])
            if ended is not None and (since is None or ended.at >= since):
                yield ended
        if self.raised is not None and (since is None or self.raised.at >= since):
            yield self.raised

    def _night(self, before: Sequence[HistoryPoint], tonight: HistoryPoint) -> RaisedAlert | None:
        """Judge a night; return the alert that it ends."""
        case_id, cluster = self.series
        turn = noise.noise_change(before, tonight, self.policy.max_spread, self.is_noisy)
        if turn is not None:
            self.is_noisy = turn.noisy
        said = self.detector.judge(before, tonight, self.policy)
        verdict = Verdict(
            case_id,
            cluster,
            # Nights are identified by their run; a history from a file may have none.
            f"{_MADE_UP}-{tonight.at.isoformat()}",
            said.kind,
            said.sentence,
            tonight.value,
            said.baseline,
            said.change,
            said.history,
        )
        changes = self.life.night(verdict, tonight.at, is_noisy=self.is_noisy)
        ended = None
        if changes.to_resolve and self.raised is not None:
            ended = replace(self.raised, ended_at=tonight.at)
            self.raised = None
        if changes.to_open:
            self.raised = RaisedAlert(
                case_id, cluster, tonight.at, said.since, said.change, said.sentence
            )
        return ended


# --- score by people's labels ---------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """The alerts of a policy compared with people's labels."""

    raised: tuple[RaisedAlert, ...]
    labels: Mapping[int, bool]
    """Index in `raised` -> label, if there is one."""
    missed: tuple[LabelledAlert, ...]
    """Alerts that people found right and that would not have been raised."""
    silenced: tuple[LabelledAlert, ...]
    """False alarms that would not have been raised."""

    @property
    def right(self) -> int:
        """Alerts that people found right."""
        return sum(self.labels.values())

    @property
    def wrong(self) -> int:
        """Alerts that people found wrong."""
        return len(self.labels) - self.right

    @property
    def unlabelled(self) -> int:
        """Alerts without a label."""
        return len(self.raised) - len(self.labels)

    @property
    def precision(self) -> float | None:
        """Share of the labelled alerts that were right; None without labels."""
        return self.right / len(self.labels) if self.labels else None

    @property
    def worst_precision(self) -> float | None:
        """The same, if all unlabelled ones were wrong."""
        return self.right / len(self.raised) if self.raised else None

    @property
    def recall(self) -> float | None:
        """Share of the right labelled alerts of the past that are raised; None without any."""
        known = self.right + len(self.missed)
        return self.right / known if known else None

    @property
    def precision_interval(self) -> tuple[float, float]:
        """95 % interval of `precision`."""
        return wilson(self.right, len(self.labels))

    @property
    def recall_interval(self) -> tuple[float, float]:
        """95 % interval of `recall`."""
        return wilson(self.right, self.right + len(self.missed))


def score(raised: Sequence[RaisedAlert], labelled: Sequence[LabelledAlert]) -> Score:
    """Match raised alerts with labelled ones, each with the nearest and with at most one."""
    pairs = sorted(
        (abs(alert.at - known.opened_at), i, j)
        for i, alert in enumerate(raised)
        for j, known in enumerate(labelled)
        if alert.series == known.series and known.opened_at - NEAR <= alert.at <= _event_end(known)
    )
    of: dict[int, int] = {}
    for _, i, j in pairs:
        if i not in of and j not in of.values():
            of[i] = j
    free = [known for j, known in enumerate(labelled) if j not in of.values()]
    return Score(
        raised=tuple(raised),
        labels={i: labelled[j].is_true for i, j in sorted(of.items())},
        missed=tuple(known for known in free if known.is_true),
        silenced=tuple(known for known in free if not known.is_true),
    )


def _event_end(known: LabelledAlert) -> datetime:
    """Return the end of the event: an alert that is raised later is another one."""
    return max(known.last_at, known.opened_at + NEAR)


def only_in(one: Sequence[RaisedAlert], other: Sequence[RaisedAlert]) -> list[RaisedAlert]:
    """Return the alerts of `one` that `other` does not raise within two weeks."""
    left = list(other)
    found = []
    for alert in one:
        same = [each for each in left if each.series == alert.series]
        near = min(same, key=lambda each: abs(each.at - alert.at), default=None)
        if near is None or abs(near.at - alert.at) > NEAR:
            found.append(alert)
        else:
            left.remove(near)
    return found
