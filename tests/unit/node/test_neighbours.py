"""Foreign work on a node: a real CPU hog beside, before, and inside real repeats.

The machine may be busy with other things: the limits of these tests leave room for that.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from node_driver import agent_of, one_node, reason, wait_until, why
from nodeside import neighbours
from nodeside.neighbours import CpuMeter, ProcessScan, Sample, describe_processes
from nodeside.processes import is_running

HOG = "while True:\n    sum(range(1000))\n"
CORE = max(os.sched_getaffinity(0))


@pytest.fixture
def hog() -> Iterator[Callable[..., int]]:
    """Starts processes that compute for ever on one core, no children of ours, and ends them."""
    started: list[int] = []

    def start(core: int = CORE) -> int:
        command = f"'{sys.executable}' -c '{HOG}' >/dev/null 2>&1 & echo $!"
        pid = int(subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE).stdout)
        os.sched_setaffinity(pid, {core})
        started.append(pid)
        return pid

    yield start
    for pid in started:
        end(pid)


def spent_s(pid: int) -> float:
    """CPU time of a process."""
    return sum(psutil.Process(pid).cpu_times()[:2])


def end(pid: int) -> None:
    """End a hog."""
    if is_running(pid):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid))


def pinned(action: str, share: float = 0.10, wait_s: float = 60.0, **more: Any) -> dict[str, Any]:
    """A job of one rank on one core of its own."""
    document = one_node(trainers=1, **more)
    document["neighbours"] = {
        "action": action,
        "wait_s": wait_s,
        "cpu_share": share,
        "gpu": True,
    }
    return document


def on_core(node: Any, core: int = CORE) -> Any:
    """Pin the driver's job before its agent starts (the driver unpins by default)."""
    node.document["nodes"][0]["cpus"] = [core]
    (node.folder / "job.json").write_text(json.dumps(node.document))
    node.start()
    return node


# --- the meter ---------------------------------------------------------------------------


def test_a_hog_is_measured_and_named(monkeypatch, hog):
    # Others may load the core more, and leave the hog little of it.
    monkeypatch.setattr(neighbours, "MAX_SHOWN", 10_000)
    meter = CpuMeter([CORE], "job", 0.001)
    pid, began = hog(), time.monotonic()
    time.sleep(1.5)
    looked = meter.scan_processes()
    share = meter.share(looked.from_s, looked.to_s)
    assert share.exceeds(0.1)
    named = meter.foreign_processes(looked.from_s, looked.to_s)
    mine = next(entry for entry in named if entry["pid"] == pid)
    assert mine["user"]
    assert "sum(range(1000))" in mine["command"]
    # What it got of the core, which others may load as well.
    got = spent_s(pid) / (time.monotonic() - began)
    assert 0 < mine["cpu_share"] <= 1.01
    assert mine["cpu_share"] == pytest.approx(got, abs=0.1)
    assert f"pid {pid}" in describe_processes(named)


def test_a_process_with_the_job_s_mark_is_not_foreign(monkeypatch, hog):
    with agent_of("run/case/g0"):
        monkeypatch.setenv("NIGHTBENCH_JOB", "run/case/g0")
        pid = hog()
        monkeypatch.delenv("NIGHTBENCH_JOB")
        mine, others = (CpuMeter([CORE], f"{run}/case/g0", 0.1) for run in ("run", "another"))
        anybody = CpuMeter([CORE], None, 0.1)
        # Others may load the core more, and leave the hog little of it.
        began_s = spent_s(pid)
        wait_until(lambda: spent_s(pid) > began_s + 0.3)
        for meter, foreign in ((mine, False), (others, True), (anybody, False)):
            looked = meter.scan_processes()
            assert (pid in looked.foreign) is foreign
            if not foreign:
                # Its time is not unexplained either.
                assert looked.harmless > 10


def test_work_on_another_core_is_nobody_s_business(hog):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.fail("this test needs two cores")
    meter = CpuMeter([cores[0]], "job", 0.1)
    pid = hog(cores[1])
    time.sleep(1.2)
    assert pid not in meter.scan_processes().foreign


def a_meter(samples: list[Sample], scans: list[ProcessScan], limit: float = 0.1) -> CpuMeter:
    """A meter of one core that has seen this."""
    meter = CpuMeter([0], "job", limit)
    meter.samples, meter.scans = samples, scans
    return meter


def seconds(count: int, busy: float, own: float, start: float = 100.0) -> list[Sample]:
    """Samples a second apart; `busy` and `own` are ticks (of 100) in each."""
    return [Sample(start + k, busy * k, own * k) for k in range(count + 1)]


def test_what_is_chance_does_not_exceed():
    # The rank takes half the core by its own clock; the kernel's ticks say six hundredths more.
    meter = a_meter(seconds(5, 56, 50), [])
    share = meter.share(100, 105)
    assert share.share == pytest.approx(0.06)
    assert not share.exceeds(0.05), "three deviations of 500 ticks are more than that"
    assert a_meter(seconds(5, 86, 50), []).share(100, 105).exceeds(0.05)


def test_named_work_is_no_chance():
    scans = [ProcessScan(100.0, 105.0, 0.0, {7: 40.0})]
    share = a_meter(seconds(5, 58, 50), scans).share(100, 105)
    assert share.exceeds(0.07)


def test_kernel_threads_and_the_job_s_other_processes_are_explained():
    busy = seconds(10, 100, 50)
    assert a_meter(busy, []).worst(100, 110).exceeds(0.1)
    scans = [ProcessScan(100.0, 105.0, 250.0, {}), ProcessScan(105.0, 110.0, 250.0, {})]
    assert not a_meter(busy, scans).worst(100, 110).exceeds(0.1)
    # What was seen is believed to go on until the next look, while the job runs.
    running = a_meter(busy, scans[:1])
    running._launched = (os.getpid(),)
    assert not running.worst(100, 110).exceeds(0.1)
    assert a_meter(busy, scans[:1]).worst(100, 110).exceeds(0.1)


def test_the_worst_five_seconds_count():
    calm = seconds(20, 50, 50)
    disturbed = [
        s._replace(busy=s.busy + 50 * min(5, max(0, number - 10))) for number, s in enumerate(calm)
    ]
    worst = a_meter(disturbed, []).worst(100, 120)
    assert worst.share == pytest.approx(0.5)
    assert (worst.from_s, worst.to_s) == (110, 115)
    assert a_meter(disturbed, []).share(100, 120).share == pytest.approx(0.125)


def test_a_long_window_is_judged_as_a_whole():
    now = time.monotonic()
    long = [Sample(now - 600 + k, 60 * min(k, 10) + 50 * k, 50 * k) for k in range(600)]
    meter = a_meter(long, [])
    meter.watch(())  # the repeat has ended, and is judged after that
    assert meter.worst(now - 600, now - 1).exceeds(0.3), "the first ten seconds were disturbed"
    meter.watch([os.getpid()])
    assert len(meter.samples) < 40, "the next repeat does not drag that along"


def test_looking_costs_little():
    """The agent shares a core with what it watches: many samples a second must be possible."""
    meter = CpuMeter([], "job", 1.0)
    meter.watch([os.getpid()] * 8)
    before = time.process_time()
    for number in range(200):
        meter.tick(time.monotonic() + number, at_once=True)
    print(f"a sample takes {(time.process_time() - before) / 200 * 1e6:.0f} us")
    assert len(meter.samples) >= 200
    assert len(meter.scans) == 0, "a quiet node is not scanned"


# --- before the launch -------------------------------------------------------------------


def test_a_launch_waits_for_the_neighbour_to_go(drive, hog):
    pid = hog()
    node = on_core(drive(pinned("wait", share=0.3), start=False))
    node.command("prepare-001")
    state = wait_until(lambda: s if (s := node.state(1)) and s["reasons"] else None)
    assert state["state"] == "preparing"
    assert why(state).startswith("foreign_cpu : ")
    assert f"pid {pid}" in why(state)
    shown = wait_until(lambda: a if (a := node.agent())["reasons"] else None)
    assert shown["state"] == "preparing"
    assert "foreign_cpu" in why(shown)
    beat = node.state(1)["t_s"]
    wait_until(lambda: node.state(1)["t_s"] > beat, what="the heartbeat of a node that waits")
    end(pid)
    # The machine may be busy with something else: the hog at least is not waited for any more.
    wait_until(lambda: f"pid {pid}" not in str(node.state(1)["reasons"]), what="another look")


def test_waiting_ends_with_a_failure_that_names_who(drive, hog):
    pid = hog()
    node = on_core(drive(pinned("wait", share=0.3, wait_s=2.0), start=False))
    node.command("prepare-001")
    result = node.result()
    assert result["status"] == "failed"
    assert why(result).startswith("node_in_use : 2 s (); foreign_cpu : ")
    assert f"pid {pid}" in why(result)
    assert not (node.repeat(1) / "launched").exists()


def test_refused_at_once(drive, hog):
    hog()
    # Waiting would outlast the driver's patience for a result.
    node = on_core(drive(pinned("refuse", share=0.3, wait_s=600.0), start=False))
    node.command("prepare-001")
    assert why(node.result()).startswith("node_in_use : 0 s (); foreign_cpu : ")


def test_an_abort_ends_the_waiting(drive, hog):
    hog()
    node = on_core(drive(pinned("wait", share=0.3), start=False))
    node.command("prepare-001")
    wait_until(lambda: (node.state(1) or {}).get("reasons"))
    node.command("abort-001", reasons=[reason("cancelled", "no longer wanted")])
    assert node.result()["status"] == "aborted"


# --- inside the window -------------------------------------------------------------------


def test_foreign_work_in_the_window_is_told(drive, hog):
    node = on_core(drive(pinned("record", share=0.3), start=False, params={"step_s": 0.2}))
    node.go()
    wait_until(lambda: node.phase(1, "trainer-0") == "window")
    pid = hog()
    result = node.result()
    assert result["status"] == "ok", "what becomes of it is the controller's business"
    disturbed = result["disturbed"]
    assert disturbed["share"] > 0.3
    assert pid in [entry["pid"] for entry in disturbed["processes"]]
    assert "foreign_cpu" in why(disturbed)
    assert result["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_node_of_parameter_servers_is_judged_from_launch_to_finish(drive, hog):
    document = pinned("record", share=0.3)
    document["processes"] = one_node(trainers=0, pservers=1)["processes"]
    document["ports"] = one_node(trainers=0, pservers=1)["ports"]
    node = on_core(drive(document, start=False))
    node.go()
    pid = hog()
    time.sleep(3)
    node.command("finish-001")
    result = node.result()
    assert result["status"] == "ok", result["reasons"]
    assert pid in [entry["pid"] for entry in result["disturbed"]["processes"]]


@pytest.mark.parametrize("knobs", [{"busy": True}, {"busy_children": 2}])
def test_a_rank_s_own_work_is_not_foreign(drive, knobs):
    # All of one core, by the rank itself or by children of it that it does not wait for.
    params = {"step_s": 0.1, **knobs}
    node = on_core(drive(pinned("record", share=0.75), start=False, params=params))
    node.go()
    own = set()

    def ended():
        own.update(node.marked())
        return (node.repeat(1) / "result.json").is_file()

    wait_until(ended, what="the result")
    result = node.result()
    assert result["status"] == "ok"
    busy = [s["cpu_percent"] for s in result["telemetry"]["samples"]]
    assert max(busy) > 50, "the rank did work"
    if disturbed := result["disturbed"]:
        # This machine's other work came upon the core: that is told, and nothing of the job.
        others = {entry["pid"] for entry in disturbed["processes"]}
        assert others
        assert others.isdisjoint(own)
    assert node.marked() == []


def test_the_hog_of_another_owner_is_left_alone(drive, hog):
    pid = hog()
    node = on_core(drive(pinned("record"), start=False))
    node.go()
    node.result()
    node.stop()
    assert is_running(pid)
