"""A repeat on one node, with real processes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from node_driver import one_node, reason, verb, wait_until, why
from nodeside.files import AgentError
from nodeside.job import NodeJob


def test_two_ranks_and_two_repeats(drive):
    node = drive(one_node(), env={"OMP_NUM_THREADS": "7"})
    for number in (1, 2):
        node.go(number)
        result = node.result(number)
        assert result["status"] == "ok", result
        assert [p["exit_code"] for p in result["processes"]] == [0, 0]
        for process in result["processes"]:
            summary = process["summary"]
            assert summary["window"]["steps"] == len(summary["step_seconds"]) == 30
            assert len(summary["step_end_s"]) == 35
            assert sum(summary["step_seconds"]) == pytest.approx(
                summary["window"]["wall_s"], rel=0.05
            )
        digests = {p["summary"]["weights_digest"] for p in result["processes"]}
        assert len(digests) == 1
        assert result["telemetry"]["samples"]
        assert node.state(number)["state"] == "done"
        assert node.state(number)["processes"]["trainer-0"]["phase"] == "finish"
    node.stop()
    assert node.marked() == []
    launches = [e for e in node.events() if e["event"] == "launch"]
    assert [(e["repeat"], e["process"]) for e in launches] == [
        (1, "trainer-0"),
        (1, "trainer-1"),
        (2, "trainer-0"),
        (2, "trainer-1"),
    ]


def test_environment_of_a_rank(drive):
    document = one_node(trainers=1, role_env={"trainer": {"EXAMPLE": "role"}})
    document["env"] = {"EXAMPLE": "job", "NIGHTBENCH_JOB": "another"}
    document["case"]["threads"] = 3
    node = drive(document, params={"hang_at_step": 1})
    node.go()
    pid = wait_until(lambda: node.state(1)["processes"].get("trainer-0", {}).get("pid"))
    wait_until(lambda: b"rank.py" in Path(f"/proc/{pid}/cmdline").read_bytes())
    raw = Path(f"/proc/{pid}/environ").read_text().split("\0")
    env = dict(entry.split("=", 1) for entry in raw if "=" in entry)
    assert env["NIGHTBENCH_JOB"] == node.job_id, "no configuration may hide a process"
    assert env["NIGHTBENCH_NODE"] == "n1"
    assert "NIGHTBENCH_AGENT" not in env
    assert env["EXAMPLE"] == "role"
    assert env["OMP_NUM_THREADS"] == env["MKL_NUM_THREADS"] == "3"
    assert env["GLOO_SOCKET_IFNAME"] == "lo", "of the address where it listens"
    assert os.getsid(pid) == pid
    agent = node.agent()["pid"]
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        assert not os.readlink(descriptor).endswith(".lock"), "a rank could keep the node"
    assert f"NIGHTBENCH_AGENT={node.job_id}" in Path(f"/proc/{agent}/environ").read_text()


@pytest.mark.parametrize(
    ("params", "reason_of"),
    [
        ({"die_at_step": 3, "die_code": 9, "rank": 1}, "process_exited trainer-1: code 9"),
        ({"die_at_step": 3, "die_signal": 11, "rank": 1}, "process_killed trainer-1: SIGSEGV"),
        ({"nan_loss": True}, "loss_not_finite trainer-"),
        ({"no_result": True, "rank": 1}, "no_rank_file trainer-1"),
    ],
)
def test_failing_rank_ends_the_gang_at_once(drive, params, reason_of):
    # Rank 0 takes an hour for a step where the other one fails: it must not be waited for.
    slow = {"step_s": 0.01}
    node = drive(one_node(), params={**slow, **params})
    node.go()
    result = node.result()
    assert result["status"] == "failed"
    assert reason_of in why(result)
    assert node.state(1)["reasons"] == result["reasons"]
    assert node.marked() == []
    if "die_code" in params:
        assert "injected fault: die at step 3" in result["log_tail"]
    if "nan_loss" in params:
        summaries = [p["summary"] for p in result["processes"] if p["summary"]]
        assert summaries[0]["loss_finite"] is False
        assert summaries[0]["loss"]["window"][0] is None
    # The agent is well: the next repeat is prepared by it.
    assert node.prepare(2)


def test_only_the_named_repeat_fails(drive):
    node = drive(one_node(), params={"die_at_step": 2, "repeat": 1, "rank": 0})
    node.go(1)
    assert node.result(1)["status"] == "failed"
    node.go(2)
    assert node.result(2)["status"] == "ok"


def test_hang_is_no_progress(drive):
    document = one_node()
    document["limits"]["progress_s"] = 1.5
    node = drive(document, params={"hang_at_step": 10, "rank": 1, "step_s": 0.05})
    node.go()
    result = node.result()
    assert result["status"] == "failed"
    assert 'no_progress trainer-1: last seen in phase "window", step 4' in why(result)
    assert "(a step within 1.5 s)" in why(result)
    hung = next(p for p in result["processes"] if p["name"] == "trainer-1")
    assert (hung["phase"], hung["step"]) == ("window", 4)


def test_repeat_time_limit(drive):
    document = one_node()
    document["limits"]["repeat_s"] = 1.5
    node = drive(document, params={"step_s": 0.5})
    node.go()
    assert why(node.result()) == "repeat_too_long :  (1.5 s)"
    assert node.marked() == []


def test_daemon_that_ignores_sigterm_is_found_by_its_mark(drive):
    node = drive(one_node(), params={"daemon": True, "ignore_term": True, "hang_at_step": 8})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-0") == "window")
    running = node.marked()
    assert len(running) >= 4, "two ranks and a daemon of each"
    node.command("abort-001", reasons=[reason("cancelled", "enough")])
    result = node.result()
    assert (result["status"], why(result)) == ("aborted", "cancelled : enough ()")
    assert set(running) <= set(result["killed"])
    assert node.marked() == []


def test_daemon_of_a_good_repeat_is_ended_too(drive):
    node = drive(one_node(), params={"daemon": True})
    node.go()
    result = node.result()
    assert result["status"] == "ok"
    assert len(result["killed"]) >= 2
    assert node.marked() == []


def test_pservers_run_until_the_finish(drive):
    document = one_node(trainers=2, pservers=1)
    document["case"]["sync"] = "async"
    node = drive(document)
    node.go()
    phases = wait_until(
        lambda: (
            (p := node.state(1)["processes"])
            and all(p[f"trainer-{n}"]["phase"] == "drain" for n in (0, 1))
            and p
        )
    )
    assert phases["pserver-0"]["exit_code"] is None
    node.command("drain-001")
    wait_until(lambda: node.state(1)["processes"]["trainer-1"]["exit_code"] == 0)
    assert node.state(1)["state"] == "draining"
    assert not (node.repeat(1) / "result.json").exists()
    node.command("finish-001")
    result = node.result()
    assert result["status"] == "ok"
    by_name = {p["name"]: p for p in result["processes"]}
    assert by_name["pserver-0"]["signal"] == signal.SIGTERM
    assert by_name["pserver-0"]["summary"] is None
    assert by_name["trainer-0"]["summary"]["drain_steps"] > 0
    assert by_name["trainer-0"]["summary"]["weights_digest"] is None


def test_a_parameter_server_that_dies_fails_the_repeat(drive):
    node = drive(one_node(trainers=1, pservers=1), params={"step_s": 0.2})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-0") == "window")
    [server] = [
        pid
        for pid in node.marked()
        if b"NIGHTBENCH_PROCESS=pserver-0" in Path(f"/proc/{pid}/environ").read_bytes()
    ]
    os.kill(server, signal.SIGKILL)
    assert "process_killed pserver-0: SIGKILL" in why(node.result())
    assert node.marked() == []


def test_no_go_in_time(drive):
    document = one_node()
    document["limits"]["ready_s"] = 0.7
    node = drive(document)
    node.prepare()
    assert why(node.result()) == "no_go :  (0.7 s)"
    assert not (node.repeat(1) / "launched").exists()


def test_launched_once(drive):
    node = drive(one_node())
    wait_until(lambda: node.agent().get("state") == "idle")
    (node.repeat(1) / "launched").mkdir(parents=True)
    node.go()
    result = node.result()
    assert result["status"] == "failed"
    assert "never launched twice" in why(result)
    assert not (node.repeat(1) / "trainer-0").exists()


def test_killed_agent_takes_its_ranks_along_and_its_successor_launches_nothing(drive):
    node = drive(one_node(), params={"daemon": True, "hang_at_step": 8})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-1") == "window")
    ranks = [p["pid"] for p in node.state(1)["processes"].values()]
    os.kill(node.agent()["pid"], signal.SIGKILL)
    wait_until(lambda: not set(ranks) & set(node.marked()), what="ranks to die with the agent")
    assert node.start()["started"] is True
    result = node.result()
    assert result["status"] == "failed"
    assert [r["code"] for r in result["reasons"]] == ["agent_died"]
    wait_until(lambda: node.agent()["state"] == "idle")
    assert node.marked() == []
    assert len([e for e in node.events() if e["event"] == "launch"]) == 2


def test_ports_are_unique_and_in_range(drive):
    document = one_node(trainers=3)
    document["nodes"][0]["port_range"] = [21000, 21007]
    node = drive(document)
    ports = node.prepare()
    assert sorted(ports) == ["master", "trainer-0", "trainer-1", "trainer-2"]
    assert len(set(ports.values())) == 4
    assert all(21000 <= port <= 21007 for port in ports.values())
    other = one_node(trainers=3)
    other["job_id"] = "another/job/g0"
    other["nodes"][0]["name"] = "n2"
    other["nodes"][0]["port_range"] = [21000, 21007]
    for entry in other["processes"] + other["ports"]:
        entry["node"] = "n2"
    beside = drive(other, node="n2", address="127.0.0.9")
    more = beside.prepare()
    assert not set(more.values()) & set(ports.values()), "two nodes of one machine"


def test_too_few_ports(drive):
    document = one_node(trainers=3)
    document["nodes"][0]["port_range"] = [21020, 21021]
    node = drive(document)
    node.command("prepare-001")
    assert "no free port for trainer-1, trainer-2 in 21020-21021" in why(node.result())


def test_absent_core_is_named(drive):
    document = one_node()
    node = drive(document, start=False)
    document["nodes"][0]["cpus"] = [100000]
    (node.folder / "job.json").write_text(json.dumps(document))
    node.start()
    node.command("prepare-001")
    assert "cores [100000] of `cpus` are not available" in why(node.result())


def test_ranks_are_pinned(drive):
    core = sorted(os.sched_getaffinity(0))[-1]
    document = one_node(trainers=1)
    node = drive(document, start=False, params={"hang_at_step": 1})
    document["nodes"][0]["cpus"] = [core]
    (node.folder / "job.json").write_text(json.dumps(document))
    node.start()
    node.go()
    pid = wait_until(lambda: node.state(1)["processes"].get("trainer-0", {}).get("pid"))
    assert os.sched_getaffinity(pid) == {core}


def test_broken_launch_is_a_failed_repeat(drive):
    document = one_node()
    document["framework"]["line"] = "absent"
    node = drive(document)
    node.go()
    assert "frameworks/absent/launch.py" in why(node.result())
    assert node.prepare(2)


@pytest.mark.parametrize("written", ["import no_such_module", "raise SystemExit(2)", "def"])
def test_a_launch_that_cannot_be_imported_never_ends_the_agent(tmp_path, written):
    (tmp_path / "job.json").write_text(json.dumps(one_node()))
    line = tmp_path / "frameworks" / "fake"
    line.mkdir(parents=True)
    (line / "launch.py").write_text(written)
    with pytest.raises(AgentError, match=r"frameworks/fake/launch\.py: \w+"):
        NodeJob(str(tmp_path), "n1", str(tmp_path)).commands({})


def test_agent_is_light(drive):
    node = drive(one_node(), params={"step_s": 0.1, "hang_at_step": 30})
    node.go()
    wait_until(lambda: node.state(1)["state"] == "running")
    pid = node.agent()["pid"]

    def spent() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, began = spent(), time.monotonic()
    time.sleep(4)
    assert (spent() - before) / (time.monotonic() - began) < 0.02


def test_missing_job_is_explained(tmp_path):
    code, answer = verb("start", tmp_path, "--node", "n1")
    assert code == 1
    assert "no readable job.json" in answer["error"]
    assert answer["hint"]


def test_unknown_node_is_explained(drive):
    node = drive(one_node(), start=False)
    code, answer = verb("start", node.folder, "--node", "n7", env=node.env)
    assert code == 1
    assert "node 'n7' does not belong to this job (nodes: n1)" in answer["error"]


def test_a_reboot_is_told_from_an_agent_that_died(drive):
    node = drive(one_node(), params={"hang_at_step": 8})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-1") == "window")
    os.kill(node.agent()["pid"], signal.SIGKILL)
    wait_until(lambda: not node.marked(), what="ranks to die with the agent")
    # The files are what they are after a boot: the agent that wrote them ran in another one.
    (node.folder / "agent.json").write_text(json.dumps({**node.agent(), "boot_id": "before"}))
    node.start()
    assert [r["code"] for r in node.result()["reasons"]] == ["node_rebooted"]


def test_the_reason_is_said_before_the_killing_which_may_take_a_while(drive):
    document = one_node()
    document["limits"]["term_s"] = 4
    node = drive(document, params={"step_s": 0.05, "hang_at_step": 8})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-1") == "window")
    pids = {name: p["pid"] for name, p in node.state(1)["processes"].items()}
    os.kill(pids["trainer-0"], signal.SIGSTOP)  # it hears no SIGTERM
    os.kill(pids["trainer-1"], signal.SIGKILL)
    wait_until(lambda: node.state(1)["reasons"])
    assert node.state(1)["state"] == "running"
    assert why(node.state(1)) == "process_killed trainer-1: SIGKILL (code 0)"
    assert pids["trainer-0"] in node.marked(), "it is still there"
    assert node.result()["status"] == "failed"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_processes_have_cores_of_their_own_where_the_case_says_so(drive):
    document = one_node()
    document["case"]["cpus"] = 1
    node = drive(document, params={"hang_at_step": 2})
    node.go()
    launched = wait_until(
        lambda: (found := [e["pid"] for e in node.events() if e["event"] == "launch"])[1:] and found
    )
    cores = [os.sched_getaffinity(pid) for pid in launched]
    assert [len(each) for each in cores] == [1, 1]
    assert cores[0] != cores[1]
    node.stop()


def test_a_node_with_too_few_cores_for_the_case_says_so(drive):
    document = one_node()
    document["case"]["cpus"] = 1000
    node = drive(document)
    node.command("prepare-001")
    assert "2 processes need 1000 cores each" in why(node.result())
