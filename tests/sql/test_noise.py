"""A noisy series runs on and alerts no more, until it is steady again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import psycopg2
import pytest
from tests.sql.conftest import Database, Rows
from tests.sql.nights import NIGHTS, STEADY, Site
from tests.sql.spooled import near

from nightbench.alerts.notes import noise_notes
from nightbench.core.model import CaseStatus, Reason, ReasonCode, VerdictKind
from nightbench.night.judge import JudgeResult
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection

WILD = 0.25
"""Relative standard deviation from night to night, well above the limit of 10 %."""

BROKE = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1")


def before(site: Site, sigma: float) -> None:
    """Nights around 100 samples/s that vary so much, loaded and not judged."""
    rng = np.random.default_rng(7)
    for night in range(NIGHTS):
        run = site.run(night)
        level = 100.0 * float(np.exp(rng.normal(0, sigma)))
        site.load(run, near(site.given, run, STEADY, level))


class Nights:
    """Nights of one case, one after the other."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._night = NIGHTS
        self.last = ""

    def __call__(self, level: float | None) -> JudgeResult:
        """Load a night, a failed one where there is no level, and judge it."""
        run = self._site.run(self._night)
        self._night += 1
        self.last = run.run_id
        case = near(self._site.given, run, STEADY, level or 1.0)
        if level is None:
            case = replace(
                case, status=CaseStatus.FAILED, reasons=(BROKE,), repeats=(), measurement=None
            )
        self._site.load(run, case)
        return self._site.judge(run)

    def again(self) -> JudgeResult:
        """Judge the last night again."""
        return self._site.judge(self._site.run(self._night - 1))


@pytest.fixture
def nights(site: Site) -> Nights:
    return Nights(site)


def test_it_is_quiet_while_it_is_noisy_and_speaks_when_it_is_steady_again(
    site: Site, nights: Nights, reader: Warehouse, rows: Rows
) -> None:
    before(site, WILD)
    nights(100.0)
    (listed,) = reader.series.noisy("local")
    assert (listed["case_id"], listed["since_run_id"]) == (STEADY.case_id, nights.last)
    assert listed["spread"] > listed["max_spread"] == 0.1
    (line,) = noise_notes(reader.series.noise_events(run_id=nights.last))
    (told,) = site.inbox.messages
    assert line in told["message"]
    assert told["title"].endswith("1 series became noisy or steady")
    assert rows("select kind, subject, news from raw.delivery where channel = ''") == [
        {"kind": "noise", "subject": STEADY.case_id, "news": nights.last}
    ]
    assert line.startswith(f"{STEADY.case_id} on local: noisy: its night-to-night noise is ")

    # It falls for good: judged and stored, and no alert.
    kinds = [nights(30.0).verdicts[0].kind for _ in range(8)]
    assert VerdictKind.REGRESSED in kinds
    assert [r["kind"] for r in rows("select kind from raw.verdict order by run_at")][1:] == kinds
    assert reader.alerts.find(states=None) == []
    (shown,) = reader.runs.results(nights.last)
    assert shown["noisy"].startswith("its night-to-night noise is")

    # Without a result it alerts as any other.
    nights(None)
    assert [alert["verdict"] for alert in reader.alerts.find()] == ["failed"]
    nights(30.0)
    nights(30.1)
    assert reader.alerts.find() == []

    while reader.series.noisy():
        assert reader.alerts.find() == []
        nights(30.0)
    assert [e["what"] for e in reader.series.noise_events()] == ["steady", "noisy"]
    (shown,) = reader.runs.results(nights.last)
    assert shown["noisy"] is None
    assert any("steady again" in message["message"] for message in site.inbox.messages)
    # It speaks again.
    while nights(20.0).verdicts[0].kind is not VerdictKind.REGRESSED:
        pass
    assert [alert["verdict"] for alert in reader.alerts.find()] == ["regressed"]


def test_judged_again_it_says_the_same(site: Site, nights: Nights, reader: Warehouse) -> None:
    before(site, WILD)
    nights(100.0)
    first = nights.last
    events = reader.series.noise_events()
    assert len(events) == 1
    for _ in range(2):
        nights.again()
        assert reader.series.noise_events() == events
    nights(30.0)
    nights.last = first
    nights.again()
    assert reader.series.noise_events() == events


def test_an_alert_of_a_series_that_became_noisy_stays_as_it_is(
    site: Site, nights: Nights, reader: Warehouse, rows: Rows
) -> None:
    before(site, 0.002)
    while not nights(90.0).opened:
        pass
    rng = np.random.default_rng(3)
    while not reader.series.noisy():
        # Always below the midline: two nights above it would end the alert.
        nights(90.0 * float(np.exp(-abs(rng.normal(0, 0.4)))))
    since = len(rows("select * from raw.alert_event"))
    (then,) = reader.alerts.find()
    for level in (20.0, 500.0, 500.0, 20.0):
        assert nights(level).deliveries == ()
    assert [alert | {"suspect": None} for alert in reader.alerts.find()] == [
        then | {"suspect": None}
    ]
    assert len(rows("select * from raw.alert_event")) == since


def test_a_steady_series_is_not_listed(site: Site, nights: Nights, reader: Warehouse) -> None:
    before(site, 0.01)
    nights(100.0)
    assert reader.series.noise_events() == []
    (shown,) = reader.runs.results(nights.last)
    assert shown["noisy"] is None


@pytest.mark.parametrize(
    "statement",
    [
        "update raw.noise_event set what = 'steady'",
        "delete from raw.noise_event",
        "truncate raw.noise_event",
    ],
)
def test_its_history_is_only_added_to(
    site: Site,
    warehouse: Database,
    nights: Nights,
    connection: Connection,
    reader: Warehouse,
    statement: str,
) -> None:
    before(site, WILD)
    nights(100.0)
    with (
        closing(psycopg2.connect(warehouse.owner)) as owner,
        pytest.raises(psycopg2.errors.RaiseException, match="only ever added to"),
    ):
        owner.cursor().execute(statement)
    with (
        closing(psycopg2.connect(warehouse.loader)) as loader,
        pytest.raises(psycopg2.errors.InsufficientPrivilege),
    ):
        loader.cursor().execute(statement)
    # What is stored of its message is no part of it.
    item = ("noise", STEADY.case_id, nights.last)
    assert Warehouse(connection).messages.settle([item]) == 0
