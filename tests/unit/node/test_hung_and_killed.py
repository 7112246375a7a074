"""What is kept of a process that hangs, that runs out of memory, or that hides."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from node_driver import one_node, reason, remove_cgroup, wait_until, why
from nodeside import cgroups, stacks
from nodeside.cgroups import PREFIX, Cgroup
from nodeside.files import AgentError
from nodeside.processes import is_running

PY_SPY = shutil.which("py-spy", path=str(Path(sys.executable).parent))
"""One of the development requirements."""
NOWHERE = "/usr/bin:/bin"


def hung(drive, path=NOWHERE, **job):
    """A gang in a collective that rank 1 never enters; the result after the progress limit."""
    document = one_node(**job)
    document["limits"]["progress_s"] = 2.0
    knobs = {"collective": True, "hang_at_step": 8, "rank": 1, "step_s": 0.02}
    node = drive(document, params=knobs, env={"PATH": path})
    # An interpreter that has no py-spy beside it.
    (node.folder / "python").write_text(os.path.realpath(sys.executable))
    node.go()
    result = node.result()
    assert result["status"] == "failed"
    assert "no_progress trainer-" in why(result)
    assert node.marked() == []
    found = {process["name"]: process["stack"] for process in result["processes"]}
    for name, text in found.items():
        assert (node.repeat(1) / name / "stack.txt").read_text() == text + "\n"
    return node, found


def test_py_spy_tells_where_each_rank_of_a_deadlock_stands(drive):
    assert PY_SPY
    _, found = hung(drive, stack_tool=PY_SPY)
    for text in found.values():
        assert text.splitlines()[0].startswith(f"py-spy ({PY_SPY}), pid ")
    assert "_misbehave (" in found["trainer-1"], "the one that never came"
    assert "meet (" in found["trainer-0"], "the one that waits for it"


def test_without_py_spy_the_rank_s_own_handler_tells(drive):
    node, found = hung(drive)
    for text in found.values():
        assert text.splitlines()[0].startswith("faulthandler (signal SIGUSR2)")
    assert "in _misbehave" in found["trainer-1"]
    assert "in meet" in found["trainer-0"]
    event = next(e for e in node.events() if e["event"] == "stacks")
    assert sorted(event["sources"]) == ["trainer-0", "trainer-1"]


def test_a_py_spy_that_may_not_look_is_told_and_got_round(drive, tmp_path):
    tool = tmp_path / "tools" / "py-spy"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'Error: Permission Denied' >&2\nexit 1\n")
    tool.chmod(0o755)
    _, found = hung(drive, path=f"{tool.parent}:{NOWHERE}")
    for text in found.values():
        assert text.startswith("faulthandler")
        assert "py-spy failed: Error: Permission Denied" in text


def test_a_py_spy_that_hangs_does_not_hold_the_gang(drive, tmp_path):
    tool = tmp_path / "py-spy"
    tool.write_text("#!/bin/sh\nexec sleep 600\n")
    tool.chmod(0o755)
    document = one_node(trainers=1, stack_tool=str(tool))
    document["limits"]["progress_s"] = 1.0
    node = drive(document, params={"hang_at_step": 3})
    node.go()
    # The tool would sleep for longer than the driver's patience for a result.
    result = node.result()
    assert result["processes"][0]["stack"].startswith("faulthandler")
    assert "gave no answer in time" in result["processes"][0]["stack"]
    assert not (node.repeat(1) / "trainer-0" / "stack.txt").read_text().startswith("py-spy")


def test_without_any_tool_the_kernel_is_asked(tmp_path):
    popen = subprocess.Popen(["sleep", "60"])
    try:
        found = stacks.take({"p": popen.pid}, {"p": str(tmp_path)}, None)["p"]
        assert popen.poll() is None, "a process without a handler is sent no signal"
    finally:
        popen.kill()
        popen.wait()
    assert found.startswith(f"/proc (no py-spy, no faulthandler), pid {popen.pid}")
    assert "Name:\tsleep" in found
    assert "waits in" in found


def test_a_long_stack_is_cut(tmp_path):
    tool = tmp_path / "py-spy"
    tool.write_text("#!/bin/sh\nyes 'a line of the stack' | head -c 100000\n")
    tool.chmod(0o755)
    found = stacks.take({"p": os.getpid()}, {"p": str(tmp_path)}, str(tool))["p"]
    assert len(found.encode()) <= 20_000
    assert found.endswith("... (cut)")


def test_the_other_node_s_half_of_a_deadlock_is_kept_too(drive):
    """Another node saw it first and the gang is aborted: what stood still here is asked too."""
    document = one_node(trainers=1)
    document["limits"]["progress_s"] = 8.0
    node = drive(document, params={"hang_at_step": 3})
    node.go()
    wait_until(lambda: node.state(1)["processes"].get("trainer-0", {}).get("phase") == "warmup")
    time.sleep(4.5)
    node.command("abort-001", reasons=[reason("no_progress", "last seen in phase window")])
    result = node.result()
    assert result["status"] == "aborted"
    assert "_misbehave" in result["processes"][0]["stack"]


def test_a_daemon_without_mark_session_or_parent_is_ended(drive):
    node = drive(one_node(trainers=1), params={"daemon": "bare", "step_s": 0.1})
    node.go()
    daemon = wait_until(lambda: bare_sleepers(node.agent()["pid"]), what="the daemon")[0]
    result = node.result()
    assert result["status"] == "ok"
    assert daemon in result["killed"]
    assert not is_running(daemon)


def bare_sleepers(agent: int) -> list[int]:
    """Children that the agent has adopted and whose environment is empty."""
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    found = []
    for pid in children:
        with suppress(FileNotFoundError, ProcessLookupError):  # other children end meanwhile
            if Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                assert Path(f"/proc/{pid}/environ").read_bytes() == b""
                found.append(int(pid))
    return found


@pytest.mark.parametrize(
    ("knobs", "reason_of", "tail"),
    [
        ({"die_at_phase": "import"}, "process_exited trainer-1: code 1", "at the phase import"),
        ({"die_at_step": 2}, "process_exited trainer-1: code 1", "at step 2"),
        ({"die_at_finish": True, "die_code": 5}, "process_exited trainer-1: code 5", "at the end"),
        ({"die_at_phase": "finish", "die_signal": 9}, "process_killed trainer-1: SIGKILL", None),
    ],
)
def test_a_rank_that_dies_early_or_late_fails_the_repeat(drive, knobs, reason_of, tail):
    node = drive(one_node(), params={"rank": 1, "collective": True, **knobs})
    node.go()
    result = node.result()
    assert result["status"] == "failed"
    assert reason_of in why(result)
    if tail:
        assert f"injected fault: die {tail}" in result["log_tail"]
    assert "memory" not in why(result), "nobody else's death is taken for a lack of memory"
    assert node.marked() == []


def test_a_rank_that_crashes_on_its_way_out_says_why_it_ended(drive):
    faults = {"die_at_step": 2, "die_raise": "no such file", "die_signal": 11}
    node = drive(one_node(), params={"rank": 1, **faults})
    node.go()
    result = node.result()
    assert [each["code"] for each in result["reasons"]] == ["process_killed", "exception"]
    assert "RuntimeError: no such file" in why(result)


# --- cgroups -----------------------------------------------------------------------------


@pytest.fixture
def limited() -> Path:
    """A memory cgroup of 150 MB, made below this process's own."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for base, name, most in (
            ("/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "", "memory.max"),
        ):
            folder = Path(base + path) / f"test-{os.getpid()}"
            if names != name or not folder.parent.is_dir():
                continue
            try:
                folder.mkdir()
                (folder / most).write_text(str(150 * 2**20))
            except OSError:
                continue
            yield folder
            wait_until(lambda folder=folder: remove_cgroup(folder), 120.0, "the cgroup to be empty")
            return
    pytest.skip("needs root on a machine where memory cgroups can be made")


def test_what_the_kernel_kills_for_memory_is_named(drive, limited):
    node = drive(one_node(), params={"eat_memory": True, "rank": 1}, start=False)
    pid = node.start()["pid"]
    (limited / "cgroup.procs").write_text(str(pid))
    node.go()
    result = node.result()
    assert result["status"] == "failed"
    assert why(result).startswith("out_of_memory trainer-1: ")
    assert node.marked() == []
    assert is_running(pid), "the ranks go before the agent"
    assert node.prepare(2)
    left = [entry.name for entry in limited.glob(PREFIX + "*")]
    assert left == [], "a repeat's cgroup goes with it"
    node.stop()


def test_a_process_that_takes_more_memory_than_its_case_allows_is_killed(drive):
    try:
        Cgroup(9003, memory_mb=150).close()
    except AgentError as error:
        pytest.skip(f"needs a login that may make cgroups: root ({error})")
    document = one_node()
    document["case"]["memory_mb"] = 150
    node = drive(document, params={"eat_memory": True, "rank": 1})
    node.go()
    assert why(node.result()).startswith("out_of_memory trainer-1: its cgroup")
    assert node.marked() == []


def test_a_node_that_cannot_limit_memory_says_so(drive, monkeypatch):
    monkeypatch.setattr(cgroups, "_hierarchies", list)
    with pytest.raises(AgentError, match="the memory of a process cannot be limited here"):
        Cgroup(9004, memory_mb=150)
    assert Cgroup(9005).procs_of("trainer-0") is None


@pytest.mark.parametrize("version", [1, 2])
def test_a_cgroup_holds_what_leaves_session_and_mark(version, monkeypatch, apart):
    of_version = [h for h in cgroups._hierarchies() if h.version == version]
    monkeypatch.setattr(cgroups, "_hierarchies", lambda: of_version)
    group = Cgroup(9001)
    procs = group.procs_of("trainer-0")
    if procs is None:
        pytest.skip(f"needs a login that may make cgroups of version {version}: root")
    script = f"echo 0 > {procs}; env -i setsid sleep 600 & exec sleep 600"
    popen = subprocess.Popen(["sh", "-c", script])
    wait_until(lambda: len(group.members()) >= 2, what="both in the group")
    members = group.members()
    if version == 2:
        # One write ends them all: no signal is sent to a number.
        monkeypatch.setattr(cgroups, "kill_all", lambda pids: pytest.fail("not asked for"))
    killed = group.kill(())
    popen.wait()
    assert set(members) <= set(killed)
    wait_until(lambda: not any(is_running(pid) for pid in members))
    wait_until(lambda: group.close() or not Path(procs).exists(), what="its removal")


def test_no_daemon_outlives_a_killed_agent(apart, drive):
    node = drive(one_node(trainers=1), params={"daemon": "bare", "hang_at_step": 2})
    node.go()
    agent = node.agent()["pid"]
    daemon = wait_until(lambda: bare_sleepers(agent), what="the daemon")[0]
    os.kill(agent, signal.SIGKILL)
    # No agent is started that would look into the cgroup, where there is one.
    wait_until(lambda: not is_running(daemon), 5.0, "the daemon's end")
    kill = wait_until(lambda: [e for e in node.events() if e["event"] == "kill"])
    assert daemon in kill[-1]["pids"]


def test_what_an_agent_that_died_left_in_its_cgroup_is_ended(apart, drive):
    if Cgroup(9002).procs_of("trainer-0") is None:
        pytest.skip("needs a login that may make cgroups: root")
    node = drive(one_node(trainers=1), params={"daemon": "bare", "hang_at_step": 2})
    node.go()
    agent = node.agent()["pid"]
    daemon = wait_until(lambda: bare_sleepers(agent), what="the daemon")[0]
    node.kill_agent_and_reaper()
    wait_until(lambda: not is_running(agent))
    assert is_running(daemon), "no mark, no parent, no session: only its cgroup tells"
    node.start()
    assert [r["code"] for r in node.result()["reasons"]] == ["agent_died"]
    wait_until(lambda: not is_running(daemon))
    kills = [e for e in node.events() if e["event"] == "kill"]
    assert [daemon] in [e["pids"] for e in kills]
    wait_until(lambda: node.agent()["pid"] != agent)
    node.stop()
