"""One cause for each kind of evidence, also where evidence contradicts itself."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nightbench.alerts.explain import is_of_others
from nightbench.causes import CauseFacts, ControlSeries, NightFacts, Peer, PreflightFacts, explain
from nightbench.causes.explanation import failure_name
from nightbench.causes.facts import SharedFactor
from nightbench.core.model import Reason, ReasonCode
from nightbench.core.model.alerts import CauseEvidence, CauseKind
from nightbench.core.sentences import evidence_sentence

GOOD_AT = datetime(2026, 3, 20, 1, tzinfo=UTC)
CARD = {"gpus.0.driver": "550.1", "kernel": "6.1", "governor": "performance"}
GOOD = NightFacts(
    "r1",
    GOOD_AT,
    framework_version="2.13.0",
    build="b1",
    libraries={"pytorch": "2.13.0", "cudnn": "9.1"},
    definition_digest="d1",
    code_digest="c1",
    env={},
    nodes=("n1",),
    hardware={"n1": CARD},
    repeats=3,
)
BAD = replace(GOOD, run_id="r2", at=GOOD_AT + timedelta(days=1))
NEW_VERSION = {"framework_version": "2.14.0", "libraries": {"pytorch": "2.14.0", "cudnn": "9.1"}}
STEADY = ControlSeries("n1", "memory_copy", "cpu", (2.0, 2.01, 1.99), (2.0,))
SLOW = replace(STEADY, since=(1.5,))
FOREIGN = Reason(
    ReasonCode.FOREIGN_CPU, "n1", None, "48% of the cores: make -j64 (pid 4711, user anna)", "10%"
)
THROTTLED = Reason(
    ReasonCode.DEVICE_THROTTLED, "n1", "GPU GPU-1", "hw_thermal_slowdown in 12 samples"
)


def facts(first: NightFacts = BAD, **more: Any) -> CauseFacts:
    given = {"last_good": GOOD, "bad": (first,), "good": (GOOD,)} | more
    return CauseFacts("a", "lab", "pytorch", first_bad=first, **given)


def peers(framework: str, fell: bool | None, count: int = 3, *nodes: str) -> tuple[Peer, ...]:
    on = nodes or ("n1",)
    return tuple(Peer(f"{framework}-{k}-{on}", framework, on, fell) for k in range(count))


def disturbed(reason: Reason, night: NightFacts = BAD) -> NightFacts:
    return replace(night, disturbed=(reason,), disturbed_repeats=1)


def shared(kind: str, name: str) -> SharedFactor:
    return SharedFactor(kind, name, f"{kind} {name}: 3 of 3 series are slower by 9.0 %")


CASES = {
    "the network, not the version that came with it": (
        facts(
            replace(BAD, **NEW_VERSION, nodes=("n1", "n2")),
            shared=shared("network", "lab"),
            peers=peers("paddle3", False),
        ),
        CauseKind.NETWORK,
        "lab",
    ),
    "a node that moves its series, some of which show it": (
        facts(shared=shared("node", "n1"), peers=peers("paddle3", None)),
        CauseKind.NODE,
        "n1",
    ),
    "version": (
        facts(replace(BAD, **NEW_VERSION), peers=peers("paddle3", False), controls=(STEADY,)),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch 2.13.0 -> 2.14.0",
    ),
    "version, nothing else known": (
        facts(replace(BAD, **NEW_VERSION)),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch 2.13.0 -> 2.14.0",
    ),
    "another wheel of one version": (
        facts(replace(BAD, build="b2")),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch build b1 -> b2",
    ),
    "version, a night before the series fell": (
        facts(
            replace(BAD, **NEW_VERSION),
            last_good=replace(GOOD, **NEW_VERSION),
            good=(GOOD, replace(GOOD, **NEW_VERSION)),
        ),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch 2.13.0 -> 2.14.0",
    ),
    "version, a night after the series fell": (
        facts(bad=(BAD, replace(BAD, **NEW_VERSION))),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch 2.13.0 -> 2.14.0",
    ),
    "version, long before": (
        facts(
            replace(BAD, **NEW_VERSION),
            last_good=replace(GOOD, **NEW_VERSION),
            good=(GOOD, replace(GOOD, **NEW_VERSION), replace(GOOD, **NEW_VERSION)),
        ),
        CauseKind.UNEXPLAINED,
        "",
    ),
    "a library": (
        facts(replace(BAD, libraries={"pytorch": "2.13.0", "cudnn": "9.2"})),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch: cudnn 9.1 -> 9.2",
    ),
    "another Python": (
        facts(
            replace(BAD, libraries={**GOOD.libraries, "python": "3.13.5"}),
            last_good=replace(GOOD, libraries={**GOOD.libraries, "python": "3.12.3"}),
        ),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch Python 3.12.3 -> 3.13.5",
    ),
    "another patch level of Python, and a library": (
        facts(
            replace(BAD, libraries={"pytorch": "2.13.0", "cudnn": "9.2", "python": "3.12.4"}),
            last_good=replace(GOOD, libraries={**GOOD.libraries, "python": "3.12.3"}),
        ),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch Python 3.12.3 -> 3.12.4",
    ),
    "version and code, others steady": (
        facts(replace(BAD, code_digest="c2", **NEW_VERSION), peers=peers("paddle3", False)),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch 2.13.0 -> 2.14.0",
    ),
    "version and code, all frameworks fell": (
        facts(
            replace(BAD, code_digest="c2", **NEW_VERSION),
            peers=peers("paddle3", True),
            controls=(STEADY,),
        ),
        CauseKind.BENCHMARK_CODE,
        "code c1 -> c2",
    ),
    "version, but the node is slow and all on it fell": (
        facts(replace(BAD, **NEW_VERSION), peers=peers("paddle3", True), controls=(SLOW,)),
        CauseKind.NODE,
        "n1",
    ),
    "code, own series fell": (
        facts(replace(BAD, code_digest="c2"), peers=peers("pytorch", True)),
        CauseKind.BENCHMARK_CODE,
        "code c1 -> c2",
    ),
    "code, but others that ran it were steady": (
        facts(replace(BAD, code_digest="c2"), peers=peers("paddle3", False)),
        CauseKind.UNEXPLAINED,
        "",
    ),
    "code, but the node is slow": (
        facts(replace(BAD, code_digest="c2"), controls=(SLOW,)),
        CauseKind.NODE,
        "n1",
    ),
    "other work": (
        facts(replace(BAD, definition_digest="d2"), peers=peers("paddle3", False)),
        CauseKind.BENCHMARK_CODE,
        "definition d1 -> d2",
    ),
    "a variable, others steady": (
        facts(
            replace(BAD, env={"NCCL_ALGO": "Ring"}),
            peers=peers("paddle3", False),
        ),
        CauseKind.ENVIRONMENT,
        "NCCL_ALGO (not set) -> Ring",
    ),
    "a variable that was removed, and another": (
        facts(
            replace(BAD, env={"B": "2"}),
            last_good=replace(GOOD, env={"A": "1", "B": "1"}),
        ),
        CauseKind.ENVIRONMENT,
        "A 1 -> (not set), B 1 -> 2",
    ),
    "a variable, but the node is slow": (
        facts(
            replace(BAD, env={"B": "2"}),
            controls=(SLOW,),
        ),
        CauseKind.NODE,
        "n1",
    ),
    "variables of one night are unknown": (
        facts(replace(BAD, env={"B": "2"}), last_good=replace(GOOD, env=None)),
        CauseKind.UNEXPLAINED,
        "",
    ),
    "a slow node": (facts(controls=(SLOW,)), CauseKind.NODE, "n1"),
    "a slow control of a node that the case does not use": (
        facts(controls=(replace(SLOW, node="n2"),)),
        CauseKind.UNEXPLAINED,
        "",
    ),
    "two slow nodes, of which the case uses one": (
        facts(controls=(SLOW, replace(SLOW, node="n2"))),
        CauseKind.NODE,
        "n1, n2",
    ),
    "a slow link between the case's nodes": (
        facts(replace(BAD, nodes=("n1", "n2")), controls=(replace(SLOW, node="n1+n2"),)),
        CauseKind.NODE,
        "n1+n2",
    ),
    "a slow link that the case does not use": (
        facts(controls=(replace(SLOW, node="n1+n2"),)),
        CauseKind.UNEXPLAINED,
        "",
    ),
    "a control fell, but the others on the node were steady": (
        facts(
            replace(BAD, **NEW_VERSION),
            controls=(SLOW,),
            peers=(*peers("paddle3", False), *peers("pytorch", True)),
        ),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch 2.13.0 -> 2.14.0",
    ),
    "only what ran on one node fell": (
        facts(peers=(*peers("paddle3", True), *peers("paddle3", False, 3, "n2"))),
        CauseKind.NODE,
        "n1",
    ),
    "on other nodes than before": (facts(replace(BAD, nodes=("n2",))), CauseKind.NODE, "n2"),
    "neighbours": (facts(disturbed(FOREIGN)), CauseKind.NEIGHBOUR, "n1"),
    "neighbours as always": (
        facts(disturbed(FOREIGN), good=(disturbed(FOREIGN, GOOD),)),
        CauseKind.UNEXPLAINED,
        "",
    ),
    "neighbours seen by the preflight": (
        facts(
            preflights_since=(
                PreflightFacts("n1", BAD.at, foreign_share=0.4, foreign=("make of anna",)),
            )
        ),
        CauseKind.NEIGHBOUR,
        "n1",
    ),
    "neighbours, but the version changed and others were steady": (
        facts(disturbed(FOREIGN, replace(BAD, **NEW_VERSION)), peers=peers("paddle3", False)),
        CauseKind.FRAMEWORK_VERSION,
        "pytorch 2.13.0 -> 2.14.0",
    ),
    "throttled while measured": (
        facts(disturbed(THROTTLED), controls=(SLOW,)),
        CauseKind.THERMAL,
        "n1",
    ),
    "throttled in the preflight": (
        facts(preflights_since=(PreflightFacts("n1", BAD.at, throttled=("GPU 0: hw_slowdown",)),)),
        CauseKind.THERMAL,
        "n1",
    ),
    "hot as always": (
        facts(
            preflights_before=(PreflightFacts("n1", GOOD_AT, hot=("GPU 0: 84",)),),
            preflights_since=(PreflightFacts("n1", BAD.at, hot=("GPU 0: 85",)),),
        ),
        CauseKind.UNEXPLAINED,
        "",
    ),
    "governor": (
        facts(replace(BAD, hardware={"n1": CARD | {"governor": "powersave"}})),
        CauseKind.THERMAL,
        "governor performance -> powersave",
    ),
    "driver": (
        facts(
            replace(BAD, hardware={"n1": CARD | {"gpus.0.driver": "560.2"}}),
            peers=peers("paddle3", True),
            controls=(SLOW,),
        ),
        CauseKind.DRIVER,
        "gpus.0.driver 550.1 -> 560.2",
    ),
    "driver, but others on the node were steady": (
        facts(
            replace(BAD, hardware={"n1": CARD | {"kernel": "6.2"}}),
            peers=peers("paddle3", False),
        ),
        CauseKind.UNEXPLAINED,
        "",
    ),
    "link speed seen by preflights": (
        facts(
            preflights_before=(PreflightFacts("n1", GOOD_AT, {"links.eth0.mbps": "10000"}),),
            preflights_since=(PreflightFacts("n1", BAD.at, {"links.eth0.mbps": "1000"}),),
        ),
        CauseKind.DRIVER,
        "links.eth0.mbps 10000 -> 1000",
    ),
    "only a reboot": (
        facts(
            preflights_before=(PreflightFacts("n1", GOOD_AT, {"boot": "x"}),),
            preflights_since=(PreflightFacts("n1", BAD.at, {"boot": "y"}),),
            peers=peers("paddle3", True),
        ),
        CauseKind.UNEXPLAINED,
        "",
    ),
    "nothing": (facts(), CauseKind.UNEXPLAINED, ""),
    "no good night is known": (
        replace(facts(controls=(STEADY,)), last_good=None, good=()),
        CauseKind.UNEXPLAINED,
        "",
    ),
}


@pytest.mark.parametrize(("given", "kind", "suspect"), CASES.values(), ids=CASES.keys())
def test_the_cause(given: CauseFacts, kind: CauseKind, suspect: str) -> None:
    found = explain(given)
    assert (found.kind, found.suspect) == (kind, suspect), found.evidence
    assert found.sentence.endswith(".")
    assert found.evidence


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            "a node that moves its series, some of which show it",
            "series that ran on n1 dropped together",
        ),
        ("only what ran on one node fell", "Only series that ran on n1 dropped."),
    ],
)
def test_only_is_said_where_others_are_known_to_be_steady(case: str, words: str) -> None:
    assert words in explain(CASES[case][0]).sentence


def moved(framework: str, *nodes: str) -> tuple[Peer, ...]:
    """Series that fell with others, of a movement that is not the case's."""
    return tuple(replace(p, dropped_with_others=True) for p in peers(framework, True, 3, *nodes))


def test_a_node_is_not_slow_by_what_fell_there_with_another_line() -> None:
    """The line paddle3 fell everywhere, and this series beside it by itself."""
    line = (*moved("paddle3"), *moved("paddle3", "n2"))
    found = explain(facts(peers=(*line, *peers("pytorch", False, 3, "n2"))))
    assert found.kind is CauseKind.UNEXPLAINED, found.evidence


def test_a_node_is_slow_although_a_line_fell_elsewhere() -> None:
    own = (*peers("pytorch", True), *peers("pytorch", False, 3, "n2"))
    found = explain(facts(peers=(*own, *moved("paddle3", "n2"), *moved("paddle3", "n3"))))
    assert (found.kind, found.suspect) == (CauseKind.NODE, "n1"), found.evidence


@pytest.mark.parametrize(
    ("moved_by", "nodes", "is_others"),
    [
        ("node n2", ("n1",), True),
        ("node n1", ("n1", "n2"), False),
        ("node n2", (), False),
        ("network lab", ("n1",), True),
        ("network lab", ("n1", "n2"), False),
        ("line paddle3", ("n1",), True),
        ("line pytorch", ("n1",), False),
        ("cluster lab", ("n1",), False),
        ("workload toy", ("n1",), False),
    ],
)
def test_a_movement_is_others_where_the_series_has_no_part_in_it(
    moved_by: str, nodes: tuple[str, ...], is_others: bool
) -> None:
    assert is_of_others(moved_by, replace(BAD, nodes=nodes), "pytorch") is is_others


def test_what_speaks_against_it_is_listed() -> None:
    changed = replace(BAD, code_digest="c2", **NEW_VERSION)
    found = explain(facts(changed, peers=peers("pytorch", False), controls=(STEADY,)))
    assert found.kind is CauseKind.FRAMEWORK_VERSION
    told = "\n".join(map(evidence_sentence, found.evidence))
    assert "Against this cause: 3 other series of pytorch were steady." in told
    assert "The benchmarks' code: the benchmarks' code changed (c1 -> c2) with r2." in told
    assert "Unchanged: the definition of the work" in told


def test_a_rival_that_is_nearly_as_likely_is_named() -> None:
    found = explain(facts(replace(BAD, code_digest="c2", **NEW_VERSION)))
    assert found.sentence == (
        "The version of pytorch changed from 2.13.0 to 2.14.0; the benchmarks' code (code c1 -> "
        "c2) is nearly as likely."
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"build": "b2"}, "The build of pytorch changed (b1 -> b2)."),
        (
            {"libraries": {"cudnn": "9.2"}},
            "Libraries in the environment of pytorch changed: cudnn 9.1 -> 9.2.",
        ),
    ],
)
def test_no_version_is_stated_that_is_not_known(changed: dict[str, Any], said: str) -> None:
    assert explain(facts(replace(BAD, framework_version=None, **changed))).sentence == said


def test_what_is_not_known_is_said() -> None:
    blind = replace(BAD, hardware={}, code_digest="")
    told = explain(facts(replace(blind, **NEW_VERSION))).evidence[-1]
    assert evidence_sentence(told) == (
        "Unknown: the benchmarks' code, hardware and drivers of the nodes, control measurements of "
        "the nodes."
    )


@pytest.mark.parametrize(
    ("since", "fell"), [((1.95,), False), ((1.8,), True), ((1.0, 2.0, 2.0), False)]
)
def test_a_control_falls_by_more_than_its_noise(since: tuple[float, ...], fell: bool) -> None:
    assert replace(STEADY, since=since).dropped is fell


def test_few_figures_know_little_of_their_noise() -> None:
    before = (2.0, 2.02, 1.98)
    lost = replace(STEADY, before=before, since=(1.8,))
    assert lost.dropped is False
    assert replace(lost, before=before * 3).dropped is True


def test_a_control_that_lost_little_explains_no_large_fall() -> None:
    lost = replace(STEADY, since=(1.85,))
    version = replace(BAD, **NEW_VERSION)
    assert explain(facts(version, controls=(lost,), change=-0.1)).kind is CauseKind.NODE
    found = explain(facts(version, controls=(lost,), change=-0.4))
    told = [evidence_sentence(each) for each in found.evidence]
    assert (
        "A slow node: against this cause: control measurements dropped by at most 7%,"
        " the series by 40%." in told
    )


def test_a_noisy_control_or_one_of_few_figures_says_nothing() -> None:
    noisy = ControlSeries("n1", "memory_copy", "cpu", (1.0, 2.0, 3.0), (1.5,))
    assert noisy.dropped is False
    assert replace(STEADY, before=(2.0, 2.0), since=(1.0,)).dropped is None
    assert replace(STEADY, since=()).dropped is None


FAILED = facts(failure=(Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1"),))


def test_a_failure_that_nothing_explains_is_told_by_its_words() -> None:
    found = explain(FAILED)
    assert found.kind is CauseKind.UNEXPLAINED
    assert found.suspect == "process_exited"
    assert found.sentence == "No examined cause changed at that time."
    assert found.evidence[0] == CauseEvidence("the case failed: n1: trainer-0 exited with code 1")


def test_failures_of_one_kind_have_one_name() -> None:
    count = Reason(ReasonCode.LAUNCHES_FAILED, observed="2 of 3 launches")
    spread = Reason(ReasonCode.CHECK_FAILED, None, "spread", "40%", "10%")
    full = [
        Reason(ReasonCode.REMOTE_FAILURE, node, observed=f"cannot read /jobs/{number}/x")
        for node, number in (("n1", "4f2a"), ("n2", "17"))
    ]
    assert failure_name([count, *FAILED.failure]) == "process_exited"
    assert failure_name([spread]) == "check_failed spread"
    assert (
        failure_name(full[:1]) == failure_name(full[1:]) == "remote_failure cannot read /jobs/#/x"
    )


def test_a_node_that_made_a_case_fail() -> None:
    found = explain(replace(FAILED, faults={"n1": Reason(ReasonCode.NODE_REBOOTED, "n1")}))
    assert (found.kind, found.suspect) == (CauseKind.NODE, "n1")
    text = "node n1 caused the failure: n1: the node rebooted while the job ran"
    assert CauseEvidence(text) in found.evidence


def test_a_build_with_which_a_framework_fails() -> None:
    failed = replace(BAD, build="b2", framework_version=None, libraries={})
    found = explain(
        replace(
            FAILED,
            first_bad=failed,
            bad=(failed,),
            peers=(*peers("pytorch", True), *peers("paddle3", False)),
        )
    )
    assert (found.kind, found.suspect) == (
        CauseKind.FRAMEWORK_VERSION,
        "pytorch build b1 -> b2",
    )
