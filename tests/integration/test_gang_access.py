"""Reaching nodes as sites have them: jump hosts, certificates, agents, busy and noisy servers."""

from __future__ import annotations

import asyncio
import dataclasses
import getpass
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodeside.root_folder import why_not_usable
from tests.integration.access_servers import DEFAULTS, Server, keygen, server

from nightbench.gang import (
    GangError,
    HostKeyRejected,
    LoginRefused,
    NodeUnreachable,
    SshTransport,
)
from nightbench.gang.errors import DamagedAnswer, NodeError

pytestmark = pytest.mark.openssh


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    base = tmp_path_factory.mktemp("servers")
    closed = DEFAULTS + "AllowTcpForwarding no\n"
    with (
        server(base / "gate", "127.0.0.2") as gate,
        server(base / "inner", "127.0.0.3") as inner,
        server(base / "node", "127.0.0.4") as node,
        server(base / "closed", "127.0.0.5", closed) as closed_gate,
    ):
        yield [gate, inner, node, closed_gate]


async def said(target, words=("echo", "hello")) -> str:
    transport = SshTransport(target)
    try:
        return (await transport.run(list(words), timeout_s=60)).stdout.decode()
    finally:
        await transport.close()


async def refusal(target, kind=NodeError) -> str:
    with pytest.raises(kind) as caught:
        await said(target)
    return str(caught.value)


def sessions_of(port: int) -> int:
    """Established connections to a server's port, by the kernel."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    wanted = f":{port:04X}"
    return sum(1 for at in map(str.split, lines) if at[2].endswith(wanted) and at[3] == "01")


# --- jump hosts ---------------------------------------------------------------------------


async def test_through_two_jump_hosts_each_with_its_own_key(servers):
    gate, inner, node, _ = servers
    target = node.target(jump=(gate.target(), inner.target()))
    script = 'echo "$SSH_CONNECTION"'
    transport = SshTransport(target)
    came = (await transport.run(["sh", "-c", script])).stdout.decode().split()
    assert (came[2], came[3]) == (node.host, str(node.port))
    assert sessions_of(gate.port) == 1
    await transport.write_atomic(f"{node.folder}/by-jump", b"x" * 100_000)
    assert (node.folder / "by-jump").read_bytes() == b"x" * 100_000
    await transport.close()
    for _ in range(100):
        if sessions_of(gate.port) + sessions_of(inner.port) == 0:
            break
        await asyncio.sleep(0.05)
    assert sessions_of(gate.port) + sessions_of(inner.port) == 0, "jumps end with the connection"


async def test_the_key_of_a_jump_host_is_checked_too(servers):
    gate, _, node, _ = servers
    wrong = gate.target(known_hosts=node.known.replace(node.address, gate.address).encode())
    message = await refusal(node.target(jump=(wrong,)), HostKeyRejected)
    assert message.startswith(f"node n1 ({node.host}:{node.port}): jump host ")
    assert f"{gate.host}:{gate.port} before it: host key has CHANGED" in message


async def test_a_key_that_the_jump_host_refuses(servers):
    gate, _, node, _ = servers
    wrong = gate.target(client_keys=(str(node.folder / "client"),))
    message = await refusal(node.target(jump=(wrong,)), LoginRefused)
    assert f"jump host {gate.host}:{gate.port} before it: login refused" in message


async def test_a_jump_host_that_does_not_pass_on(servers):
    _, _, node, closed = servers
    message = await refusal(node.target(jump=(closed.target(),)), NodeUnreachable)
    assert "AllowTcpForwarding" in message


async def test_a_node_that_the_jump_host_cannot_reach(servers):
    gate, _, node, _ = servers
    gone = dataclasses.replace(node.target(), port=1, jump=(gate.target(),))
    message = await refusal(gone, NodeUnreachable)
    assert "jump host" in message
    assert "cannot connect" in message


async def test_a_connection_through_a_jump_comes_back(servers):
    gate, _, node, _ = servers
    transport = SshTransport(node.target(jump=(gate.target(),)))
    await transport.home()
    transport._connection.abort()
    with pytest.raises(NodeUnreachable):
        await transport.run(["sleep", "5"], timeout_s=0.2)
    assert (await transport.run(["echo", "back"])).stdout == b"back\n"
    await transport.close()


# --- keys ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keygen(tmp_path_factory.mktemp("authority") / "ca")


def sign(authority: Path, key: Path, *words: str) -> Path:
    call = ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", *words, f"{key}.pub"]
    subprocess.run(call, check=True)
    return Path(f"{key}-cert.pub")


@pytest.fixture(scope="module")
def by_authority(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("signed")
    more = DEFAULTS + f"TrustedUserCAKeys {authority}.pub\nHostCertificate {base}/n/host-cert.pub\n"
    with server(base / "n", "127.0.0.2", more) as started:
        sign(authority, started.folder / "host", "-h", "-n", started.host, "-V", "+1d")
        (started.folder / "authorized_keys").write_text("")
        started.process.terminate()
        started.process.wait()
        call = [*started.process.args]
        again = subprocess.Popen(call)
        from tests.integration.openssh import end, wait_for_ssh

        wait_for_ssh(started.host, started.port, again, started.folder / "log")
        yield started
        end(again)


async def test_a_user_certificate_beside_its_key(by_authority, authority, tmp_path):
    key = keygen(tmp_path / "id")
    assert "login refused" in await refusal(
        by_authority.target(client_keys=(str(key),)), LoginRefused
    )
    sign(authority, key, "-n", getpass.getuser(), "-V", "+1d")
    assert await said(by_authority.target(client_keys=(str(key),))) == "hello\n"


async def test_a_user_certificate_that_is_named(by_authority, authority, tmp_path):
    key = keygen(tmp_path / "id")
    moved = sign(authority, key, "-n", getpass.getuser(), "-V", "+1d").rename(tmp_path / "cert")
    target = by_authority.target(client_keys=(key.read_text(),), certificates=(str(moved),))
    assert await said(target) == "hello\n"
    as_text = dataclasses.replace(target, certificates=(moved.read_text(),))
    assert await said(as_text) == "hello\n"
    gone = dataclasses.replace(target, certificates=(str(tmp_path / "gone"),))
    assert f"certificate {tmp_path}/gone cannot be used" in await refusal(gone, GangError)


async def test_a_user_certificate_for_somebody_else(by_authority, authority, tmp_path):
    key = keygen(tmp_path / "id")
    cert = sign(authority, key, "-n", "somebody", "-V", "+1d")
    target = by_authority.target(client_keys=(str(key),), certificates=(str(cert),))
    message = await refusal(target, LoginRefused)
    assert "ssh-keygen -L" in message


async def test_a_host_certificate(by_authority, authority, tmp_path):
    key = keygen(tmp_path / "id")
    sign(authority, key, "-n", getpass.getuser(), "-V", "+1d")
    public = Path(f"{authority}.pub").read_text()
    known = f"@cert-authority {by_authority.address} {public}".encode()
    target = by_authority.target(client_keys=(str(key),), known_hosts=known)
    assert await said(target) == "hello\n"
    other = Path(f"{keygen(tmp_path / 'other')}.pub").read_text()
    stranger = f"@cert-authority {by_authority.address} {other}".encode()
    message = await refusal(dataclasses.replace(target, known_hosts=stranger), HostKeyRejected)
    assert "host" in message


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    path = str(tmp_path / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    with socket.socket(socket.AF_UNIX) as link:
        # Its file is there a moment before it listens.
        while link.connect_ex(path):
            assert process.poll() is None
            time.sleep(0.05)
    yield path, {**os.environ, "SSH_AUTH_SOCK": path}
    process.terminate()
    process.wait()


async def test_an_agent(servers, agent, monkeypatch):
    gate, _, node, _ = servers
    path, environment = agent
    target = node.target(client_keys=(), agent=path)
    assert "has no key" in await refusal(target, GangError)
    key = str(node.folder / "client")
    subprocess.run(["ssh-add", "-q", key], env=environment, check=True)
    assert await said(target) == "hello\n"
    monkeypatch.setenv("SSH_AUTH_SOCK", path)
    by_name = dataclasses.replace(target, agent="", jump=(gate.target(),))
    assert await said(by_name) == "hello\n"
    monkeypatch.delenv("SSH_AUTH_SOCK")
    assert "SSH_AUTH_SOCK is not set" in await refusal(by_name, GangError)
    gone = dataclasses.replace(target, agent=f"{path}-gone")
    assert "no agent answers at" in await refusal(gone, GangError)


async def test_a_server_that_requires_a_password_as_well_is_explained(tmp_path):
    both = "AuthenticationMethods publickey,password\nPasswordAuthentication yes\n"
    more = f"{DEFAULTS}Match all\n{both}"
    with server(tmp_path / "both", "127.0.0.6", more) as both:
        said_by = await refusal(both.target(), LoginRefused)
    assert "The server also asks for a password (AuthenticationMethods" in said_by


# --- busy servers -------------------------------------------------------------------------


async def test_a_throttled_server_is_asked_again(tmp_path, caplog):
    more = "MaxStartups 2:100:2\n"
    with server(tmp_path / "busy", "127.0.0.6", more) as busy:
        transports = [SshTransport(busy.target(f"n{i}")) for i in range(12)]
        done = await asyncio.gather(
            *(t.run(["echo", str(i)]) for i, t in enumerate(transports)), return_exceptions=True
        )
        await asyncio.gather(*(t.close() for t in transports))
        assert [d.stdout for d in done] == [f"{i}\n".encode() for i in range(12)]
        # The server's own log names MaxStartups up to OpenSSH 9.7 alone.
        closed = [each for each in caplog.messages if "closed the connection before" in each]
        assert closed, "the server has not throttled: this shows nothing"


async def test_a_server_that_goes_on_closing_is_given_up(monkeypatch):
    monkeypatch.setattr("nightbench.gang.ssh_login.THROTTLED_S", 1.5)
    asked = []

    async def close(reader, writer):
        asked.append(1)
        writer.write(b"Exceeded MaxStartups\r\n")
        writer.close()

    closing = await asyncio.start_server(close, "127.0.0.1", 0)
    async with closing:
        port = closing.sockets[0].getsockname()[1]
        from nightbench.gang import SshTarget

        message = await refusal(SshTarget("n1", "127.0.0.1", b"", port), NodeUnreachable)
    assert len(asked) > 1
    assert f"before the login, {len(asked)} times" in message
    assert "MaxStartups" in message


@pytest.mark.parametrize("sessions", [1, 2])
async def test_a_server_that_allows_few_sessions_gets_further_connections(tmp_path, sessions):
    more = f"MaxStartups 100\nMaxSessions {sessions}\n"
    with server(tmp_path / "few", "127.0.0.6", more) as few:
        transport = SshTransport(few.target())
        await transport.exists("/tmp")
        done = await asyncio.gather(*(transport.run(["sleep", "0.2"]) for _ in range(4)))
        assert [d.exit for d in done] == [0] * 4
        async with transport.converse(["cat"]) as conversation:
            assert await conversation.ask("a") == "a"
            assert await transport.exists("/tmp"), "files and a conversation at the same time"
        opened = [transport._connection, *transport._more]
        await transport.close()
        assert all(connection.is_closed() for connection in opened)


async def test_a_server_that_allows_no_session_is_named(tmp_path):
    more = "MaxStartups 100\nMaxSessions 0\n"
    with server(tmp_path / "none", "127.0.0.6", more) as none:
        transport = SshTransport(none.target())
        for _ in range(3):
            with pytest.raises(NodeUnreachable, match="MaxSessions"):
                await transport.run(["true"])
        assert transport._more == [], "connections without a session are closed"
        await transport.close()


async def test_the_end_of_the_file_program_does_not_end_a_command(tmp_path):
    with server(tmp_path / "one", "127.0.0.6") as one:
        transport = SshTransport(one.target())
        pid = int((await transport.read("/proc/self/stat") or b"").split()[0])
        running = asyncio.create_task(transport.run(["sleep", "2"]))
        await asyncio.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(NodeUnreachable, match=r"could not look at /tmp: .* \(exit -9\)"):
            await transport.exists("/tmp")
        assert await transport.exists("/tmp")
        assert (await running).exit == 0
        await transport.close()


async def test_what_a_python_prints_before_its_answers_is_skipped(tmp_path):
    with server(tmp_path / "noisy", "127.0.0.6") as noisy:
        transport = SshTransport(noisy.target())
        script = 'echo "WARNING: use module load"; while read x; do echo "{\\"t\\": 1}"; done'
        async with transport.converse(["sh", "-c", script]) as conversation:
            assert await conversation.ask_document("clock", "") == {"t": 1}
            assert await conversation.ask_document("clock", "") == {"t": 1}
        async with transport.converse(["yes", "no answer"]) as conversation:
            with pytest.raises(DamagedAnswer, match=r"`clock`: expected .* found b'no answer'"):
                await conversation.ask_document("clock", "")
        await transport.close()


async def test_a_banner_in_another_encoding_is_no_reason_to_refuse(tmp_path):
    banner = tmp_path / "banner"
    banner.write_bytes(b"Zugriff nur f\xfcr Mitarbeiter\n")
    more = f"Banner {banner}\n"
    with server(tmp_path / "latin", "127.0.0.6", more) as latin:
        transport = SshTransport(latin.target())
        assert (await transport.run(["echo", "in"])).stdout == b"in\n"
        await transport.close()


async def test_a_folder_that_cannot_be_written_is_named(servers, tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs root: it mounts a file system")
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(home)], check=True)
    transport = SshTransport(servers[2].target())
    try:
        for operation in (
            transport.make_folders(f"{home}/a b/code"),
            transport.write_atomic(f"{home}/file", b"x"),
            transport.mkdir(f"{home}/x"),
        ):
            with pytest.raises(NodeError) as caught:
                await operation
            assert f"{home} cannot be written" in str(caught.value)
            assert "environments.root" in str(caught.value)
    finally:
        await transport.close()
        subprocess.run(["umount", str(home)], check=True)


async def test_a_file_system_without_programs_is_named(tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs root: it mounts a file system")
    home = tmp_path / "home"
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(home)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs a machine that allows root to mount")
    try:
        assert "mounted noexec" in why_not_usable(str(home))
        assert why_not_usable(str(tmp_path)) is None
    finally:
        subprocess.run(["umount", str(home)], check=True)
