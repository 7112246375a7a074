"""Connections that gangs share, over the local cluster and over OpenSSH."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.openssh import nodes_of_both_kinds

from nightbench.gang import NodeUnreachable, RemoteFailure
from nightbench.gang.transport import shared_transport

AGENT = str(Path(__file__).resolve().parents[2] / "benchmarks" / "agent.py")


nodes = nodes_of_both_kinds()


def look(folder: Path, **more: Any) -> dict[str, Any]:
    (folder / "control").mkdir(exist_ok=True)
    return {"jobdir": str(folder), "repeat": None, "epoch": 1, "lease": None, **more}


async def test_all_users_share_one_connection_until_the_last_has_closed_it(nodes, tmp_path):
    first, second = shared_transport(nodes.targets["n1"]), shared_transport(nodes.targets["n1"])
    assert first is second
    assert shared_transport(nodes.targets["n2"]) is not first
    await first.home()
    connection = first._connection
    await first.close()
    assert not connection.is_closed()
    assert await second.follow(sys.executable, AGENT, look(tmp_path))
    await second.close()
    assert connection.is_closed()
    third = shared_transport(nodes.targets["n1"])
    assert third is not first
    await third.close()


async def test_more_commands_than_sessions_wait_for_each_other(nodes):
    """OpenSSH refuses the eleventh session of a connection (MaxSessions)."""
    transport = shared_transport(nodes.targets["n1"])
    await transport.exists("/")
    done = await asyncio.gather(*(transport.run(["echo", str(i)]) for i in range(25)))
    assert [int(d.stdout) for d in done] == list(range(25))
    await transport.close()


async def test_a_command_given_up_while_it_starts_keeps_no_session(nodes):
    """A server allows few over one connection: a handful that stay open would shut us out."""
    transport = shared_transport(nodes.targets["n1"])
    await transport.exists("/")
    channels = transport._connection._channels
    before = len(channels)
    for ticks in range(1, 7):
        starting = asyncio.create_task(transport.start(["cat"]))
        for _ in range(ticks):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    async with asyncio.timeout(20):
        while len(channels) > before:
            await asyncio.sleep(0.05)
    await transport.close()


async def test_a_conversation_comes_back_after_its_connection_was_cut(nodes, tmp_path):
    transport = shared_transport(nodes.targets["n1"])
    seen = await transport.follow(sys.executable, AGENT, look(tmp_path))
    waiting = asyncio.create_task(
        transport.follow(sys.executable, AGENT, look(tmp_path, seen=seen["digest"], wait_s=60))
    )
    await asyncio.sleep(0.5)
    transport._connection.abort()
    with pytest.raises(NodeUnreachable):
        await waiting
    assert await transport.follow(sys.executable, AGENT, look(tmp_path)) | {"id": 0} == seen | {
        "id": 0
    }
    await transport.close()


async def test_a_conversation_that_ends_by_itself_says_why(nodes, tmp_path):
    broken = tmp_path / "agent.py"
    broken.write_text("raise SystemExit('no room for me')\n")
    transport = shared_transport(nodes.targets["n1"])
    with pytest.raises(RemoteFailure, match="no room for me"):
        await transport.follow(sys.executable, str(broken), look(tmp_path))
    # The connection is not to blame: others use it.
    assert not transport._connection.is_closed()
    await transport.close()


async def test_who_waits_for_a_dead_node_hears_of_it_once(nodes):
    """Ten gangs on a node that is away do not wait one after another for ten attempts."""
    away = nodes.with_target("n1", port=1)["n1"]
    users = [shared_transport(away) for _ in range(10)]
    began_s = asyncio.get_running_loop().time()
    answers = await asyncio.gather(*(u.exists("/") for u in users), return_exceptions=True)
    assert all(isinstance(answer, NodeUnreachable) for answer in answers)
    assert len({id(answer) for answer in answers}) == 1
    assert asyncio.get_running_loop().time() - began_s < 60
    for user in users:
        await user.close()
