"""Explains a run's regressions: reads the facts from the warehouse, and stores the causes."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from nightbench.causes import (
    CauseFacts,
    ControlSeries,
    Member,
    NightFacts,
    Peer,
    PreflightFacts,
    explain,
    grouped,
)
from nightbench.causes.facts import BUSY, SharedFactor
from nightbench.causes.field_changes import flat
from nightbench.core.errors import WarehouseUnavailable
from nightbench.core.model import Reason, Run, gain_of, reasons_from_json
from nightbench.detection.factors import FactorKind
from nightbench.warehouse.causes import CauseRepository
from nightbench.warehouse.repository import Row

log = logging.getLogger(__name__)

NIGHTS = 5
"""Nights on each side of a change that are read in full."""
CONTROLS = 10
"""Control measurements before a change that are read."""
_BEFORE = timedelta(days=30)
_NIGHT = timedelta(hours=20)
_NO_DROP = ("ok", "watched", "improved")
_WITHOUT_VALUE = ("failed", "unavailable", "missing")
_SAME_DROP = timedelta(hours=36)
"""Largest distance in time of two series that dropped together."""
_GROUPS_OF = timedelta(days=14)
"""Age of groups that an alert may still join: a change is noticed days after it began."""


def explain_alerts(repository: CauseRepository, run: Run, min_change: float) -> None:
    """Store the causes as `store_causes` does; errors are logged, and alerts then have no cause.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    try:
        store_causes(repository, run, min_change)
    except WarehouseUnavailable:
        raise
    except Exception:  # An unexpected document of a node must not stop an alert.
        log.exception("the alerts of run %s were not explained", run.run_id)


def store_causes(repository: CauseRepository, run: Run, min_change: float) -> None:
    """Find and store the causes of alerts that a run opened or reopened, and of unexplained ones.

    It may be called again with the same result. A series that changed by less than `min_change` is
    steady.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    alerts = repository.read("unexplained_alerts", run_id=run.run_id)
    if not alerts:
        return
    reader = CauseFactsReader(repository, run, min_change, alerts)
    found = {}
    for alert in alerts:
        facts = reader.facts(alert)
        found[alert["alert_id"]] = (facts, explain(facts))
    members = [
        Member(alert_id, run.cluster, cause.kind, cause.suspect, facts.first_bad.at.date())
        for alert_id, (facts, cause) in found.items()
    ]
    earliest = min(member.night for member in members)
    groups = grouped(members, repository.known_groups(run.cluster, earliest - _GROUPS_OF))
    repository.store(
        [
            {
                **vars(cause),
                "kind": cause.kind.value,
                "alert_id": alert_id,
                "run_id": run.run_id,
                "group_key": groups[alert_id],
                "first_bad_run_id": facts.first_bad.run_id,
                "last_good_run_id": facts.last_good.run_id if facts.last_good else None,
                "night": facts.first_bad.at.date(),
            }
            for alert_id, (facts, cause) in found.items()
        ]
    )


class CauseFactsReader:
    """Reads the facts around a run's regressions, once for all of them."""

    def __init__(
        self, repository: CauseRepository, run: Run, min_change: float, alerts: Sequence[Row]
    ) -> None:
        self._run, cluster = run, run.cluster
        self._min_change = min_change
        self._changes = _Changes(repository, run, alerts)
        since = min(self._changes.earliest, run.started_at) - _BEFORE
        self._peers = repository.read("cause_peers", cluster=cluster, until=run.started_at)
        failed = sorted({a["opened_run_id"] for a in alerts if _has_failed(a)})
        self._faults: Sequence[Row] = (
            repository.read("cause_faults", cluster=cluster, run_ids=failed) if failed else []
        )
        span = {"cluster": cluster, "since": since, "until": run.started_at + _NIGHT}
        self._controls = repository.read("cause_controls", **span)
        self._preflights = [_preflight(row) for row in repository.read("cause_preflights", **span)]

    def facts(self, alert: Row) -> CauseFacts:
        """Return the facts around the change of an alert's series."""
        good, bad = self._changes.nights(alert)
        first = bad[0]
        # Controls are measured when a night begins: controls nearer to the bad night belong to it.
        failed, training = _has_failed(alert), _is_training(alert)
        boundary = good[-1].at + (first.at - good[-1].at) / 2 if good else first.at - _NIGHT / 2
        newest = {each.node: each for each in self._preflights if each.at < boundary}
        return CauseFacts(
            case_id=alert["case_id"],
            cluster=self._run.cluster,
            framework=alert["framework"],
            first_bad=first,
            last_good=good[-1] if good else None,
            change=None if failed or training else _change(alert),
            is_training=training,
            failure=reasons_from_json(alert["reasons"]) if failed else (),
            faults=self._faults_of(alert),
            bad=tuple(bad),
            good=tuple(good),
            shared=SharedFactor(alert["factor"], alert["factor_name"], alert["shared_sentence"])
            if alert["factor"] and not training
            else None,
            # Other series and controls are compared by speed, which shows nothing about losses.
            peers=tuple(
                self._peer(row, None if failed else first, alert["framework"])
                for row in self._peers
                if row["case_id"] != alert["case_id"] and not training
            ),
            controls=() if training else tuple(self._series(boundary)),
            preflights_before=tuple(newest.values()),
            preflights_since=tuple(each for each in self._preflights if each.at >= boundary),
        )

    def _faults_of(self, alert: Row) -> dict[str, Reason]:
        if not _has_failed(alert):
            return {}
        return {
            row["node"]: Reason.from_json(row["reasons"][0])
            for row in self._faults
            if row["run_id"] == alert["opened_run_id"]
            and row["subject"].rpartition("/")[0] == alert["case_id"]
        }

    def _peer(self, row: Row, bad: NightFacts | None, line: str) -> Peer:
        """Return another series as a peer of one that dropped then; of a failed one if None."""
        dropped_at = bad.at if bad else None
        verdict, change = row["verdict"], gain_of(row["change"], row["metric"])
        dropped: bool | None = None
        if dropped_at is None:
            dropped = verdict in _WITHOUT_VALUE
        elif verdict == "regressed":
            # A series that dropped long ago is no evidence for this change.
            dropped = True if abs(row["since"] - dropped_at) <= _SAME_DROP else None
        elif verdict in _NO_DROP and (change is None or change > -self._min_change):
            dropped = False
        return Peer(
            case_id=row["case_id"],
            framework=row["framework"],
            nodes=tuple(row["nodes"]),
            dropped=dropped,
            framework_version=row["framework_version"],
            dropped_with_others=bad is not None
            and any(is_of_others(each, bad, line) for each in row["dropped_with"]),
        )

    def _series(self, boundary: datetime) -> list[ControlSeries]:
        sides: dict[tuple[str, ...], tuple[list[float], list[float]]] = {}
        for row in self._controls:
            key = (row["node"], row["metric"], row["device"], row["backend"])
            sides.setdefault(key, ([], []))[row["at"] >= boundary].append(row["median"])
        return [
            ControlSeries(node, metric, device, tuple(before[-CONTROLS:]), tuple(since))
            for (node, metric, device, _), (before, since) in sides.items()
        ]


class _Changes:
    def __init__(self, repository: CauseRepository, run: Run, alerts: Sequence[Row]) -> None:
        self._run = run
        case_ids = [alert["case_id"] for alert in alerts]
        points: dict[str, list[Row]] = defaultdict(list)
        for row in repository.read(
            "cause_nights", case_ids=case_ids, cluster=run.cluster, until=run.started_at
        ):
            points[row["case_id"]].append(row)
        self._sides = {a["case_id"]: _sides(a, points[a["case_id"]]) for a in alerts}
        kept = [row for sides in self._sides.values() for side in sides for row in side]
        self.earliest: datetime = min((row["started_at"] for row in kept), default=run.started_at)
        run_ids = sorted({row["run_id"] for row in kept})
        launches = repository.launches(case_ids, run_ids)
        self._repeats = {(r["case_id"], r["run_id"]): r for r in launches["repeats"]}
        self._nodes: dict[tuple[str, str], dict[str, str | None]] = defaultdict(dict)
        for row in launches["nodes"]:
            self._nodes[row["case_id"], row["run_id"]][row["node"]] = row["fingerprint_id"]
        self._versions: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for row in launches["versions"]:
            self._versions[row["case_id"], row["run_id"]] |= row["versions"]
        ids = {each for nodes in self._nodes.values() for each in nodes.values() if each}
        self._hardware = {key: flat(doc) for key, doc in repository.fingerprints(ids).items()}

    def nights(self, alert: Row) -> tuple[list[NightFacts], list[NightFacts]]:
        """Return good and bad nights of an alert's series, oldest first; one bad night at least."""
        good, bad = self._sides[alert["case_id"]]
        if not bad:
            # The measurement was removed later: only the run is known.
            return [], [NightFacts(self._run.run_id, self._run.started_at)]
        return [self._night(row) for row in good], [self._night(row) for row in bad]

    def _night(self, row: Row) -> NightFacts:
        key = (row["case_id"], row["run_id"])
        nodes, repeats = self._nodes[key], self._repeats.get(key)
        night = NightFacts(
            run_id=row["run_id"],
            at=row["started_at"],
            framework_version=row["framework_version"],
            build=row["build"] or "",
            libraries=self._versions[key],
            definition_digest=row["definition_digest"],
            code_digest=row["code_digest"] or "",
            env=row["env"],
            nodes=tuple(sorted(nodes)),
            hardware={
                node: self._hardware[fingerprint]
                for node, fingerprint in nodes.items()
                if fingerprint in self._hardware
            },
        )
        if repeats is None:
            return night
        return replace(
            night,
            repeats=repeats["repeats"],
            disturbed=tuple(dict.fromkeys(reasons_from_json(repeats["reasons"]))),
            disturbed_repeats=repeats["disturbed"],
            drift=repeats["drift"],
        )


def _change(alert: Row) -> float | None:
    value, baseline = alert["value"], alert["baseline"]
    change = value / baseline - 1 if value is not None and baseline else None
    return gain_of(change, alert["metric"])


def is_of_others(moved: str, bad: NightFacts, line: str) -> bool:
    """Return whether a shared change concerns nothing that a series of a line used that night."""
    factor, _, name = moved.partition(" ")
    if factor == FactorKind.NODE:
        return bool(bad.nodes) and name not in bad.nodes
    if factor == FactorKind.NETWORK:
        return len(bad.nodes) == 1
    return factor == FactorKind.LINE and name != line


def _has_failed(alert: Row) -> bool:
    return alert["kind"] in _WITHOUT_VALUE


def _is_training(alert: Row) -> bool:
    return bool(alert["metric"] == "training")


def _opened(alert: Row) -> Row:
    """Return the night of a case without a value, as far as its plan is known."""
    return {
        "case_id": alert["case_id"],
        "run_id": alert["opened_run_id"],
        "started_at": alert["opened_at"],
        "framework_version": None,
        "build": alert["opened_build"],
        "definition_digest": None,
        "code_digest": alert["opened_code"],
        "env": alert["opened_env"],
    }


def _sides(alert: Row, points: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the last good nights, and the bad nights from the verdict's or the likely first on."""
    if _has_failed(alert):
        before = [row for row in points if row["started_at"] < alert["opened_at"]]
        return before[-NIGHTS:], [_opened(alert)]
    place = next(
        (i for i, row in enumerate(points) if row["run_id"] == alert["first_bad_run_id"]), None
    )
    if _is_training(alert):
        place = len(points)
        while place > 0 and points[place - 1]["is_changed"]:
            place -= 1
    elif place is None:
        place = len(points)
        if alert["metric"] != "throughput":
            # The nights are read with their throughput: the last one is the bad one.
            place = max(len(points) - 1, 0)
        elif alert["value"] is not None and alert["baseline"] is not None:
            midline = (alert["value"] + alert["baseline"]) / 2
            while place > 0 and points[place - 1]["throughput"] <= midline:
                place -= 1
    good, bad = points[:place], points[place:]
    return list(good[-NIGHTS:]), list(bad[:1]) + list(bad[1:][-NIGHTS:])


# --- preflights ---------------------------------------------------------------------------


def _preflight(row: Row) -> PreflightFacts:
    findings = row["findings"]
    work: Mapping[str, Any] = row["foreign_work"] or {}
    share = float(work.get("cpu_share") or 0.0)
    return PreflightFacts(
        node=row["node"],
        at=row["at"],
        hardware=_hardware(row),
        throttled=tuple(_findings_of(findings, "throttle")),
        hot=tuple(_findings_of(findings, "temperature")),
        foreign_share=share,
        foreign=tuple(
            f"{(process['command'] or 'a process')[:60]} of {process['user'] or '?'}"
            for process in work.get("processes", ())
            if process["gpu"] or share > BUSY
        ),
    )


def _findings_of(findings: Sequence[Mapping[str, str]], what: str) -> list[str]:
    return [f"{f['device']}: {f['found']}" for f in findings if f["device"] and f["what"] == what]


def _hardware(row: Row) -> dict[str, str]:
    """Return the fields of a node in a preflight, by the names that a fingerprint uses."""
    gpus = [
        {
            "index": gpu["index"],
            "model": gpu["name"],
            "max_sm_clock_mhz": gpu["clock_sm_max_mhz"],
            **{name: gpu[name] for name in ("driver", "pcie_width", "persistence")},
        }
        for gpu in row["gpus"] or ()
    ]
    links = [
        {"name": link["name"], "speed_mbit_s": link["mbps"], "mtu": link["mtu"]}
        for link in row["links"] or ()
    ]
    document = {"boot": row["boot_id"], "gpus": gpus, "network": links}
    return flat({**document, "governor": row["governors"]})
