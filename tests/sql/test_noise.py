"""A noisy series runs on and alerts no more, until it is steady again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import psycopg2
import pytest
from tests.sql.conftest import Database, Rows
from tests.sql.given import Given
from tests.sql.nights import NIGHTS, STEADY, Inbox
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import near

from nightbench.alerts.notes import noise_notes
from nightbench.core.model import CaseStatus, Reason, ReasonCode, Run, VerdictKind
from nightbench.night.judge import JudgeResult
from nightbench.warehouse import Warehouse
from nightbench.warehouse.connection import Connection

WILD = 0.25
"""Relative standard deviation from night to night, well above the limit of 10 %."""

BROKE = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1")


def before(loader: Warehouse, given: Given, sigma: float) -> None:
    """Nights around 100 samples/s that vary so much, loaded and not judged."""
    rng = np.random.default_rng(7)
    for night in range(NIGHTS):
        run = given.run(night, suite="seeded")
        level = 100.0 * float(np.exp(rng.normal(0, sigma)))
        loader.runs.load(given.batch(run, near(given, run, STEADY, level)))


@dataclass
class Nights(Pipeline):
    """Nights of one case, one after the other."""

    night: int = NIGHTS

    @property
    def last(self) -> Run:
        """The newest run."""
        return self.given.run(self.night - 1, suite="seeded")

    def __call__(self, level: float | None) -> JudgeResult:
        """Load a night, a failed one where there is no level, and judge it."""
        run = self.planned(self.given.run(self.night, suite="seeded"), [STEADY])
        self.night += 1
        case = near(self.given, run, STEADY, level or 1.0)
        if level is None:
            case = replace(
                case, status=CaseStatus.FAILED, reasons=(BROKE,), repeats=(), measurement=None
            )
        self.loader.runs.load(self.given.batch(run, case))
        return self.judge(run)


@pytest.fixture
def nights(pipeline: Pipeline) -> Nights:
    return Nights(**vars(pipeline))


def test_it_is_quiet_while_it_is_noisy_and_speaks_when_it_is_steady_again(
    nights: Nights,
    connection: Connection,
    given: Given,
    reader: Warehouse,
    rows: Rows,
    inbox: Inbox,
) -> None:
    before(Warehouse(connection), given, WILD)
    nights(100.0)
    (listed,) = reader.series.noisy("local")
    assert (listed["case_id"], listed["since_run_id"]) == (STEADY.case_id, nights.last.run_id)
    assert listed["spread"] > listed["max_spread"] == 0.1
    (line,) = noise_notes(reader.series.read("noise_events", run_id=nights.last.run_id))
    (told,) = inbox.messages
    assert line in told["message"]
    assert told["title"].endswith("1 series became noisy or steady")
    assert rows("select kind, subject, news from raw.delivery where channel = ''") == [
        {"kind": "noise", "subject": STEADY.case_id, "news": nights.last.run_id}
    ]
    assert line.startswith(f"{STEADY.case_id} on local: noisy: its night-to-night noise is ")

    # It falls for good: judged and stored, and no alert.
    kinds = [nights(30.0).verdicts[0].kind for _ in range(8)]
    assert VerdictKind.REGRESSED in kinds
    assert [r["kind"] for r in rows("select kind from raw.verdict order by run_at")][1:] == kinds
    assert reader.alerts.find(states=None) == []
    (shown,) = reader.runs.results(nights.last.run_id)
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
    assert [e["what"] for e in reader.series.read("noise_events", run_id=None)] == [
        "steady",
        "noisy",
    ]
    (shown,) = reader.runs.results(nights.last.run_id)
    assert shown["noisy"] is None
    assert any("steady again" in message["message"] for message in inbox.messages)
    # It speaks again.
    while nights(20.0).verdicts[0].kind is not VerdictKind.REGRESSED:
        pass
    assert [alert["verdict"] for alert in reader.alerts.find()] == ["regressed"]


def test_judged_again_it_says_the_same(
    nights: Nights, connection: Connection, given: Given, reader: Warehouse
) -> None:
    before(Warehouse(connection), given, WILD)
    nights(100.0)
    first = nights.last
    events = reader.series.read("noise_events", run_id=None)
    assert len(events) == 1
    for _ in range(2):
        nights.judge(first)
        assert reader.series.read("noise_events", run_id=None) == events
    nights(30.0)
    nights.judge(first)
    assert reader.series.read("noise_events", run_id=None) == events


def test_an_alert_of_a_series_that_became_noisy_stays_as_it_is(
    nights: Nights, connection: Connection, given: Given, reader: Warehouse, rows: Rows
) -> None:
    before(Warehouse(connection), given, 0.002)
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


def test_a_steady_series_is_not_listed(
    nights: Nights, connection: Connection, given: Given, reader: Warehouse
) -> None:
    before(Warehouse(connection), given, 0.01)
    nights(100.0)
    assert reader.series.read("noise_events", run_id=None) == []
    (shown,) = reader.runs.results(nights.last.run_id)
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
    warehouse: Database,
    nights: Nights,
    connection: Connection,
    given: Given,
    reader: Warehouse,
    statement: str,
) -> None:
    before(Warehouse(connection), given, WILD)
    nights(100.0)
    with pytest.raises(psycopg2.errors.RaiseException, match="only ever added to"):
        nights.sql(statement)
    with (
        closing(psycopg2.connect(warehouse.loader)) as loader,
        pytest.raises(psycopg2.errors.InsufficientPrivilege),
    ):
        loader.cursor().execute(statement)
    # What is stored of its message is no part of it.
    item = ("noise", STEADY.case_id, nights.last.run_id)
    assert Warehouse(connection).messages.settle([item]) == 0
