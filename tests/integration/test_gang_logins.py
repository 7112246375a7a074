"""What a user reads when a node cannot be reached or a login is refused."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
import socket
import subprocess
from pathlib import Path

import pytest
from tests.integration.openssh import free_port, nodes_of_both_kinds

from nightbench.gang import (
    DiskFull,
    GangError,
    HostKeyRejected,
    LoginRefused,
    NodeUnreachable,
    NotSsh,
    RemoteFailure,
    SshTransport,
)
from nightbench.gang.errors import PythonUnusable
from nightbench.gang.node_files import require_python

nodes = nodes_of_both_kinds()


async def error_of(target, expected):
    transport = SshTransport(target)
    with pytest.raises(expected) as caught:
        await transport.home()
    await transport.close()
    return str(caught.value)


async def test_a_command_gets_its_whole_input(nodes):
    transport = SshTransport(nodes.targets["n1"])
    for _ in range(10):
        content = os.urandom(2_000_000)
        done = await transport.run(["sha256sum"], stdin=content, timeout_s=60)
        assert done.stdout.decode().split()[0] == hashlib.sha256(content).hexdigest()
    await transport.close()


async def test_a_changed_host_key_is_refused(nodes):
    host, port = nodes.targets["n1"].host, nodes.port
    known = Path(str(nodes.targets["n1"].known_hosts)).read_text().splitlines()
    other = known[1].split(" ", 1)[1]
    target = dataclasses.replace(
        nodes.targets["n1"], known_hosts=f"[{host}]:{port} {other}\n".encode()
    )
    message = await error_of(target, HostKeyRejected)
    assert "host key has CHANGED" in message
    assert "SHA256:" in message
    assert f"n1 ({host}:{port})" in message
    assert f"ssh-keygen -R '[{host}]:{port}'" in message


async def test_an_unknown_host_key_is_refused(nodes):
    target = dataclasses.replace(nodes.targets["n2"], known_hosts=b"")
    message = await error_of(target, HostKeyRejected)
    assert "host key is unknown" in message
    assert "ssh-keyscan" in message


async def test_a_refused_key(nodes, tmp_path):
    key = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    message = await error_of(
        dataclasses.replace(nodes.targets["n1"], client_keys=(key.read_text(),)), LoginRefused
    )
    assert "login refused" in message
    assert "authorized_keys" in message
    assert "PRIVATE KEY" not in message


async def test_a_key_given_as_text_with_a_passphrase(nodes, tmp_path):
    key = tmp_path / "copy"
    key.write_bytes(Path(nodes.targets["n1"].client_keys[0]).read_bytes())
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "open sesame", "-P", "", "-f", key], check=True)
    target = dataclasses.replace(
        nodes.targets["n1"], client_keys=(key.read_text(),), passphrase="open sesame"
    )
    assert "sesame" not in repr(target)
    assert "PRIVATE" not in repr(target)
    transport = SshTransport(target)
    assert (await transport.home()).startswith("/")
    await transport.close()
    message = await error_of(dataclasses.replace(target, passphrase="wrong"), GangError)
    assert "private key given as text cannot be used" in message
    assert "wrong" not in message


async def test_nothing_listens(nodes):
    port = free_port(["127.0.0.2"])
    message = await error_of(dataclasses.replace(nodes.targets["n1"], port=port), NodeUnreachable)
    assert f"n1 (127.0.0.2:{port}): connection refused" in message


async def test_no_such_host(nodes):
    target = dataclasses.replace(nodes.targets["n1"], host="no-such-host.invalid")
    assert "no such host" in await error_of(target, NodeUnreachable)


async def test_no_ssh_server_there(nodes, monkeypatch):
    monkeypatch.setattr("nightbench.gang.ssh_login.THROTTLED_S", 1.0)

    async def serve(reader, writer):
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n" * 40)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        target = dataclasses.replace(nodes.targets["n1"], host="127.0.0.1", port=port)
        message = await error_of(target, (NotSsh, NodeUnreachable))
    assert f"127.0.0.1:{port}" in message


async def test_a_server_that_says_nothing(nodes, monkeypatch):
    monkeypatch.setattr("nightbench.gang.ssh_login.CONNECT_TIMEOUT_S", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        target = dataclasses.replace(nodes.targets["n1"], host="127.0.0.1", port=port)
        message = await error_of(target, NodeUnreachable)
    assert "no answer within" in message


async def test_files_and_commands(nodes, tmp_path):
    transport = SshTransport(nodes.targets["n1"])
    base = str(tmp_path / "on the 'node'")
    assert await transport.read(f"{base}/absent") is None
    assert await transport.listdir(base) == []
    await transport.make_folders(f"{base}/a/b")
    assert await transport.mkdir(f"{base}/claim")
    assert not await transport.mkdir(f"{base}/claim")
    await transport.write_atomic(f"{base}/a/file", b"one")
    await transport.write_atomic(f"{base}/a/file", b"two\0\xff")
    assert await transport.read(f"{base}/a/file") == b"two\0\xff"
    assert await transport.listdir(f"{base}/a") == ["b", "file"]
    (tmp_path / "tool").write_bytes(b"x" * 3_000_000)
    await transport.put_file(tmp_path / "tool", f"{base}/tool", 0o755)
    assert os.access(f"{base}/tool", os.X_OK)
    assert not await transport.rename(f"{base}/claim", f"{base}/a")
    assert await transport.rename(f"{base}/claim", f"{base}/other")
    lines: list[str] = []
    done = await transport.run(
        ["sh", "-c", 'cat; echo "$1 $X" >&2; exit 3', "sh", "a b; 'c'"],
        stdin=b"in",
        env={"X": "$HOME"},
        on_stderr=lines.append,
    )
    assert (done.exit, done.stdout, lines) == (3, b"in", ["a b; 'c' $HOME"])
    assert (await transport.run(["sh", "-c", "kill -TERM $$"])).exit == 143
    with pytest.raises(RemoteFailure, match="could not write"):
        await transport.write_atomic(f"{base}/no/such/folder", b"")
    with pytest.raises(RemoteFailure, match="could not make"):
        await transport.mkdir(f"{base}/no/such/claim")
    await transport.close()


async def test_the_connection_comes_back_after_it_was_cut(nodes):
    transport = SshTransport(nodes.targets["n2"])
    await transport.home()
    connection = transport._connection
    connection.abort()
    with pytest.raises(NodeUnreachable, match="n2"):
        await transport.run(["sleep", "1"], timeout_s=0.1)
    assert (await transport.run(["echo", "back"])).stdout == b"back\n"
    await transport.close()


async def test_sixteen_connections_at_once(nodes):
    transports = [SshTransport(nodes.targets["n1"]) for _ in range(16)]
    done = await asyncio.gather(*(t.run(["echo", str(i)]) for i, t in enumerate(transports)))
    assert [int(d.stdout) for d in done] == list(range(16))
    await asyncio.gather(*(t.close() for t in transports))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
async def test_a_full_disk_is_named(nodes, tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs root: it mounts a file system")
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs a machine that allows root to mount")
    transport = SshTransport(nodes.targets["n1"])
    try:
        (tmp_path / "big").write_bytes(b"x" * 1_000_000)
        with pytest.raises(DiskFull, match=r"environments\.root"):
            await transport.put_file(tmp_path / "big", f"{small}/big")
    finally:
        await transport.close()
        subprocess.run(["umount", str(small)], check=True)


async def test_a_missing_interpreter_is_named(nodes):
    transport = SshTransport(nodes.targets["n1"])
    with pytest.raises(PythonUnusable, match=r"environments\.python") as caught:
        await require_python(transport, "python-that-is-not-there")
    assert "n1" in str(caught.value)
    await transport.close()


async def test_a_revoked_host_key_is_refused_and_named(nodes):
    """Also where an entry for the host on any port trusts it."""
    target = nodes.targets["n1"]
    given = target.known_hosts
    entry = given if isinstance(given, bytes) else Path(given).read_bytes()
    keys = [b" ".join(line.split()[1:3]) for line in entry.splitlines() if line.split()]
    name = target.known_hosts_name.encode()
    revoked = b"".join(b"@revoked %s %s\n" % (name, key) for key in keys)
    trusted = b"".join(b"%s %s\n" % (target.host.encode(), key) for key in keys)
    for text in (revoked, trusted + revoked):
        transport = SshTransport(dataclasses.replace(target, known_hosts=text))
        with pytest.raises(HostKeyRejected, match="REVOKED"):
            await transport.home()
        await transport.close()


DAMAGED_LINES = {
    "no entry": b"garbage\n{entry}",
    "another encoding": b"# M\xfcller\n{entry}",
    "a byte order mark": b"\xef\xbb\xbf{entry}",
    "a key that is none": b"other ssh-foo AAAA!\n{entry}",
    "cut off": b"{entry}\nother ssh-ed25",
}


@pytest.mark.parametrize("damage", DAMAGED_LINES)
async def test_a_damaged_line_of_known_hosts_costs_no_other_host(nodes, tmp_path, damage):
    target = nodes.targets["n1"]
    given = target.known_hosts
    entry = given if isinstance(given, bytes) else Path(given).read_bytes()
    path = tmp_path / "known_hosts"
    path.write_bytes(DAMAGED_LINES[damage].replace(b"{entry}", entry))
    transport = SshTransport(dataclasses.replace(target, known_hosts=str(path)))
    assert await transport.home()
    await transport.close()
