"""A series that creeps is told once, and again when it has crept on; no night of it is an alert."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from tests.sql.conftest import Rows
from tests.sql.nights import STEADY, Inbox
from tests.sql.pipeline import Pipeline
from tests.sql.spooled import DIGEST, FAKE, near
from typer.testing import CliRunner

from nightbench.alerts.notes import QUIET
from nightbench.cli.main import app
from nightbench.core.errors import UserError
from nightbench.core.model import CaseToLoad, PlannedCase, Run, RunKind
from nightbench.night.judge import JudgeResult
from nightbench.warehouse import Warehouse

CREEP = 0.0005
"""Of the level, lost each night: 7.2 % in 150 nights."""


def level(night: int, rate: float = -CREEP, until: int = 10_000) -> float:
    """Samples per second: nights vary by 0.3 %, the same ones each time."""
    noise = float(np.random.default_rng(night).normal(0, 0.003))
    return 100.0 * float(np.exp(rate * min(night, until) + noise))


@dataclass
class Nights(Pipeline):
    """Nights of one case, one after the other."""

    night: int = 0
    kinds: Sequence[str] = ("",)
    """Fingerprints of the nodes, taken in turn."""

    def load(self, figures: Sequence[float], kind: RunKind = RunKind.NIGHTLY) -> Run:
        """Load nights and judge none of them, all but the last as an import; return it."""
        runs = []
        for figure in figures:
            run = self.given.run(self.night, suite="seeded", run_kind=kind)
            runs.append((run, figure, self.kinds[self.night % len(self.kinds)]))
            self.night += 1
        planned = PlannedCase(STEADY, FAKE, DIGEST, "samples")
        self.loader.runs.store_history(
            (each[0], planned, measurement)
            for each in runs[:-1]
            if (measurement := self._came(*each).measurement)
        )
        self.loader.runs.load(self.given.batch(run, self._came(*runs[-1])))
        return self.planned(run, [STEADY])

    def _came(self, run: Run, figure: float, fingerprint: str) -> CaseToLoad:
        return near(self.given, run, STEADY, figure, fingerprint_id=fingerprint)

    def __call__(self, *figures: float) -> JudgeResult:
        """Load nights and judge the last one."""
        return self.judge(self.load(figures))


@pytest.fixture
def nights(pipeline: Pipeline) -> Nights:
    return Nights(**vars(pipeline))


def slowed(first: int, stop: int) -> list[float]:
    return [level(night) for night in range(first, stop)]


def test_it_is_told_once_and_again_when_it_has_crept_on(
    nights: Nights, reader: Warehouse, rows: Rows, inbox: Inbox
) -> None:
    done = nights(*slowed(0, 150))
    assert [verdict.kind for verdict in done.verdicts] == ["ok"]
    (drift,) = reader.series.drifts(suite="seeded", cluster="local")
    assert drift["change"] == pytest.approx(-0.072, abs=0.005)
    assert (drift["nights"], drift["is_news"]) == (150, True)
    assert f"{drift['since']:%Y-%m-%d}" == "2026-03-01"
    (told,) = inbox.messages
    assert told["title"] == "Nightbench seeded on local: 1 series drifted"
    line = (
        f"- {STEADY.case_id} on local: {drift['change']:+.1%} (± {2 * drift['error']:.1%}) over "
        "its last 150 nights, and none of these nights is a regression"
    )
    assert line in told["message"].splitlines()
    drifted = ("drift", STEADY.case_id, drift["run_id"])
    assert "" in reader.messages.deliveries([drifted])[drifted]

    # Some nights on it has not crept by 3 % more; its figures are those of the last night.
    for night in range(150, 153):
        nights(level(night))
    (went_on,) = reader.series.drifts()
    assert (went_on["run_id"], went_on["nights"]) == (drift["run_id"], 153)
    assert went_on["seen_at"] > drift["seen_at"]
    assert len(inbox.messages) == 1

    # The detector looks at 180 nights: it creeps on although its figure grows no more.
    nights(*slowed(153, 222))
    assert len(inbox.messages) == 2
    assert "over its last 180 nights" in inbox.messages[1]["message"]
    first, second = sorted(reader.series.drifts(live=False), key=lambda row: row["at"])
    assert (first["run_id"], second["over_at"]) == (drift["run_id"], None)
    assert first["over_run_id"] == second["run_id"]
    (listed,) = rows("select * from marts.drifting_series")
    assert listed.items() <= second.items()
    assert reader.alerts.find(states=None) == []


def test_judged_again_it_is_silent_and_an_older_night_says_nothing(
    nights: Nights, rows: Rows, inbox: Inbox
) -> None:
    older = nights.load(slowed(0, 150))
    newer = nights.load(slowed(150, 160))
    nights.judge(newer)
    kept = rows("select xmin::text, d.* from raw.drift as d")
    assert len(kept) == 1
    for run in (newer, older, newer):
        assert nights.judge(run).deliveries == ()
        assert rows("select xmin::text, d.* from raw.drift as d") == kept
    assert len(inbox.messages) == 1


def test_it_ends_quietly_once_it_has_not_been_seen_for_some_nights(
    nights: Nights, reader: Warehouse, inbox: Inbox
) -> None:
    nights(*slowed(0, 150))
    # It climbs by 10 %, which is reported on the third night: from then on it creeps no more.
    for night in (150, 151):
        seen = nights.load([level(night) * 1.1])
        nights.judge(seen)
    last = seen
    for night in range(152, 152 + QUIET):
        assert [row["seen_run_id"] for row in reader.series.drifts()] == [seen.run_id]
        last = nights.load([level(night) * 1.1])
        for _ in range(2):  # Judged again it is one night as before.
            nights.judge(last)
    assert reader.series.drifts() == []
    (over,) = reader.series.drifts(live=False)
    assert over["over_run_id"] == last.run_id
    assert len(inbox.messages) == 1


def test_a_small_fall_and_a_rise_are_listed_and_not_told(
    nights: Nights, reader: Warehouse, inbox: Inbox
) -> None:
    nights(*slowed(0, 45))
    (small,) = reader.series.drifts()
    assert -0.03 < small["change"] < 0
    assert (small["is_news"], inbox.messages) == (False, [])
    # It grows: now it is told.
    nights(*slowed(45, 100))
    assert [row["is_news"] for row in reader.series.drifts()] == [True]
    assert len(inbox.messages) == 1


def test_a_rise_is_listed(nights: Nights, reader: Warehouse, inbox: Inbox) -> None:
    nights(*[level(night, rate=CREEP) for night in range(150)])
    (rise,) = reader.series.drifts()
    assert rise["change"] > 0.05
    assert (rise["is_news"], inbox.messages) == (False, [])


def test_only_nightly_runs_say_it(nights: Nights, reader: Warehouse, inbox: Inbox) -> None:
    nights.load(slowed(0, 150))
    nights.judge(nights.load([level(150)], RunKind.ON_DEMAND))
    assert reader.series.drifts(live=False) == []
    assert inbox.messages == []


def test_what_no_channel_took_is_told_by_the_next_try(
    nights: Nights, reader: Warehouse, inbox: Inbox
) -> None:
    url, inbox.url = inbox.url, "json://127.0.0.1:1"
    run = nights.load(slowed(0, 150))
    with pytest.raises(UserError, match="1 series drifted"):
        nights.judge(run)
    (row,) = reader.series.drifts()
    drifted = ("drift", row["case_id"], row["run_id"])
    assert reader.messages.deliveries([drifted]) == {}
    inbox.url = url
    nights(level(150))
    assert len(inbox.messages) == 1
    assert reader.messages.deliveries([drifted]) == {drifted: {"", "alerts[0] json"}}


def test_the_command_lists_them(roles: None, nights: Nights, reader: Warehouse) -> None:
    def run(*words: str) -> str:
        return CliRunner().invoke(app, ["series", "drifts", *words], catch_exceptions=False).stdout

    assert run() == "No series drifts.\n"
    nights(*slowed(0, 150))
    (shown,) = run("--suite", "seeded", "--cluster", "local").splitlines()
    assert shown.startswith(f"{STEADY.case_id} on local: -7.")
    assert shown.endswith("and none of these nights is a regression (2026-03-01 to 2026-07-28)")
    (row,) = json.loads(run("--json"))
    assert (row["case_id"], row["nights"]) == (STEADY.case_id, 150)
    assert run("--suite", "other") == "No series drifts.\n"


def test_nights_on_other_nodes_are_no_part_of_it(nights: Nights, reader: Warehouse) -> None:
    nights.kinds = ("slow nodes", "fast nodes")
    nights(*(figure * (1.0 if k % 2 else 0.8) for k, figure in enumerate(slowed(0, 200))))
    (drift,) = reader.series.drifts(suite="seeded", cluster="local")
    assert (drift["nights"], f"{drift['since']:%Y-%m-%d}") == (100, "2026-03-02")
    assert drift["level"] == pytest.approx(level(190), rel=0.01)
