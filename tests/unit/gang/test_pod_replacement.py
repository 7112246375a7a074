"""A controller whose gang loses pods, against simulated nodes."""

from __future__ import annotations

import pytest
from tests.unit.gang.bench import JOB, PATIENT, said
from tests.unit.gang.simulated import SimTransport

from nightbench.core.model import CaseStatus, ReasonCode
from nightbench.gang.errors import NodeUnreachable, PodError
from nightbench.gang.node_client import NodeClient


class Pods:
    """The pods of a bench's gang; `prepare` creates the missing ones and prepares all."""

    def __init__(self, bench):
        self.nodes = bench.nodes.nodes
        self.names = {name: f"{name}-0" for name in self.nodes}
        self.job_files = {name: dict(node.files) for name, node in self.nodes.items()}
        self.deleted = False
        self.prepared = 0
        self.fails = 0
        """So many preparations fail once the pods run."""
        self.yields = False
        """The next preparation gives up all pods before it creates them."""

    async def running(self):
        return dict(self.names)

    async def delete_or_report(self):
        self.deleted = True

    def lose(self, name):
        node = self.nodes[name]
        node.kill_agent()
        node.files.clear()
        node.folders.clear()
        node.gone = True
        del self.names[name]

    async def prepare(self):
        self.prepared += 1
        if self.yields:
            self.yields = False
            for name in list(self.names):
                self.lose(name)
        for name, node in self.nodes.items():
            if name not in self.names:
                self.names[name] = f"{name}-{self.prepared}"
                node.gone = False
        if self.fails:
            self.fails -= 1
            raise NodeUnreachable("n2", "default/n2", "the stream was lost")
        for name, node in self.nodes.items():
            node.files.update(self.job_files[name])

    @property
    def options(self):
        return {"pods": self, "prepare": self.prepare}


def in_pods(bench, job=JOB):
    bench.world(job)
    return Pods(bench)


def lose_after_first(bench, pods, name="n2"):
    """Start; a pod is lost as soon as the first repeat has ended."""

    def on_event(event):
        if event.kind == "repeat" and event.message == "ok" and bench.store.repeats() == [1]:
            pods.lose(name)

    return bench.start(on_event=on_event, **pods.options)


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_a_pod_that_is_lost_costs_one_repeat(bench, name):
    pods = in_pods(bench, PATIENT)
    bench.nodes.run_s = 15.0
    task = bench.start(**pods.options)
    bench.until(lambda: bench.launched("n1") and bench.launched("n2"))
    pods.lose(name)
    outcome = bench.end(task)
    assert said(outcome) == ["failed", "ok", "ok"]
    assert outcome.repeats[0].reasons[0].code is ReasonCode.POD_DELETED
    assert bench.launched("n1") == bench.launched("n2") == [1, 2, 3]
    assert (pods.prepared, pods.deleted) == (1, True)


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_a_pod_that_is_lost_between_repeats_costs_none(bench, name):
    pods = in_pods(bench)
    assert said(bench.end(lose_after_first(bench, pods, name))) == ["ok"] * 3
    assert pods.prepared == 1


def test_a_new_pod_on_another_machine_has_its_own_fingerprint(bench):
    pods = in_pods(bench)
    task = lose_after_first(bench, pods)
    bench.until(lambda: pods.prepared)
    pods.nodes["n2"].machine.cpu = "second"
    bench.end(task)
    assert {name: bench.store.fingerprint(name)["cpu"] for name in pods.nodes} == {
        "n1": "first",
        "n2": "second",
    }


def test_a_new_pod_that_was_not_prepared_is_prepared_before_the_next_repeat(bench):
    pods = in_pods(bench)
    pods.fails = 1
    assert said(bench.end(lose_after_first(bench, pods))) == ["ok", "failed", "ok"]
    assert pods.prepared == 2


def test_pods_that_were_given_up_while_one_was_replaced_are_opened_too(bench):
    pods = in_pods(bench)
    pods.yields = True
    assert said(bench.end(lose_after_first(bench, pods))) == ["ok"] * 3


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_a_new_controller_replaces_a_pod_that_was_lost_without_one(bench, name):
    pods = in_pods(bench, PATIENT)
    bench.nodes.run_s = 15.0
    first = bench.start(**pods.options)
    bench.until(lambda: bench.launched("n1") and bench.launched("n2"))
    bench.stop(first)
    pods.lose(name)
    outcome = bench.run(**pods.options)
    assert said(outcome) == ["failed", "ok", "ok"]
    assert outcome.status is CaseStatus.OK
    assert outcome.repeats[0].reasons[0].code is ReasonCode.POD_DELETED
    assert outcome.repeats[0].faults == ()


def test_a_new_controller_goes_on_with_a_repeat_whose_pods_are_all_there(bench):
    pods = in_pods(bench)
    first = bench.start(**pods.options)
    bench.until(bench.launched)
    bench.stop(first)
    assert said(bench.run(**pods.options)) == ["ok"] * 3
    assert (pods.prepared, bench.launched("n1")) == (0, [1, 2, 3])


def test_a_new_controller_prepares_a_new_pod_that_the_last_one_did_not(bench):
    pods = in_pods(bench)
    pods.lose("n2")
    pods.names["n2"], bench.nodes.nodes["n2"].gone = "n2-1", False
    assert said(bench.run(**pods.options)) == ["ok"] * 3
    assert pods.prepared == 2, "once to open it, once to have the other agents know it"


def test_a_refused_request_does_not_end_a_pod(bench):
    world = bench.world(JOB)
    client = NodeClient(JOB, JOB.nodes[0], SimTransport(world.nodes["n1"]))
    lost = []
    for code in (ReasonCode.API_FORBIDDEN, ReasonCode.API_REFUSED, ReasonCode.POD_DELETED):
        client.note_error(PodError.of_code(client.transport, "said", code))
        lost.append(client.view.lost and client.view.lost.code)
    assert lost == [None, None, ReasonCode.POD_DELETED]
