"""Gangs under Slurm: command lines, the job's script, its states, and that it is submitted once."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Sequence
from typing import Any

import pytest
from tests.jobs import sleeping_job

from nightbench.core.model import Cluster, JobSpec, Node, ReasonCode, SlurmPolicy
from nightbench.core.sentences import sentences
from nightbench.gang.errors import Cancelled, GangError, RemoteFailure
from nightbench.gang.process import Completed
from nightbench.gang.slurm_launcher import (
    SlurmJob,
    SlurmLauncher,
    end_job,
    newest,
    read_jobs,
    script,
    submit_words,
)

POLICY = SlurmPolicy(
    login="login",
    partition="gpu",
    account="bench",
    time_limit_s=5400.0,
    options=("--gres=gpu:8",),
)


CLUSTER = Cluster("lab", (Node("a", "n1", "c"), Node("b", "n2", "c")))


def test_one_job_for_a_gang_one_agent_on_each_node() -> None:
    job = sleeping_job(CLUSTER, nodes=2)
    words = submit_words(POLICY, job, "/shared/jobs/x/slurm")
    assert words[:2] == ["sbatch", "--gres=gpu:8"]
    assert f"--job-name=nightbench/{job.job_id}" in words
    assert f"--nodelist={','.join(node.host for node in job.nodes)}" in words
    assert {"--partition=gpu", "--account=bench", "--time=90"} <= set(words)
    assert {"--dependency=singleton", "--no-requeue", "--exclusive"} <= set(words)
    text = script(job, "python3", "/shared/it's code/agent.py", "/shared/jobs/x")
    first, second = text.splitlines()
    assert first == "#!/bin/sh"
    words = shlex.split(second)
    assert words[:2] == ["exec", "srun"]
    assert f"--ntasks={len(job.nodes)}" in words
    at = words.index("python3")
    nodes = [word for node in job.nodes for word in ("--node", f"{node.host}={node.name}")]
    agent = ["/shared/it's code/agent.py", "task", "/shared/jobs/x"]
    assert words[at:] == ["python3", *agent, *nodes]


@pytest.mark.parametrize(
    ("printed", "active", "running"),
    [
        ("7|PENDING|Resources", True, False),
        ("7|CONFIGURING|None", True, False),
        ("7|RUNNING|None", True, True),
        ("7|COMPLETING|None", True, True),
        ("7|COMPLETED|None", False, False),
        ("7|TIMEOUT|TimeLimit", False, False),
        ("7|PREEMPTED|None", False, False),
        ("7|NODE_FAIL|NodeDown", False, False),
        ("7|OUT_OF_MEMORY|0:125", False, False),
        ("7|CANCELLED by 1000|0:0", False, False),
        ("7|A_STATE_OF_TOMORROW|", False, False),
    ],
)
def test_states(printed: str, active: bool, running: bool) -> None:
    (job,) = read_jobs(printed + "\n\n")
    assert (job.number, job.is_active, job.is_running) == (7, active, running)


def test_the_job_that_counts() -> None:
    listed = read_jobs("7|TIMEOUT|TimeLimit\n9|PENDING|Dependency\n8|RUNNING|None\n")
    assert newest(listed) == SlurmJob(8, "RUNNING", "None")
    assert newest(read_jobs("7|TIMEOUT|TimeLimit\n9|COMPLETED|None\n")) == SlurmJob(
        9, "COMPLETED", "None"
    )
    assert newest([]) is None
    assert str(listed[-1]) == "Slurm job 7: TIMEOUT (TimeLimit)"
    with pytest.raises(ValueError):  # noqa: PT011 - whatever Slurm prints instead
        read_jobs("slurm_load_jobs error\n")


class LoginNode:
    """A login node in memory: a shared folder, and a queue."""

    node, address = "n1", "login:22"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.folders: set[str] = set()
        self.queue: dict[int, str] = {}
        self.accounting: dict[int, str] = {}
        self.submitted: list[str] = []
        self.down = False
        self.refuses = ""
        self.cut = False
        """The answer of the next sbatch is lost."""

    async def home(self) -> str:
        return "/home/bench"

    async def run(self, argv: Sequence[str], stdin: bytes = b"", **_: Any) -> Completed:
        if self.down:
            return Completed(1, b"", b"Unable to contact slurm controller (connect failure)")
        if argv[0] == "squeue":
            listed = "".join(f"{n}|{state}\n" for n, state in self.queue.items())
            return Completed(0, listed.encode(), b"")
        if argv[0] == "sacct":
            listed = "".join(f"{n}|{state}\n" for n, state in self.accounting.items())
            return Completed(0 if self.accounting else 1, listed.encode(), b"")
        if argv[0] == "scancel":
            self.queue = {n: "CANCELLED|None" for n in self.queue}
            return Completed(0, b"", b"")
        assert argv[0] == "sbatch"
        if self.refuses:
            return Completed(1, b"", self.refuses.encode())
        await asyncio.sleep(0)
        number = 100 + len(self.submitted)
        self.submitted.append(stdin.decode())
        self.queue[number] = "PENDING|Priority"
        if self.cut:
            self.cut = False
            raise RemoteFailure(self.node, self.address, "connection lost")
        return Completed(0, f"{number};cluster\n".encode(), b"")

    async def make_folders(self, path: str) -> None:
        self.folders.add(path)

    async def mkdir(self, path: str) -> bool:
        known = path in self.folders
        self.folders.add(path)
        return not known

    async def listdir(self, path: str) -> list[str]:
        inside = [p for p in (*self.files, *self.folders) if p.startswith(path + "/")]
        return sorted({p[len(path) + 1 :].partition("/")[0] for p in inside})

    async def exists(self, path: str) -> bool:
        return path in self.files or path in self.folders

    async def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    async def write_atomic(self, path: str, content: bytes) -> None:
        self.files[path] = content


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def login() -> LoginNode:
    return LoginNode()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def job() -> JobSpec:
    return sleeping_job(CLUSTER, nodes=2)


async def test_a_second_controller_finds_the_job(
    login: LoginNode, clock: Clock, job: JobSpec
) -> None:
    first, second = (SlurmLauncher(job, POLICY, clock=clock) for _ in range(2))
    assert await first.start(login)
    clock.now += 5
    assert not await first.start(login)
    assert not await second.start(login)
    assert second.waits == "waiting for Slurm job 100: PENDING (Priority)"
    assert not await second.is_running(login)
    login.queue[100] = "RUNNING|None"
    clock.now += 5
    assert not await second.start(login)
    assert second.waits is None
    assert await second.is_running(login)
    assert len(login.submitted) == 1


async def test_two_controllers_at_once_submit_one_job(
    login: LoginNode, clock: Clock, job: JobSpec
) -> None:
    launchers = [SlurmLauncher(job, POLICY, clock=clock) for _ in range(5)]
    started = await asyncio.gather(*(launcher.start(login) for launcher in launchers))
    assert sorted(started) == [False] * 4 + [True]
    assert len(login.submitted) == 1


async def test_a_lost_answer_submits_none_again(
    login: LoginNode, clock: Clock, job: JobSpec
) -> None:
    """The queue shows the job later than the answer should have come."""
    login.cut = True
    launcher = SlurmLauncher(job, POLICY, clock=clock)
    with pytest.raises(RemoteFailure):
        await launcher.start(login)
    late, login.queue = login.queue, {}
    clock.now += 5
    assert not await launcher.start(login)
    login.queue = late
    clock.now += 5
    assert not await launcher.start(login)
    assert len(login.submitted) == 1
    # Where it never appears, another one is submitted.
    login.queue = {}
    lost = SlurmLauncher(job, POLICY, clock=clock)
    assert not await lost.start(login)
    clock.now += 100
    assert await lost.start(login)
    assert len(login.submitted) == 2


async def test_an_ended_job_has_a_successor(login: LoginNode, clock: Clock, job: JobSpec) -> None:
    """How it ended is a reason of the repeat; what a dead agent wrote last is corrected."""
    launcher = SlurmLauncher(job, POLICY, clock=clock)
    await launcher.start(login)
    login.queue[100] = "RUNNING|None"
    path = f"/home/bench/.nightbench-node/jobs/{job.job_id}/{job.nodes[0].name}/agent.json"
    login.files[path] = json.dumps({"state": "running", "pid": 7, "boot_id": "b"}).encode()
    clock.now += 5
    assert await launcher.is_running(login)
    login.queue[100] = "TIMEOUT|TimeLimit"
    clock.now += 5
    assert not await launcher.is_running(login)
    end = launcher.take_end()
    assert end is not None
    assert end.code is ReasonCode.BATCH_JOB_ENDED
    assert sentences([end]) == "Slurm job 100 ended: TIMEOUT TimeLimit"
    assert launcher.take_end() is None
    assert await launcher.start(login)
    assert len(login.submitted) == 2
    agent = json.loads(login.files[path])
    assert (agent["state"], agent["boot_id"]) == ("ended", "b")
    assert agent["reasons"][0]["code"] == "agent_died"


async def test_a_job_that_left_the_queue_is_looked_up(
    login: LoginNode, clock: Clock, job: JobSpec
) -> None:
    for accounting, said in ({}, "UNKNOWN"), ({100: "NODE_FAIL|1:0"}, "NODE_FAIL 1:0"):
        login.queue, login.accounting = {}, accounting
        launcher = SlurmLauncher(job, POLICY, clock=clock)
        clock.now += 100
        await launcher.start(login)
        login.queue = {100: "RUNNING|None"}
        clock.now += 5
        assert await launcher.is_running(login)
        login.queue = {}
        clock.now += 5
        assert not await launcher.is_running(login)
        end = launcher.take_end()
        assert end is not None
        assert end.observed.startswith(said)


async def test_scancel_by_a_person_cancels(login: LoginNode, clock: Clock, job: JobSpec) -> None:
    launcher = SlurmLauncher(job, POLICY, clock=clock)
    await launcher.start(login)
    login.queue[100] = "CANCELLED|None"
    clock.now += 5
    with pytest.raises(Cancelled, match="Slurm job 100 by scancel"):
        await launcher.start(login)


async def test_what_a_controller_cancelled_is_submitted_again(
    login: LoginNode, clock: Clock, job: JobSpec
) -> None:
    """A controller that gave up leaves no job behind; a retry of the task submits another."""
    launcher = SlurmLauncher(job, POLICY, clock=clock)
    await launcher.start(login)
    await launcher.end(login)
    assert login.queue == {100: "CANCELLED|None"}
    await end_job(login, job.job_id)  # nothing is left to be ended
    clock.now += 5
    assert await SlurmLauncher(job, POLICY, clock=clock).start(login)


async def test_slurm_that_is_down(login: LoginNode, clock: Clock, job: JobSpec) -> None:
    """It says nothing of a job that runs, and nothing is submitted; in the end it is an error."""
    launcher = SlurmLauncher(job, POLICY, clock=clock)
    await launcher.start(login)
    login.queue[100] = "RUNNING|None"
    clock.now += 5
    assert await launcher.is_running(login)
    login.down = True
    clock.now += 5
    assert await launcher.is_running(login)
    with pytest.raises(RemoteFailure, match="contact"):
        await launcher.start(login)
    clock.now += job.limits.lease_s + 1
    with pytest.raises(GangError, match="has not answered"):
        await launcher.start(login)
    assert len(login.submitted) == 1


async def test_a_refused_job_is_an_error_with_slurms_words(
    login: LoginNode, clock: Clock, job: JobSpec
) -> None:
    login.refuses = "sbatch: error: invalid partition specified: gpu"
    launcher = SlurmLauncher(job, POLICY, clock=clock)
    with pytest.raises(GangError, match=r"refuses the job .* invalid partition specified: gpu"):
        await launcher.start(login)
