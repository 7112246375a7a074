"""Every check of a measurement goes red on its own fixture; all are green on the good one."""

import os
from dataclasses import replace

import pytest
from good_results import CONTEXT, MEASUREMENT, SUMMARY

from nightbench.checks import MEASUREMENT_CHECKS, check_measurements
from nightbench.core.model import CaseStatus, Reason, ReasonCode, Severity

DRIFTING = tuple(replace(SUMMARY, repeat=k, drift=d) for k, d in ((1, -0.2), (2, 0.12), (3, 0.01)))

SILENT = Reason(ReasonCode.NODE_UNREACHABLE, "n2", observed="no answer")
SPOILED = {
    "case_ended_well": (
        replace(MEASUREMENT, status=CaseStatus.FAILED, reasons=(SILENT,), n=0,
                throughput=None),
        set(), "failed: n2: unreachable: no answer",
    ),
    "enough_repeats": (replace(MEASUREMENT, n=1), {"all_repeats"}, "1"),
    "all_repeats": (replace(MEASUREMENT, n=2), set(), "2"),
    "median_present": (replace(MEASUREMENT, throughput=None), set(), "none"),
    "median_positive": (
        replace(MEASUREMENT, throughput=0.0, minimum=0.0, maximum=0.0), set(), "0"
    ),
    "median_in_range": (
        replace(MEASUREMENT, minimum=40.5), set(), "40.5 <= 40 <= 41 does not hold"
    ),
    "measurement_unit": (replace(MEASUREMENT, unit="tokens"), set(), "tokens"),
    "framework_version": (
        replace(MEASUREMENT, framework_version="2.12.1+cpu"), set(), "2.12.1"
    ),
    "spread": (replace(MEASUREMENT, spread=0.2), set(), "20.0%"),
    "drift": (replace(MEASUREMENT, repeats=DRIFTING), set(), "12.0%"),
    "efficiency": (replace(MEASUREMENT, efficiency=1.2), set(), "1.200"),
    "mfu": (replace(MEASUREMENT, mfu=1.25), set(), "1.250"),
    "power": (replace(MEASUREMENT, power_w=481.0), set(), "481 W"),
}  # fmt: skip


def results(measurement, context=CONTEXT):
    (of_one,) = check_measurements([(context, measurement)])
    return of_one


def test_good_measurement_is_green():
    of_one = results(MEASUREMENT)
    assert {r.check for r in of_one if not r.success} == set()
    assert [r.check for r in of_one] == [check.name for check in MEASUREMENT_CHECKS]
    assert {(r.subject, r.repeat) for r in of_one} == {("measurement", None)}


def test_every_check_has_a_fixture_that_fails_it():
    assert set(SPOILED) == {check.name for check in MEASUREMENT_CHECKS}


@pytest.mark.parametrize("check", SPOILED)
def test_check_goes_red_on_its_fixture_alone(check):
    measurement, also, observed = SPOILED[check]
    red = [r for r in results(measurement) if not r.success]
    assert {r.check for r in red} == {check} | also
    (own,) = [r for r in red if r.check == check]
    assert own.observed == observed
    assert own.severity is (
        Severity.WARN if check in {"all_repeats", "efficiency", "power"} else Severity.FAIL
    )


@pytest.mark.parametrize("check", ["spread", "drift", "efficiency"])
def test_shared_cluster_only_warns(check):
    measurement = SPOILED[check][0]
    red = [r for r in results(measurement, replace(CONTEXT, shared=True)) if not r.success]
    assert [(r.check, r.severity) for r in red] == [(check, Severity.WARN)]
    assert not replace(measurement, checks=tuple(red)).quarantined


def test_scaling_that_cannot_be_refuses_a_mode_where_nodes_share_nothing():
    measurement = SPOILED["efficiency"][0]
    for shared, severity in ((False, Severity.FAIL), (True, Severity.WARN)):
        context = replace(CONTEXT, acceptance=True, shared=shared)
        (red,) = [r for r in results(measurement, context) if not r.success]
        assert (red.check, red.severity) == ("efficiency", severity)


def test_spread_quarantines_on_a_cluster_of_its_own():
    measurement = SPOILED["spread"][0]
    assert replace(measurement, checks=results(measurement)).quarantined


def test_single_node_case_without_scaling_is_green():
    alone = replace(MEASUREMENT, efficiency=None, speedup=None, spread=None)
    assert all(r.success for r in results(alone))


@pytest.mark.parametrize(
    ("requested", "found", "good"),
    [
        ("2.13.0", "2.13.0+cpu", True),
        ("2.13.0+cpu", "2.13.0+cpu", True),
        ("2.13.0+cu126", "2.13.0+cpu", False),
        ("2.13.0", None, False),
    ],
)
def test_version_is_the_one_that_the_build_names(requested, found, good):
    context = replace(CONTEXT, requested_version=requested)
    of_one = results(replace(MEASUREMENT, framework_version=found), context)
    assert [r.success for r in of_one if r.check == "framework_version"] == [good]


def test_version_is_free_where_the_build_names_none():
    of_one = results(MEASUREMENT, replace(CONTEXT, requested_version=None))
    assert "framework_version" not in {r.check for r in of_one}


def test_results_keep_the_order_of_the_pairs():
    first, second = check_measurements(
        [(CONTEXT, MEASUREMENT), (CONTEXT, replace(MEASUREMENT, spread=0.2))]
    )
    assert all(r.success for r in first)
    assert [r.check for r in second if not r.success] == ["spread"]


def test_checking_is_quiet_and_posts_nothing(capfd):
    results(MEASUREMENT)
    assert capfd.readouterr() == ("", "")
    assert os.environ["GX_ANALYTICS_ENABLED"] == "false"
