"""The agent's life: one for a job directory, the node's lock, lease, epochs, stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from node_driver import AGENT, CODE, PYTHON, NodeDriver, one_node, reason, verb, wait_until, why
from nodeside.files import utc_now
from nodeside.job import NodeJob
from nodeside.locks import current_holders
from nodeside.processes import is_running


def test_started_once(drive):
    node = drive(one_node())
    pid = wait_until(lambda: node.agent().get("pid"))
    again = node.start()
    assert again == {"pid": pid, "started": False, "swept": []}
    assert len([e for e in node.events() if e["event"] == "start"]) == 1


@pytest.mark.parametrize("marked", [True, False])
def test_start_returns_although_its_output_is_a_pipe(drive, marked):
    # sshd waits for the channel's descriptors: an agent that kept one would hold the login.
    node = drive(one_node(), start=False)
    words = [PYTHON, str(AGENT), "start", str(node.folder), "--node", "n1"]
    given = {k: v for k, v in node.env.items() if marked or not k.startswith("NIGHTBENCH_AGENT")}
    done = subprocess.run(words, env={**os.environ, **given}, capture_output=True)
    answer = json.loads(done.stdout)
    assert answer["started"]
    assert wait_until(lambda: node.agent().get("state") == "idle")
    assert os.getsid(answer["pid"]) != os.getsid(0)
    targets = {os.readlink(fd) for fd in Path(f"/proc/{answer['pid']}/fd").iterdir()}
    assert not any(target.startswith("pipe:") for target in targets)
    environ = Path(f"/proc/{answer['pid']}/environ").read_bytes().split(b"\0")
    assert f"NIGHTBENCH_AGENT={node.job_id}".encode() in environ
    assert b"NIGHTBENCH_AGENT_NODE=n1" in environ


def task(node: NodeDriver, **variables: str) -> subprocess.Popen[str]:
    """`agent.py task` for the node `n1`, which is the task `0`."""
    words = [PYTHON, str(AGENT), "task", str(node.folder.parent), "--node", "0=n1"]
    environment = {**os.environ, **node.env, **variables}
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_task_of_a_batch_job_is_the_agent(drive, tmp_path, number):
    """It stays in the foreground; a signal to it ends the agent, which says why."""
    node = drive(one_node(), start=False)
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "n1").symlink_to(node.folder)
    node.folder = tmp_path / "all" / "n1"
    with task(node, SLURMD_NODENAME="0") as process:
        wait_until(lambda: node.agent().get("state") == "idle")
        assert process.poll() is None
        with task(node, SLURMD_NODENAME="0") as second:
            assert "another agent serves" in second.communicate()[0]
            assert second.returncode == 1
        process.send_signal(number)
        assert process.wait(20) == 3, "the batch system is told that nobody stopped it"
    assert why(node.agent()) == f"agent_signalled : {number.name} ()"
    assert node.marked() == []
    with task(node, SLURMD_NODENAME="0") as process:
        wait_until(lambda: node.agent().get("state") == "idle")
        node.stop()
        assert process.wait(20) == 0


def test_a_signal_before_the_agent_has_begun_ends_it_in_the_same_way(drive, tmp_path):
    node = drive(one_node(), start=False)
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "n1").symlink_to(node.folder)
    node.folder = tmp_path / "all" / "n1"
    with task(node, SLURMD_NODENAME="0") as process:
        command = Path(f"/proc/{process.pid}/cmdline")
        wait_until(lambda: b"reap" in command.read_bytes())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 3
    assert why(node.agent()) == "agent_signalled : SIGTERM ()"


def test_a_task_that_is_not_of_the_job(drive):
    node = drive(one_node(), start=False)
    with task(node, SLURMD_NODENAME="7") as process:
        assert "found '7' as this task's name" in process.communicate()[0]
        assert process.returncode == 1


def test_second_agent_waits_and_shows_the_holder(drive):
    first = drive(one_node())
    wait_until(lambda: first.agent().get("state") == "idle")
    other = one_node()
    other["job_id"] = "another/job/g0"
    other["nodes"][0]["name"] = "n2"
    for entry in other["processes"] + other["ports"]:
        entry["node"] = "n2"
    second = drive(other, node="n2")  # the same server address: the same machine
    waiting = wait_until(lambda: second.agent() if second.agent().get("holder") else None)
    assert waiting["state"] == "waiting"
    assert waiting["holder"]["job_id"] == first.job_id
    assert waiting["holder"]["pid"] == first.agent()["pid"]
    assert waiting["holder"]["since"]
    lock_dir = str(first.document["lock_dir"])
    holders = current_holders(lock_dir, first.env)
    assert holders[0]["job_id"] == first.job_id
    time.sleep(1.1)  # `since` has whole seconds
    freed = utc_now()
    first.stop()
    wait_until(lambda: second.agent().get("state") == "idle", what="the second to get the lock")
    holders = current_holders(lock_dir, first.env)
    assert holders[0]["since"] >= freed, "since it has the lock, not since it waited"


def test_lock_outlives_no_holder(drive):
    first = drive(one_node())
    wait_until(lambda: first.agent().get("state") == "idle")
    os.kill(first.agent()["pid"], signal.SIGKILL)
    lock_dir = str(first.document["lock_dir"])
    wait_until(lambda: not is_running(first.agent()["pid"]))
    holders = current_holders(lock_dir, first.env)
    assert holders == []
    assert Path(lock_dir).stat().st_mode & 0o1777 == 0o1777
    assert next(Path(lock_dir).iterdir()).stat().st_mode & 0o777 == 0o666


def test_expired_lease_ends_the_gang_and_frees_the_node(drive):
    document = one_node()
    document["limits"]["lease_s"] = 4.0
    node = drive(document, params={"hang_at_step": 3, "daemon": True})
    for counter in range(10):
        (node.control / "lease").write_text(f"1 {counter}")
        if counter == 1:
            node.go()
        time.sleep(0.5)
    assert node.agent()["state"] == "running", "a lease that is renewed holds"
    ended = node.until_ended()
    assert why(ended) == "lease_expired : 4 s ()"
    assert node.result()["status"] == "failed"
    assert node.marked() == []
    assert "lease_expired" in [e["event"] for e in node.events()]
    lock_dir = str(node.document["lock_dir"])
    holders = current_holders(lock_dir, node.env)
    assert holders == []


def test_lower_epoch_is_ignored(drive):
    node = drive(one_node())
    (node.control / "epoch-0002").mkdir()
    node.command("prepare-001", epoch=1)
    refused = wait_until(lambda: [e for e in node.events() if e["event"] == "refused"])
    assert refused[0]["command"] == "prepare-001.json"
    assert (refused[0]["epoch"], refused[0]["current"]) == (1, 2)
    node.command("stop", epoch=1)
    time.sleep(1)
    assert node.agent()["state"] == "idle"
    assert node.state(1) == {}
    node.command("prepare-001", epoch=2)
    wait_until(lambda: node.state(1).get("state") == "ready")
    assert node.agent()["epoch"] == 2


def test_abort_before_the_go(drive):
    node = drive(one_node())
    node.prepare()
    node.command("abort-001", reasons=[reason("agent_error", "n2 has no port")])
    result = node.result()
    assert (result["status"], why(result)) == ("aborted", "agent_error : n2 has no port ()")
    assert [p["exit_code"] for p in result["processes"]] == [None, None]
    assert not (node.repeat(1) / "launched").exists()


def test_stop_within_a_repeat(drive):
    node = drive(one_node(), params={"hang_at_step": 3})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-1") == "warmup")
    node.command("stop", reasons=[reason("cancelled", "by ann")])
    assert why(node.until_ended()) == "cancelled : by ann ()"
    assert node.result()["status"] == "aborted"
    assert node.marked() == []


def test_release_ends_the_agent_that_it_names_and_the_next_one_serves(drive):
    node = drive(one_node())
    pid = wait_until(lambda: node.agent().get("state") == "idle") and node.agent()["pid"]
    node.command(f"release-{pid + 1}")
    node.command(f"release-{pid}")
    assert why(node.until_ended()) == "stopped :  ()"
    wait_until(lambda: not is_running(pid))
    assert node.start()["started"]
    wait_until(lambda: node.agent().get("state") == "idle", what="an agent that no command names")


def test_sigterm_leaves_the_node_clean(drive):
    node = drive(one_node(), params={"hang_at_step": 3, "ignore_term": True})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-1") == "warmup")
    os.kill(node.agent()["pid"], signal.SIGTERM)
    assert why(node.until_ended()) == "agent_signalled : SIGTERM ()"
    assert node.result()["status"] == "aborted"
    assert node.marked() == []


def test_sweep_ends_marked_processes_only(apart, drive):
    for attempt in range(5):
        node = drive(
            one_node(), params={"daemon": True, "hang_at_step": 8}, inside=f"try-{attempt}"
        )
        with _unmarked(node.job_id) as bystander:
            node.go()
            wait_until(lambda node=node: node.phase(1, "trainer-1") == "window")
            served = [e for e in verb("sweep")[1]["found"] if e["job"] == node.job_id]
            assert served == [], "ranks whose agent lives are no orphans"
            node.kill_agent_and_reaper()
            wait_until(lambda node=node: len(node.marked()) <= 2, what="the two daemons to be left")
            daemons = sorted(node.marked())
            found = [e for e in verb("sweep")[1]["found"] if e["job"] == node.job_id]
            code, swept = verb("sweep", "--job", node.job_id, "--kill")
            assert code == 0
            assert node.marked() == []
            assert bystander.poll() is None
            if len(daemons) == 2 and sorted(swept["killed"]) == daemons:
                assert [(e["pid"], e["node"]) for e in found] == [(pid, "n1") for pid in daemons]
                return
        # Each gang that starts on this machine ends orphans, a test's beside this one too.
    pytest.fail("in no attempt the sweep ended the two daemons")


def test_what_is_started_sweeps_first(drive):
    """Processes of its own job too, although the mark of an agent is on what starts one."""
    node = drive(one_node(), start=False)
    marks = {"NIGHTBENCH_JOB": node.job_id, "NIGHTBENCH_NODE": "n1"}
    for _ in range(5):
        with subprocess.Popen(["sleep", "600"], env={**os.environ, **marks}) as orphan:
            swept = node.start("--sweep", node.folder)["swept"]
            assert orphan.wait(10) == -signal.SIGKILL
        node.stop()
        if orphan.pid in swept:
            return
        # Each gang that starts on this machine ends orphans, a test's beside this one too.
        (node.control / "stop.json").unlink()
    pytest.fail("in no attempt the start ended the orphan")


@contextmanager
def _unmarked(job_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose environment holds the job's id, but not as a mark."""
    popen = subprocess.Popen(["sleep", "600"], env={"NIGHTBENCH_JOBS": job_id})
    try:
        yield popen
    finally:
        popen.kill()
        popen.wait()


def test_sweep_of_a_job_ends_its_agent_too(drive):
    node = drive(one_node(), params={"hang_at_step": 3})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-1") == "warmup")
    pid = node.agent()["pid"]
    half = node.job_id[:-3]
    assert verb("sweep", "--job", half)[1]["found"] == [], "whole path parts, not letters"
    killed = verb("sweep", "--job", node.job_id.split("/")[0], "--kill")[1]["killed"]
    assert pid in killed
    assert node.marked() == []
    assert node.result()["status"] == "aborted"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("needs root that may mount a file system")
    yield folder
    # Lazily: a failing test may leave an agent that still writes there.
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as ballast:
        while True:
            ballast.write(b"\0" * 4096)


def test_disk_that_fills_up_during_a_repeat(tiny_disk, tmp_path):
    document = one_node()
    node = NodeDriver(tiny_disk, document, params={"step_s": 0.05, "hang_at_step": 30})
    document["lock_dir"] = str(tmp_path / "locks")
    (node.folder / "job.json").write_text(json.dumps(document))
    node.start()
    node.go()
    wait_until(lambda: node.phase(1, "trainer-1") == "window")
    pid = node.agent()["pid"]
    with pytest.raises(OSError, match="No space"):
        _fill(tiny_disk / "ballast")
    wait_until(lambda: not is_running(pid), what="the agent to give up")
    assert node.marked() == [], "ranks must not go on unseen"
    assert not (node.repeat(1) / "result.json").exists()
    code, answer = verb("start", node.folder, "--node", "n1", env=node.env)
    assert code == 1
    assert "disk full" in answer["error"]
    assert "No space left on device" in answer["error"]
    (tiny_disk / "ballast").unlink()
    assert node.start()["started"]
    assert [r["code"] for r in node.result()["reasons"]] == ["agent_died"]
    node.stop()


def test_read_only_job_directory(tiny_disk):
    node = NodeDriver(tiny_disk, one_node())
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    code, answer = verb("start", node.folder, "--node", "n1", env=node.env)
    assert code == 1
    assert "read-only file system" in answer["error"]
    assert "environments.job_root" in answer["hint"]


def test_clean(drive, tmp_path):
    node = drive(one_node())
    wait_until(lambda: node.agent().get("state") == "idle")
    lock_dir = str(node.document["lock_dir"])
    root = tmp_path / "root"
    job = root / "jobs" / "old-run" / "case" / "g0" / "n1"
    job.mkdir(parents=True)
    (job / "job.json").write_text(json.dumps({"code_digest": "in-a-job-0123456789"}))
    for digest in ("in-a-job", "current", "forgotten"):
        (root / "code" / digest).mkdir(parents=True)
        os.utime(root / "code" / digest, (0, 0))
    for name in ("old", "new"):
        (root / "compiled" / name / "inductor").mkdir(parents=True)
    os.utime(root / "compiled" / "old", (0, 0))
    for name in ("old-cpu-0", "new-cpu-1"):
        (root / "envs" / name).mkdir(parents=True)
        (root / "envs" / name / ".ok.json").write_text("{}")
    os.utime(root / "envs" / "old-cpu-0" / ".ok.json", (0, 0))
    (root / "tools").mkdir()
    halves = ("code/.half", "code/.half.tar.gz", "tools/.uv.part")
    for name in halves:  # of uploads whose controller was killed
        (root / name).mkdir() if name == "code/.half" else (root / name).touch()
        os.utime(root / name, (0, 0))
    (root / "tools" / ".young.part").touch()
    words = ["--root", root, "--lock-dir", lock_dir, "--keep-code", "current", "--keep-days"]
    code, answer = verb("clean", *words, "30", env=node.env)
    assert code == 1
    assert node.job_id in answer["error"], "a node in use is left alone"
    node.stop()
    code, answer = verb("clean", *words, "30", env=node.env)
    assert code == 0
    assert answer["removed"] == ["envs/old-cpu-0", *halves, "code/forgotten", "compiled/old"]
    assert os.listdir(root / "tools") == [".young.part"]
    for path in (job, job / "job.json"):
        os.utime(path, (0, 0))
    answer = verb("clean", *words, "30", env=node.env)[1]
    assert answer["removed"] == ["jobs/old-run/case/g0/n1", "code/in-a-job"]
    assert not (root / "jobs" / "old-run").exists()
    assert sorted(p.name for p in (root / "code").iterdir()) == ["current"]


def test_what_is_compiled_is_kept_for_one_build_on_one_kind_of_node(tmp_path):
    document = one_node()
    folder = tmp_path / "jobs" / document["job_id"] / "n1"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps(document))
    python = folder / "python"
    found = {"id": "hardware", "build": document["framework"], "packages": {"torch": "2.9"}}

    def cache(of: dict[str, Any] = found, env: str = "a") -> str:
        python.write_text(f"/envs/{env}/bin/python")
        job = NodeJob(str(folder), "n1", str(CODE))
        job.keep_compiled(of)
        given = job.environment(document["processes"][0], {}, 1)
        assert Path(given["TRITON_CACHE_DIR"]).parent.is_dir()
        return str(given["TORCHINDUCTOR_CACHE_DIR"])

    assert Path(cache()).parents[2] == tmp_path, "beside the jobs, which are removed sooner"
    others = [cache(found | {"id": "b"}), cache(found | {"packages": {}}), cache(env="b")]
    assert len({cache(), cache(), *others}) == 4
    (tmp_path / "exported").mkdir()
    folder = (folder / "job.json").rename(tmp_path / "exported" / "job.json").parent
    job = NodeJob(str(folder), "n1", str(CODE))
    job.keep_compiled(found)
    assert "TRITON_CACHE_DIR" not in job.environment(document["processes"][0], {}, 1)
