"""Every check of a repeat goes red on its own fixture, and all are green on the good one."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
from good_results import (
    ASYNC,
    ASYNC_RECORD,
    ASYNC_SUMMARY,
    CONTEXT,
    PSERVER,
    RANKS,
    RECORD,
    STEPS,
    SUMMARY,
)
from tests.jobs import gang_job

from nightbench.checks import REPEAT_CHECKS, CheckContext, check_repeats
from nightbench.core.model import (
    Build,
    Cluster,
    Reason,
    ReasonCode,
    ReferenceLosses,
    Severity,
    Strategy,
    WorkloadInfo,
)
from nightbench.core.model.results import Movement
from nightbench.core.run_plan import CasePlan
from nightbench.detection.paired_training import traits_of

EXPERTS = replace(CONTEXT, has_experts=True)
EVEN = replace(
    RECORD, ranks=tuple(replace(r, expert_tokens=((3, 3, 0, 6), (3, 3, 3, 3))) for r in RANKS)
)
TIMED = replace(CONTEXT, protocol=replace(CONTEXT.protocol, min_seconds=0.3))


def rank(**changes):
    """The good record with its second rank changed."""
    return replace(RECORD, ranks=(RANKS[0], replace(RANKS[1], **changes)))


def red(context, record, summary=SUMMARY):
    return {r.check for r in check_repeats(context, [record], [summary]) if not r.success}


@pytest.mark.parametrize(
    ("context", "record", "summary"),
    [
        pytest.param(CONTEXT, RECORD, SUMMARY, id="collective"),
        pytest.param(TIMED, RECORD, SUMMARY, id="window in seconds"),
        pytest.param(EXPERTS, EVEN, SUMMARY, id="mixture of experts"),
        pytest.param(ASYNC, ASYNC_RECORD, ASYNC_SUMMARY, id="asynchronous"),
    ],
)
def test_good_repeat_is_green(context, record, summary):
    results = check_repeats(context, [record], [summary])
    assert {r.check for r in results if not r.success} == set()
    assert [r.check for r in results] == [c.name for c in REPEAT_CHECKS if c.applies(context)]


EXITED = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-1", "code 1", "code 0")
COMPILED = replace(CONTEXT, case=replace(CONTEXT.case, compiler="inductor"))

HALF = replace(
    CONTEXT,
    case=replace(CONTEXT.case, precision="fp16"),
    protocol=replace(CONTEXT.protocol, measured_steps=8),
)


def skipping(*skipped):
    """The record whose ranks skip so many updates in windows of eight steps."""
    window = {"step_seconds": STEPS * 2, "step_end_s": tuple(range(10)), "window_wall_s": 0.8002}
    ranks = (
        replace(r, **window, precision="fp16", skipped_updates=each)
        for r, each in zip(RANKS, skipped, strict=True)
    )
    return replace(RECORD, ranks=tuple(ranks))


def modes(*found):
    """The record whose ranks say so of their modes."""
    ranks = (replace(r, modes=each) for r, each in zip(RANKS, found, strict=True))
    return replace(RECORD, ranks=tuple(ranks))


REFERENCE = ReferenceLosses(
    scale="smoke", batch_size_per_device=2, first=(7.0, 7.0), third={"2": (6.5, 6.5)}
)
OTHER = REFERENCE.model_copy(update={"third": {"2": (6.5, 6.6)}})


SPOILED = {
    "repeat_ended_well": (
        CONTEXT, replace(RECORD, status="failed", reasons=(EXITED,), ranks=()),
        SUMMARY, set(), "failed: n1: trainer-1 exited with code 1",
    ),
    "schema": (
        CONTEXT, rank(time_to_first_step_s=None, versions={}), SUMMARY, set(),
        "trainer-1: time_to_first_step_s is missing or wrong, versions is missing or wrong",
    ),
    "unit": (CONTEXT, rank(samples_per_step=4.0), SUMMARY, set(), "trainer-1: 4"),
    "precision": (CONTEXT, rank(precision="tf32"), SUMMARY, set(), "trainer-1: tf32"),
    "ranks_present": (
        CONTEXT, replace(RECORD, ranks=RANKS[:1]), SUMMARY, set(), "trainer-1 is missing"
    ),
    "weights_agree": (
        CONTEXT, rank(weights_digest="cd" * 32), SUMMARY, set(),
        "trainer-0 abababababab, trainer-1 cdcdcdcdcdcd",
    ),
    "parameters": (
        CONTEXT, replace(RECORD, ranks=tuple(replace(r, parameters=7) for r in RANKS)),
        SUMMARY, set(), "trainer-0: 7, trainer-1: 7",
    ),
    "parameters_agree": (
        replace(CONTEXT, parameters=None), rank(parameters=7), SUMMARY, set(), "2"
    ),
    "steps": (
        CONTEXT, rank(step_seconds=(*STEPS, 0.1), window_wall_s=0.5), SUMMARY, {"steps_agree"},
        "trainer-1: 5",
    ),
    "steps_at_least": (
        TIMED, rank(step_seconds=(0.1, 0.1, 0.2)), SUMMARY, {"steps_agree"}, "trainer-1: 3"
    ),
    "steps_agree": (
        TIMED, rank(step_seconds=(*STEPS, 0.1), window_wall_s=0.5), SUMMARY, set(),
        "trainer-0 4, trainer-1 5",
    ),
    "window_seconds": (
        replace(TIMED, protocol=replace(TIMED.protocol, min_seconds=9.0)), RECORD, SUMMARY, set(),
        "trainer-0: 0.40 s, trainer-1: 0.40 s",
    ),
    "step_times_positive": (
        CONTEXT, rank(step_seconds=(-0.1, 0.2, 0.2, 0.1)), SUMMARY, set(), "trainer-1: -0.100000 s"
    ),
    "step_ends_monotonic": (
        CONTEXT, rank(step_end_s=(100.1, 100.2, 100.3, 100.25, 100.5, 100.6)), SUMMARY, set(),
        "trainer-1: 1",
    ),
    "window_positive": (
        CONTEXT, rank(window_open_s=100.6), SUMMARY, set(), "trainer-1: 0.000000 s"
    ),
    "window_matches_steps": (
        CONTEXT, rank(window_wall_s=0.41), SUMMARY, set(), "trainer-1: 2.44%"
    ),
    "no_slow_step": (
        CONTEXT, rank(step_seconds=(0.01, 0.01, 0.01, 0.37)), SUMMARY, set(),
        "trainer-1: 37.0 times",
    ),
    "throughput_present": (
        CONTEXT, RECORD, replace(SUMMARY, throughput=None), set(), "none"
    ),
    "throughput_positive": (
        CONTEXT, RECORD, replace(SUMMARY, throughput=math.inf), {"throughput_matches_steps"}, "inf"
    ),
    "throughput_matches_steps": (
        CONTEXT, RECORD, replace(SUMMARY, step_throughput=39.0), set(), "2.56%"
    ),
    "overlap": (ASYNC, ASYNC_RECORD, replace(ASYNC_SUMMARY, overlap=0.7), set(), "70.0%"),
    "transport": (
        replace(CONTEXT, transport="nccl/ib"),
        replace(RECORD, ranks=tuple(
            replace(r, transport=t) for r, t in zip(RANKS, ("nccl/ib", "nccl/socket"), strict=True)
        )),
        SUMMARY, set(),
        "trainer-1: expected nccl/ib; found nccl/socket: InfiniBand fell back to sockets",
    ),
    "loss_finite": (
        CONTEXT, rank(loss_window=(6.5, None, math.nan, 6.2)), SUMMARY, set(),
        "trainer-1: window step 2 has None, window step 3 has nan",
    ),
    "weights_move": (
        CONTEXT,
        rank(weights_moved={"w": Movement(0.0, 0.05), "b": Movement(math.nan, None)}),
        SUMMARY, set(),
        "trainer-1: w did not change, b has values that are not finite (of 2 tensors)",
    ),
    "weights_within_steps": (
        CONTEXT, rank(weights_moved={"w": Movement(0.06, 0.05), "b": Movement(9.0, None)}),
        SUMMARY, set(),
        "trainer-1: an element of w changed by 0.06; the optimizer's steps allow 0.05",
    ),
    "gradients_arrive": (
        ASYNC,
        replace(ASYNC_RECORD, ranks=tuple(
            replace(r, gradients_arrive=a)
            for r, a in zip(ASYNC_RECORD.ranks, (False, None, None), strict=True)
        )),
        ASYNC_SUMMARY, set(),
        "trainer-0: the weights that it pulls do not change while only this trainer trains, "
        "trainer-1: the rank does not report whether its gradients arrive",
    ),
    "work_done": (
        replace(CONTEXT, step_flops_per_unit=10.0),
        replace(RECORD, ranks=tuple(
            replace(r, flops_per_step=part * 10.0 * r.samples_per_step)
            for r, part in zip(RANKS, (1.01, 0.5), strict=True)
        )),
        SUMMARY, set(), "trainer-1: 50.0%",
    ),
    "few_updates_skipped": (
        HALF, skipping(3, 4), SUMMARY, set(), "trainer-1: 4 of 8 updates skipped"
    ),
    "experts_even": (
        EXPERTS,
        replace(RECORD, ranks=tuple(
            replace(r, expert_tokens=t)
            for r, t in zip(RANKS, (None, ((2, 2, 2, 2), (0, 0, 7, 1))), strict=True)
        )),
        SUMMARY, set(),
        "trainer-0: the rank does not report the tokens of its experts, trainer-1: layer 1, expert "
        "2 has 3.50 times its even share",
    ),
    "mode_used": (
        COMPILED, modes({"compiler": "inductor"}, {"compiler": "none"}), SUMMARY, set(),
        "trainer-1: compiler is none, not inductor",
    ),
    "mode_reported": (
        COMPILED, modes({"compiler": "inductor"}, {}), SUMMARY, set(),
        "trainer-1: compiler inductor",
    ),
    "losses_of_reference": (
        replace(CONTEXT, losses=OTHER),
        RECORD, SUMMARY, set(), "trainer-1: third step: loss 6.5, on a CPU 6.6",
    ),
    "loss_falls": (
        CONTEXT, rank(loss_again=8.5), replace(SUMMARY, loss_median=6.0), set(),
        "the loss of the first batch is higher by 0.3 after the window",
    ),
}  # fmt: skip


def test_a_loss_without_the_first_batch_again_is_compared_with_the_window():
    record = replace(RECORD, ranks=tuple(replace(r, loss_again=None) for r in RANKS))
    summary = replace(SUMMARY, loss_first=6.0, loss_median=6.25)
    found = [r for r in check_repeats(CONTEXT, [record], [summary]) if r.check == "loss_falls"]
    assert [(each.success, each.observed) for each in found] == [
        (False, "the median loss of the window is higher by 0.25 than the loss of the first step")
    ]


@pytest.mark.parametrize(
    ("declared", "found", "why"),
    [
        ("gloo", "gloo/socket/eth0", ""),
        ("gloo/socket/eth0", "gloo/socket/eth0", ""),
        ("nccl", "nccl/ib", ""),
        ("gloo/socket/ib0", "gloo/socket/eth0", "another network interface"),
        ("nccl/ib", "gloo/socket/eth0", "own library was not used"),
        ("nccl/ib", None, "found nothing"),
        ("nccl/ib", "nccl", "expected nccl/ib; found nccl"),
    ],
)
def test_what_a_declared_transport_accepts(declared, found, why):
    context = replace(CONTEXT, transport=declared)
    record = replace(RECORD, ranks=tuple(replace(r, transport=found) for r in RANKS))
    (result,) = [r for r in check_repeats(context, [record], [SUMMARY]) if r.check == "transport"]
    assert result.success is (why == "")
    assert why in result.observed


def test_a_transport_inside_of_one_node_is_not_compared():
    context = replace(CONTEXT, transport="nccl/ib", case=replace(CONTEXT.case, nodes=1))
    record = replace(RECORD, ranks=tuple(replace(r, transport="nccl/p2p") for r in RANKS))
    assert "transport" not in {r.check for r in check_repeats(context, [record], [SUMMARY])}


def test_every_check_has_a_fixture_that_fails_it():
    assert set(SPOILED) == {check.name for check in REPEAT_CHECKS}
    assert len({check.name for check in REPEAT_CHECKS}) == len(REPEAT_CHECKS)


@pytest.mark.parametrize("check", SPOILED)
def test_check_goes_red_on_its_fixture_alone(check):
    context, record, summary, also, observed = SPOILED[check]
    assert red(context, record, summary) == {check} | also
    (result,) = [r for r in check_repeats(context, [record], [summary]) if r.check == check]
    assert result.observed == observed
    assert result.expected
    warns = check in ("no_slow_step", "mode_reported", "experts_even", "few_updates_skipped")
    assert result.severity is (Severity.WARN if warns else Severity.FAIL)


@pytest.mark.parametrize(
    ("record", "observed"),
    [
        (replace(RECORD, ranks=(*RANKS, replace(PSERVER))), "pserver-0 was not planned"),
        (
            replace(RECORD, ranks=(RANKS[0], replace(PSERVER, name="trainer-1", role="trainer",
                                                     rank=1, node="n2"))),
            "trainer-1 measured no step",
        ),
        (
            rank(node="n1"),
            "trainer-1 ran as trainer 1 on n1, planned as trainer 1 on n2",
        ),
        (replace(RECORD, ranks=()), "trainer-0 is missing, trainer-1 is missing"),
    ],
)  # fmt: skip
def test_ranks_are_those_that_were_planned(record, observed):
    (result,) = [
        r for r in check_repeats(CONTEXT, [record], [SUMMARY]) if r.check == "ranks_present"
    ]
    assert (result.success, result.observed) == (False, observed)


@pytest.mark.parametrize(
    ("precision", "first", "third", "differs"),
    [
        ("fp32", 7.005, 6.505, ""),
        ("fp32", 7.01, 6.5, "first"),
        ("fp32", 7.0, 6.51, "third"),
        ("tf32", 7.03, 6.53, ""),
        ("bf16", 7.1, 6.4, ""),
        ("bf16", 7.2, 6.5, "first"),
        ("fp16", 7.03, 9.0, ""),
        ("fp16", 7.1, 6.5, "first"),
        ("fp32", None, 6.5, "first"),
    ],
)
def test_losses_are_the_cpus_within_what_a_precision_keeps(precision, first, third, differs):
    context = replace(CONTEXT, losses=REFERENCE, case=replace(CONTEXT.case, precision=precision))
    found = rank(precision=precision, loss_first=first, loss_window=(third, 6.4, 6.3, 6.2))
    found = replace(found, ranks=(replace(RANKS[0], precision=precision), found.ranks[1]))
    (result,) = [
        r for r in check_repeats(context, [found], [SUMMARY]) if r.check == "losses_of_reference"
    ]
    assert (result.success, differs in result.observed) == (not differs, True)


@pytest.mark.parametrize(
    ("changed", "is_plain"),
    [
        ({}, True),
        ({"scale": "full"}, False),
        ({"batch_size_per_device": 4}, False),
        ({"data": "sample"}, False),
        ({"sequence_length": 7}, False),
    ],
)
def test_a_reference_is_for_its_scale_batch_and_data(changed, is_plain):
    assert bool(REFERENCE.of(replace(CONTEXT.case, **changed))) is is_plain


@pytest.mark.parametrize("axis", ["tensor", "context", "pipeline"])
def test_ranks_that_compute_the_same_samples_have_one_loss_of_all_of_them(axis):
    stated = REFERENCE.model_copy(update={"together": {"2": (7.1, 6.6)}})
    case = replace(CONTEXT.case, **{axis: 2})
    alike = {"first": (7.1, 7.1), "third": {"2": (6.6, 6.6)}}
    assert stated.of(case) == stated.model_copy(update=alike)
    assert stated.of(replace(case, trainers=4)) is None
    assert stated.of(replace(case, **{axis: 4}, trainers=4)) is None
    assert REFERENCE.of(case) is None


@pytest.mark.parametrize(
    ("axes", "found", "red_ones"),
    [
        ({"tensor": 2}, {"tensor": "2"}, set()),
        ({"tensor": 2}, {"tensor": "1"}, {"mode_used"}),
        ({"context": 2}, {}, {"mode_reported"}),
        ({"expert": 4}, {"expert": "2"}, {"mode_used"}),
        ({"pipeline": 2, "schedule": "gpipe"}, {"schedule": "none"}, {"mode_used"}),
    ],
)
def test_what_devices_split_is_proved(axes, found, red_ones):
    context = replace(CONTEXT, case=replace(CONTEXT.case, **axes))
    assert red(context, modes(found, found)) == red_ones


@pytest.mark.parametrize(
    ("transport", "red_ones"),
    [("nccl/p2p", set()), ("gloo/socket/lo", {"mode_used"}), (None, {"mode_reported"})],
)
def test_gradients_between_gpus_go_over_nccl(transport, red_ones):
    processes = tuple(replace(p, device=str(p.rank)) for p in CONTEXT.processes)
    record = replace(RECORD, ranks=tuple(replace(r, transport=transport) for r in RANKS))
    assert red(replace(CONTEXT, processes=processes), record) == red_ones


def test_missing_pserver_is_seen():
    record = replace(ASYNC_RECORD, ranks=ASYNC_RECORD.ranks[:2])
    assert red(ASYNC, record, ASYNC_SUMMARY) == {"ranks_present"}


def test_rank_without_a_digest_does_not_agree():
    assert red(CONTEXT, rank(weights_digest=None)) == {"weights_agree"}


def test_a_rank_that_does_not_say_how_far_its_weights_moved_is_red():
    assert red(CONTEXT, rank(weights_moved=None)) == {"weights_move"}


def test_collective_rank_that_did_not_count_its_parameters_is_red():
    assert red(CONTEXT, rank(parameters=None)) == {"parameters"}


def test_result_names_its_own_repeat():
    spoiled = replace(rank(precision="tf32"), repeat=2)
    results = check_repeats(CONTEXT, [RECORD, spoiled], [SUMMARY, replace(SUMMARY, repeat=2)])
    assert [(r.repeat, r.check) for r in results if not r.success] == [(2, "precision")]
    assert {r.repeat for r in results} == {1, 2}


def test_failed_repeat_tells_of_its_loss_and_of_nothing_else():
    record = replace(
        rank(loss_window=(6.5, None), precision="tf32"),
        status="failed",
        reasons=(Reason(ReasonCode.LOSS_NOT_FINITE, "n1", "trainer-0"),),
    )
    results = check_repeats(CONTEXT, [record], [replace(SUMMARY, throughput=None)])
    assert [r.check for r in results] == ["repeat_ended_well", "loss_finite"]
    assert not any(r.success for r in results)


def test_asynchronous_repeat_without_an_overlap_is_red():
    assert red(ASYNC, ASYNC_RECORD, replace(ASYNC_SUMMARY, overlap=None)) == {"overlap"}


def test_nothing_measured_gives_no_result():
    assert check_repeats(CONTEXT, [], []) == []


IMPORTS = """\
import sys
from nightbench.checks import expectations
assert "great_expectations" not in sys.modules
expectations.load_great_expectations()
not_ours = {"altair.vegalite", "boto3.session", "scipy.linalg"}
assert not_ours.isdisjoint(sys.modules), not_ours.intersection(sys.modules)
import scipy.stats
assert scipy.stats.norm.cdf(0) == 0.5
"""


def test_package_does_not_import_great_expectations_and_that_not_all_that_it_could_use():
    asked = [sys.executable, "-W", "ignore", "-c", IMPORTS]
    ran = subprocess.run(asked, check=False, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 0, ran.stderr


def test_context_is_read_from_a_job_and_its_workload():
    job = gang_job(
        (), case=CONTEXT.case, protocol=CONTEXT.protocol, processes=CONTEXT.processes,
        build=Build("pytorch", version="2.13.0"), cluster="local", unit="images",
    )  # fmt: skip
    workload = WorkloadInfo(
        name="resnet50_v1.5", title="ResNet-50", unit="images", frameworks=("pytorch",),
        strategies=(Strategy.COLLECTIVE,), scales={"full": {}}, parameters=25_557_032,
    )  # fmt: skip
    cluster = Cluster("local", ())

    def context(**params):
        plan = CasePlan.of(replace(job, workload_params=params), workload)
        return CheckContext.of(plan, job.protocol, cluster)

    assert context(converges=True) == replace(CONTEXT, power_limit_w=None)
    assert not context().converges
    assert context(parameters=7).parameters == 7
    assert context(experts=4).has_experts
    steady = workload.model_copy(update={"steady_batch_size": 33})
    plans = [CasePlan.of(job, each) for each in (workload, steady)]
    assert [each.rounding_grows for each in plans] == [False, True]
    assert [traits_of(each, job.protocol).rounding_grows for each in plans] == [False, True]
    found = replace(job, case=replace(job.case, batch_size_per_device="max"))
    assert not CasePlan.of(found, steady).rounding_grows


class TestFiguresFromALog:
    """A log proves less than a rank of ours: what it does not state neither passes nor fails."""

    CONTEXT = replace(CONTEXT, from_log=True)
    RANKS = tuple(
        replace(
            each,
            loss_first=None,
            loss_window=(),
            weights_digest=None,
            parameters=None,
            precision=None,
            loss_again=None,
            weights_moved=None,
        )
        for each in RANKS
    )

    def results(self, *ranks, **summary):
        record = replace(RECORD, ranks=ranks or self.RANKS)
        found = check_repeats(self.CONTEXT, [record], [replace(SUMMARY, **summary)])
        return {result.check: result for result in found}

    def test_what_it_does_not_state_is_a_warning(self):
        found = self.results()
        unstated = {name for name, result in found.items() if result.observed == "not stated"}
        assert unstated == {
            *("precision", "weights_agree", "parameters", "parameters_agree"),
            *("weights_move", "weights_within_steps", "loss_finite", "loss_falls"),
        }
        assert not [name for name, result in found.items() if result.quarantines]
        assert all(not found[name].success for name in unstated)
        assert {found[name].severity for name in unstated} == {Severity.WARN}

    def test_its_figures_are_compared_with_our_clock(self):
        for seconds, good in ((0.105, True), (0.15, False)):
            ranks = [replace(each, step_seconds=(seconds,) * 4) for each in self.RANKS]
            assert self.results(*ranks)["window_matches_steps"].success is good

    def test_its_window_may_have_more_steps(self):
        longer = [
            replace(
                each,
                step_seconds=(*STEPS, *STEPS),
                step_end_s=(*each.step_end_s, 100.7, 100.8),
                window_close_s=101.0,
                window_wall_s=0.8,
            )
            for each in self.RANKS
        ]
        found = self.results(*longer)
        assert found["steps_at_least"].success
        assert "steps" not in found
