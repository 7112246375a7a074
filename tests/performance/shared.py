"""What a night tells of movements that many series share, judged with sharing and without.

    python -m tests.performance shared [--episodes 6] [--seed 1] [--processes 2]

Each episode is a cluster of four nodes: four lines with six workloads each, on one node and on two,
and two controls a node. Series, lines and the cluster vary by a noise of their own; single nights
are slow, nights and values are missing, some series swap nodes, lines have releases that change
nothing. Then what the episode is about happens, and fourteen nights follow. Each of the last three
weeks' nights is judged as if it were the last, and opens, continues and resolves alerts as a live
night does; every alert that opens counts.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from statistics import median

import numpy as np

from nightbench.alerts.alert_changes import LiveAlert, alerts_for
from nightbench.alerts.shared_alerts import LiveSharedChange, SharedAlerts, share_alerts
from nightbench.core.model import HistoryPoint, RegressionPolicy, Verdict
from nightbench.detection import ChangeDetector
from nightbench.detection.case_verdicts import verdict_of
from nightbench.detection.factors import Factor, FactorKind, NightRow, SharedChange
from nightbench.detection.node_modes import modes_of
from nightbench.detection.robust import Floats
from nightbench.night.shared_verdicts import find_shared, residual_parts

FIRST = datetime(2026, 1, 1, 1, tzinfo=UTC)
LINES, WORKLOADS, NODES = 4, 6, 4
BEFORE, AFTER = 7, 14
"""Nights that are judged before an event and since."""
KINDS = (
    "quiet",
    "release",
    "weak release",
    "node",
    "cluster",
    "driver",
    "network",
    "workload",
    "single",
    "release and node",
    "two releases",
)
CLUSTER = Factor(FactorKind.CLUSTER, "lab")
NETWORK = Factor(FactorKind.NETWORK, "lab")


@dataclass
class Truth:
    """What happened: the factor that moved, or the one series."""

    factor: Factor | None
    series: set[str]
    night: int
    step: float


@dataclass
class Episode:
    """A cluster's nights, with what happened in them."""

    rows: list[NightRow]
    truths: list[Truth] = field(default_factory=list)
    event: int = 0


def line(number: int) -> Factor:
    """The factor of a line."""
    return Factor(FactorKind.LINE, f"line{number}")


def node(number: int) -> Factor:
    """The factor of a node."""
    return Factor(FactorKind.NODE, f"n{number}")


class _Maker:
    """Makes one episode."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.rng = rng = np.random.default_rng([seed, KINDS.index(kind)])
        self.event = int(rng.integers(35, 100))
        self.nights = self.event + AFTER
        self.cluster = 0.002 * rng.standard_normal(self.nights)
        self.lines = 0.0015 * rng.standard_normal((LINES, self.nights))
        self.slow = np.where(rng.random((NODES, self.nights)) < 0.01, 0.05, 0.0)
        self.releases = rng.random((LINES, self.nights)) < 0.04
        self.gone = rng.random(self.nights) < 0.03
        self.gone[-1] = False
        self.steps: list[tuple[Factor, int, float]] = []
        self.driver: tuple[int, int] | None = None
        self._happen()

    def _happen(self) -> None:
        rng, at, size = self.rng, self.event, float(self.rng.uniform(0.02, 0.08))
        one, other = (int(n) for n in rng.permutation(LINES)[:2])
        which = int(rng.integers(NODES))
        apart = int(rng.integers(0, 4))
        happens: dict[str, list[tuple[Factor, int, float]]] = {
            "release": [(line(one), at, size)],
            "weak release": [(line(one), at, 0.015)],
            "node": [(node(which), at, size)],
            "cluster": [(CLUSTER, at, size)],
            "driver": [(node(which), at, size)],
            "network": [(NETWORK, at, size)],
            "workload": [(Factor(FactorKind.WORKLOAD, f"w{one}"), at, size)],
            "release and node": [(line(one), at, size), (node(which), at + apart, size)],
            "two releases": [(line(one), at, size), (line(other), at + apart, size)],
        }
        self.steps = happens.get(self.kind, [])
        if self.kind == "driver":
            self.driver = which, at
        for factor, night, _ in self.steps:
            if factor.kind is FactorKind.LINE:
                self.releases[int(factor.name[4:]), night] = True

    def episode(self) -> Episode:
        """Make it."""
        truths = [Truth(factor, set(), night, step) for factor, night, step in self.steps]
        rows: list[NightRow] = []
        lone = int(self.rng.integers(LINES * WORKLOADS))
        for number in range(LINES * WORKLOADS):
            for is_wide in (False, True):
                own, workload = divmod(number, WORKLOADS)
                factors = {line(own), CLUSTER, Factor(FactorKind.WORKLOAD, f"w{workload}")}
                factors |= {NETWORK} if is_wide else set()
                name = f"w{workload}-line{own}-{'2x1' if is_wide else '1x1'}"
                single = self.kind == "single" and number == lone and not is_wide
                if single:
                    truths = [Truth(None, {name}, self.event, 0.05)]
                places = self._places(number, is_wide)
                rows.append(self._row(name, factors, places, own, truths, single))
        for which in range(NODES):
            for metric in ("matmul", "copy"):
                places = [(which,)] * self.nights
                rows.append(self._row(f"{metric}-n{which}", {CLUSTER}, places, None, truths))
        return Episode(rows, truths, self.event)

    def _places(self, number: int, is_wide: bool) -> list[tuple[int, ...]]:
        usual = (number % NODES, (number + 1) % NODES) if is_wide else (number % NODES,)
        if self.rng.random() > 0.15 or is_wide:
            return [usual] * self.nights
        return [(int(n),) for n in self.rng.integers(NODES, size=self.nights)]

    def _row(
        self,
        name: str,
        factors: set[Factor],
        places: Sequence[tuple[int, ...]],
        own: int | None,
        truths: Sequence[Truth],
        single: bool = False,
    ) -> NightRow:
        rng, is_control = self.rng, own is None
        noise = 0.004 if is_control else math.exp(rng.uniform(math.log(0.003), math.log(0.025)))
        raw = rng.standard_t(4, self.nights) / math.sqrt(2)
        logs: Floats = math.log(100) + noise * raw + self.cluster
        logs -= np.where(rng.random(self.nights) < 0.01, rng.exponential(0.06, self.nights), 0)
        logs -= [max(self.slow[list(on), k]) for k, on in enumerate(places)]
        if own is not None:
            logs += self.lines[own]
        shares = is_control or rng.random() < 0.9
        for factor, night, step in self.steps:
            on = [
                factor in factors or factor in {node(n) for n in nodes} for nodes in places[night:]
            ]
            if any(on) and shares:
                size = step * (1.0 if is_control else float(rng.uniform(0.8, 1.2)))
                logs[night:] -= np.where(on, -math.log1p(-size), 0.0)
                if own is not None:
                    next(t for t in truths if t.factor == factor).series.add(name)
        if single:
            logs[self.event :] += math.log1p(-0.05)
        missing = self.gone | (rng.random(self.nights) < 0.04)
        missing[-1] = False
        versions = np.cumsum(self.releases[own]) if own is not None else None
        points = [
            HistoryPoint(
                FIRST + timedelta(days=k),
                math.exp(logs[k]),
                f"night-{k}",
                5,
                2.3 * 0.6 * noise,
                fingerprint_id=self._fingerprint(places[k], k),
                framework_version=None if versions is None else f"3.{versions[k]}",
            )
            for k in range(self.nights)
            if not missing[k]
        ]
        nodes = {f"night-{k}": [f"n{n}" for n in on] for k, on in enumerate(places)}
        return NightRow(name, points, frozenset(factors), nodes, is_control)

    def _fingerprint(self, places: tuple[int, ...], night: int) -> str:
        if self.driver is None or night < self.driver[1] or self.driver[0] not in places:
            return "driver 1"
        return "driver 2"


def up_to(rows: Sequence[NightRow], night: int) -> list[NightRow]:
    """The rows of series that have a value on a night, without what comes after."""
    at = FIRST + timedelta(days=night)
    cut = [
        NightRow(r.name, [p for p in r.points if p.at <= at], r.factors, r.nodes, r.is_control)
        for r in rows
    ]
    return [row for row in cut if row.points and row.points[-1].at == at]


@dataclass
class Score:
    """What was told of an episode, with sharing or without."""

    causes: int = 0
    named: int = 0
    delays: list[int] = field(default_factory=list)
    alerts: int = 0
    joined: int = 0
    """Alerts that ended as part of a movement's, which was told later."""
    false: int = 0
    series_nights: int = 0
    held: int = 0
    """Movements whose interval holds the truth, when told, of `movements`."""
    movements: int = 0


class _Alerts:
    """The alerts of an episode, as the warehouse would keep them."""

    def __init__(self) -> None:
        self._live: dict[str, LiveAlert] = {}
        self.live: list[LiveSharedChange] = []
        self._opened = 0

    @property
    def live(self) -> list[LiveAlert]:
        """Those that stand."""
        return list(self._live.values())

    def night(
        self, verdicts: Sequence[Verdict], at: datetime, joined: Collection[int] = ()
    ) -> list[Verdict]:
        """Change the alerts by a night's verdicts, and return those that open one."""
        self._live = {k: each for k, each in self._live.items() if each.alert_id not in joined}
        changes = alerts_for(verdicts, self.live, at)
        for alert in changes.to_resolve:
            del self._live[alert.case_id]
            self.live = [s for s in self.live if s.alert_id != alert.alert_id]
        for alert, suspect in changes.to_watch:
            watched = replace(
                alert, suspect=suspect, suspect_run_id=verdicts[0].run_id, suspect_at=at
            )
            self._live[alert.case_id] = watched
        for verdict in changes.to_continue:
            old = self._live[verdict.case_id]
            self._live[verdict.case_id] = replace(
                old, value=verdict.value, baseline=verdict.baseline, suspect=None
            )
        for verdict in changes.to_open:
            self._opened += 1
            self._live[verdict.case_id] = LiveAlert(
                verdict.case_id, "lab", verdict.kind, verdict.value, verdict.baseline, self._opened
            )
        return changes.to_open

    def keep(self, movements: Sequence[SharedChange], shared: SharedAlerts) -> None:
        """Keep what the series of a night share with its alert."""
        for number, case_id in shared.lead.items():
            each = movements[number]
            if case_id in self._live:
                alert_id = self._live[case_id].alert_id
                known = next((s for s in self.live if s.alert_id == alert_id), None)
                if known is not None:
                    self.live.remove(known)
                new = known or LiveSharedChange(alert_id, case_id, each.factor, each.since, {})
                self.live.append(replace(new, members={**new.members, **each.members}))


class _Player:
    """Judges one episode night by night, and counts what is told."""

    def __init__(self, kind: str, seed: int) -> None:
        self.episode = _Maker(kind, seed).episode()
        causes = len(self.episode.truths)
        self.scores = {True: Score(causes), False: Score(causes)}
        self._alerts = {True: _Alerts(), False: _Alerts()}
        self._named: dict[bool, set[int]] = {True: set(), False: set()}
        self._policy = RegressionPolicy()

    def play(self) -> None:
        """Judge every night."""
        for night in range(self.episode.event - BEFORE, self.episode.event + AFTER):
            at = FIRST + timedelta(days=night)
            every = up_to(self.episode.rows, night)
            controls = [row for row in every if row.is_control]
            rows = {row.name: _by_mode(row) for row in every if not row.is_control}
            cases = [self._judge(row) for row in rows.values()]
            shared = find_shared(rows, controls, cases, self._policy)
            verdicts = shared.verdicts
            alerts = self._alerts[True]
            given = share_alerts(
                verdicts,
                shared.changes,
                alerts.live,
                shared.own,
                alerts=alerts.live,
                remaining=residual_parts(alerts.live, rows),
            )
            opened = alerts.night(given.verdicts, at, given.joined)
            self.scores[True].joined += len(given.joined)
            alerts.keep(shared.changes, given)
            for number in given.lead:
                self._name(shared.changes[number], night)
            leads = {case_id: shared.changes[n] for n, case_id in given.lead.items()}
            for is_shared, some in (
                (True, opened),
                (False, self._alerts[False].night(cases, at)),
            ):
                self.scores[is_shared].series_nights += len(rows)
                for verdict in some:
                    self._tell(is_shared, night, verdict, leads if is_shared else {})

    def _name(self, found: SharedChange, night: int) -> None:
        """Count a movement that is told with its factor, the first time."""
        truth = self._truth_of(found.factor, found.since)
        if truth is not None and truth not in self._named[True]:
            self._hit(True, truth, night)
            step = self.episode.truths[truth].step
            self.scores[True].movements += 1
            self.scores[True].held += found.low <= -step <= found.high

    def _judge(self, row: NightRow) -> Verdict:
        *history, tonight = row.points
        detector = ChangeDetector(with_smallest=False, nodes=row.nodes)
        judged = detector.judge(history, tonight, self._policy)
        return verdict_of(row.name, "lab", tonight, judged)

    def _tell(
        self, is_shared: bool, night: int, verdict: Verdict, leads: Mapping[str, SharedChange]
    ) -> None:
        """Count an alert that opens."""
        score = self.scores[is_shared]
        score.alerts += 1
        if verdict.case_id in leads:
            movement = leads[verdict.case_id]
            score.false += self._truth_of(movement.factor, movement.since) is None
            return
        truth = verdict.since and self._truth_of_series(verdict.case_id, verdict.since, night)
        if truth is None:
            score.false += 1
        elif not is_shared or self.episode.truths[truth].factor is None:
            self._hit(is_shared, truth, night)

    def _hit(self, is_shared: bool, truth: int, night: int) -> None:
        score = self.scores[is_shared]
        if truth not in self._named[is_shared]:
            self._named[is_shared].add(truth)
            score.named += 1
            score.delays.append(night - self.episode.truths[truth].night)

    def _truth_of(self, factor: Factor, since: date) -> int | None:
        for number, truth in enumerate(self.episode.truths):
            if truth.factor == factor and abs((since - _day(truth.night)).days) <= 3:
                return number
        return None

    def _truth_of_series(self, name: str, since: datetime, night: int) -> int | None:
        for number, truth in enumerate(self.episode.truths):
            near = abs((since.date() - _day(truth.night)).days) <= 7
            if name in truth.series and night >= truth.night and near:
                return number
        return None


def play(job: tuple[str, int]) -> tuple[str, Score, Score]:
    """Judge an episode; return its kind, the score with sharing, and the one without."""
    player = _Player(*job)
    player.play()
    return job[0], player.scores[True], player.scores[False]


def _by_mode(row: NightRow) -> NightRow:
    """Return a row as a live night judges it: where nodes are modes, at tonight's."""
    modes = modes_of(row.points, row.nodes)
    return row if modes is None else replace(row, points=list(modes.points))


def _day(night: int) -> date:
    return (FIRST + timedelta(days=night)).date()


def _line(name: str, label: str, score: Score) -> str:
    delay = f"{median(score.delays):g}" if score.delays else "-"
    per_cause = f"{(score.alerts - score.joined) / score.causes:.2f}" if score.causes else "-"
    false = 1000 * score.false / score.series_nights
    return (
        f"{name:18s} {label:8s} {score.named:4d} of {score.causes:4d} {delay:>6s} "
        f"{score.alerts:7d} {score.joined:7d} {per_cause:>10s} {score.false:6d} {false:8.2f}"
    )


def _sum(scores: Sequence[Score]) -> Score:
    total = Score()
    for score in scores:
        for name, value in vars(score).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def main(words: list[str]) -> int:
    """Print a line with sharing and one without for each kind of episode."""
    options = argparse.ArgumentParser(prog="python -m tests.performance shared")
    options.add_argument("--episodes", type=int, default=6, help="of each kind")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--kind", choices=KINDS, help="only this one")
    options.add_argument("--processes", type=int, default=2)
    given = options.parse_args(words)
    kinds = [given.kind] if given.kind else list(KINDS)
    jobs = [(kind, 1000 * given.seed + n) for kind in kinds for n in range(given.episodes)]
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        played = pool.map(play, jobs, chunksize=1)
    print("kind               sharing  named      delay  alerts  joined  per cause  false (1,000)")
    for kind in [*kinds, "all"]:
        for label, place in (("with", 1), ("without", 2)):
            of_kind = [p[place] for p in played if kind in (p[0], "all")]
            print(_line(kind, label, _sum(of_kind)), flush=True)
    every = _sum([p[1] for p in played])
    print(f"the interval holds the truth in {every.held} of {every.movements} named movements")
    return 0
