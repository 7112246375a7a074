"""Of joules and memory a rise is the regression: in verdicts, and in the life of an alert."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from histories import nights

from nightbench.alerts import LiveAlert, alerts_for
from nightbench.core.model import RegressionPolicy, Verdict, VerdictKind
from nightbench.core.model.metrics import METRICS
from nightbench.detection import ChangeDetector

JOULES = RegressionPolicy(metric="joules_per_unit")
AT = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(("level", "kind"), [(110, "regressed"), (90, "improved"), (100, "ok")])
def test_the_same_nights_the_other_way_round(level: float, kind: str) -> None:
    *before, tonight = nights(*[100] * 20, *[level] * 4)

    found = ChangeDetector().judge(before, tonight, JOULES)

    assert found.kind == kind
    assert found.baseline == pytest.approx(100, rel=0.01)
    assert found.change == pytest.approx(level / 100 - 1, abs=0.01)
    if kind != "ok":
        assert found.low < found.level_change < found.high
        assert found.level_change == pytest.approx(level / 100 - 1, abs=0.01)


RISEN = Verdict(
    *("a", "local", "r1", VerdictKind.REGRESSED, "above", 110.0, 100.0, 0.1, 20),
    metric="joules_per_unit",
)
ALERT = LiveAlert(
    *("a", "local", VerdictKind.REGRESSED, 110.0, 100.0),
    notified_change=0.1,
    notified_low=0.08,
    notified_high=0.12,
    metric="joules_per_unit",
)


def test_an_alert_of_joules_ends_below_the_midline_and_grows_above_its_interval() -> None:
    def decided(value: float, kind: VerdictKind, suspect: str):
        tonight = replace(RISEN, kind=kind, value=value, change=value / 100 - 1)
        known = replace(
            ALERT, suspect=suspect, suspect_run_id="r0", suspect_at=AT - timedelta(days=1)
        )
        return alerts_for([tonight], [known], AT)

    assert decided(104, VerdictKind.OK, "recovered").to_resolve
    assert not decided(107, VerdictKind.OK, "recovered").to_resolve
    assert decided(116, VerdictKind.REGRESSED, "worse").to_grow
    assert not decided(114, VerdictKind.REGRESSED, "worse").to_grow


def test_a_failure_ends_with_a_measurement_that_lacks_the_figure() -> None:
    lacks = replace(RISEN, kind=VerdictKind.INSUFFICIENT_DATA, value=None, change=None)
    failed = LiveAlert("a", "local", VerdictKind.FAILED, metric="joules_per_unit")
    failed = replace(
        failed, suspect="recovered", suspect_run_id="r0", suspect_at=AT - timedelta(days=1)
    )
    assert alerts_for([lacks], [failed], AT).to_resolve == [failed]
    assert alerts_for([lacks], [ALERT], AT).to_resolve == []


def test_units_and_absence() -> None:
    assert METRICS["joules_per_unit"].unit_of("images") == "J/image"
    assert METRICS["peak_resident_bytes"].text(1.25e9) == "1.25 GB"
    assert METRICS["joules_per_unit"].text(0.5) == "0.5 J"
    row = {"joules_per_unit": None, "energy_absent": "no RAPL"}
    assert METRICS["joules_per_unit"].value_of(row) is None
    assert METRICS["joules_per_unit"].value_of({"joules_per_unit": 0.0}) is None
    assert METRICS["joules_per_unit"].why_absent(row) == "no RAPL"
