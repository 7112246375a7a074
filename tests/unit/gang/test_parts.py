"""Clock, shipping, digest, progress and the agent's answers: the small pure parts."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import os
import subprocess
import tarfile
from types import SimpleNamespace

import pytest
from tests.unit.gang.bench import JOB

from nightbench.core.code_digest import code_digest, shipped_files
from nightbench.core.model import ClockOffset, Protocol
from nightbench.gang import RemoteFailure
from nightbench.gang.decisions import NodeView, ProcessView
from nightbench.gang.errors import AgentCrashed, PythonUnusable, faults_of, remote_failure
from nightbench.gang.node_access import Agent, Layout, best_offset
from nightbench.gang.node_client import NodeClient
from nightbench.gang.process import Completed
from nightbench.gang.progress import ProgressDocument
from nightbench.gang.repeat_controller import RepeatController
from nightbench.gang.shipping import pack
from nightbench.gang.ssh_transport import quote


def test_the_offset_comes_from_the_shortest_round_trip():
    # True offset 500; the slow exchanges are lopsided.
    best = best_offset([(0.0, 500.9, 1.0), (2.0, 502.01, 2.02), (3.0, 503.0, 3.5)])
    assert best.offset_s == pytest.approx(500.0)
    assert best.error_s == pytest.approx(0.01)


@pytest.mark.parametrize("errors_s", [(0.001, 0.1), (0.1, 0.001)])
def test_the_closer_offset_wins(monkeypatch, errors_s):
    offsets = iter([ClockOffset(1.0, error_s) for error_s in errors_s])

    async def offset(client):
        return next(offsets)

    monkeypatch.setattr(NodeClient, "clock_offset", offset)
    client = SimpleNamespace(name="n1", view=NodeView("n1", answered_s=0.0))
    gang = SimpleNamespace(clients=[client], clock=lambda: 0.0)
    repeat = RepeatController(gang, agents=None, number=1)
    for _ in errors_s:
        asyncio.run(repeat._measure_clocks())
    assert repeat._clocks == {"n1": ClockOffset(1.0, 0.001)}


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "benchmarks"
    (root / "nodeside/__pycache__").mkdir(parents=True)
    (root / "agent.py").write_text("print()\n")
    (root / "nodeside/x.py").write_text("x = 1\n")
    (root / "nodeside/__pycache__/x.cpython-311.pyc").write_bytes(b"\0")
    (root / ".ruff_cache").mkdir()
    (root / ".ruff_cache/y").write_text("y")
    return root


def test_the_digest_follows_content_paths_and_execute_bits(tree):
    first = code_digest(tree)
    assert [name for name, _ in shipped_files(tree)] == ["agent.py", "nodeside/x.py"]
    (tree / "nodeside/__pycache__/z.pyc").write_bytes(b"\1")
    os.utime(tree / "agent.py", (0, 0))
    assert code_digest(tree) == first
    (tree / "agent.py").chmod(0o755)
    executable = code_digest(tree)
    assert executable != first
    (tree / "nodeside/x.py").rename(tree / "nodeside/y.py")
    assert code_digest(tree) not in (first, executable)


def test_the_archive_is_the_same_for_the_same_content(tree):
    first = pack(tree)
    os.utime(tree / "agent.py", (0, 0))
    assert pack(tree) == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert archive.getnames() == ["agent.py", "nodeside/x.py"]


def progress_of(process, progress=None):
    progress = progress or ProgressDocument(dataclasses.replace(JOB, protocol=Protocol(5, 30, 3)))
    view = NodeView("n1", 0.0, processes={"trainer-0": process})
    return progress, progress.document("running", 1, [view], running_s=10.0)


def test_progress_counts_warm_up_and_window_as_one():
    progress, document = progress_of(ProcessView("warmup", 3, 100.0))
    assert (document["step"], document["steps"], document["throughput"]) == (3, 35, None)
    _, document = progress_of(ProcessView("window", 8, 105.0), progress)
    assert document["step"] == 13
    # 10 steps in 5 s, batch 1 on 2 trainers.
    assert document["throughput"] == pytest.approx(4.0)
    # 22 steps left at 2/s, then two more repeats of 10 + 11 s.
    assert document["eta_s"] == pytest.approx(11 + 2 * 21)


def test_live_throughput_counts_the_units_of_each_example():
    job = dataclasses.replace(
        JOB, protocol=Protocol(5, 30, 3), unit="tokens", workload_params={"units_per_example": 128}
    )
    progress = ProgressDocument(job)
    progress_of(ProcessView("window", 1, 100.0), progress)
    _, document = progress_of(ProcessView("window", 11, 105.0), progress)
    assert document["throughput"] == pytest.approx(2.0 * 128 * 2)


def test_progress_knows_how_long_a_repeat_takes_after_the_first():
    progress, _ = progress_of(ProcessView("warmup", 3, 100.0))
    progress.repeat_ended(20.0)
    assert progress.document("running", 2, running_s=5.0)["eta_s"] == pytest.approx(15 + 20)


class Said:
    """A node that answers every command alike."""

    node, address = "n1", "n1.test:22"

    def __init__(self, completed=None):
        self.completed = completed

    async def run(self, argv, **options):
        return self.completed


def agent_on(node):
    return Agent(node, JOB.environments, Layout("/n", "/n"), "/n/code/0")


async def test_an_answer_is_found_below_what_a_login_script_prints():
    node = Said(Completed(0, b'Welcome!\n{"started": true}\n', b""))
    assert await agent_on(node).call("start") == {"started": True}


async def test_an_error_of_the_agent_is_passed_on():
    node = Said(Completed(1, b'{"error": "no readable job.json"}', b"noise"))
    with pytest.raises(RemoteFailure, match=r"n1 .*agent.py start.*no readable job.json"):
        await agent_on(node).call("start")


async def test_an_exception_in_shipped_code_is_no_fault_of_the_node():
    crash = b"Traceback (most recent call last):\n  File x\nKeyError: 'variants'\n"
    with pytest.raises(AgentCrashed, match="KeyError: 'variants'") as caught:
        await agent_on(Said(Completed(1, b"", crash))).call("provision")
    assert faults_of(caught.value) == ()
    away = Said(Completed(255, b"", b"Input/output error"))
    with pytest.raises(RemoteFailure) as broken:
        await agent_on(away).call("provision")
    assert [fault.node for fault in faults_of(broken.value)] == ["n1"]


async def test_no_answer_at_all_shows_what_was_said():
    node = Said(Completed(137, b"", b"Killed"))
    with pytest.raises(RemoteFailure, match=r"exit 137.*Killed"):
        await agent_on(node).call("start")


async def test_an_interpreter_that_has_gone_since_the_code_was_shipped_is_named():
    node = Said(Completed(127, b"", b"python3: command not found"))
    with pytest.raises(PythonUnusable, match=r"command not found.*environments\.python"):
        await agent_on(node).call("start")


def test_a_full_disk_is_recognised_by_what_a_command_said():
    error = remote_failure(Said(), "unpack", b"OSError: No space left on device")
    assert type(error).__name__ == "DiskFull"


def test_what_was_heard_since_the_controller_woke_is_not_dated_into_the_future():
    now = [100.0]
    client = NodeClient(JOB, JOB.nodes[0], Said(), lambda: now[0])
    now[0] = 700.0
    client.discount_pause(500.0)
    assert client.view.answered_s == 600.0, "its silence before still counts"
    client.discount_pause(500.0)
    assert client.view.answered_s == 700.0


def test_words_of_a_command_are_only_text(tmp_path):
    trap = tmp_path / "trap"
    words = [
        f"$(touch {trap})",
        f"`touch {trap}`",
        f"x; touch {trap}; :",
        "'\\''",
        "$HOME ~ *",
        "a\nb",
    ]
    line = " ".join(map(quote, ["printf", "%s\\0", *words]))
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == words
    assert not trap.exists()
