"""Nodes for tests: real OpenSSH servers on loopback, and the product's own local cluster.

Both give the same `SshNodes`, so that one test runs against either.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests import programs

from nightbench.core.model import EnvironmentPolicy, Node
from nightbench.gang import SshTarget
from nightbench.local.local_cluster import address_of

SSHD = programs.find("sshd")
WRAPPER = "libnss_wrapper.so"
REPO = Path(__file__).resolve().parents[2]

CONFIG = """
ListenAddress {host}:{port}
HostKey {folder}/host_{name}
PidFile {folder}/{name}.pid
AuthorizedKeysFile {folder}/authorized_keys
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
MaxStartups 100
MaxSessions 64
"""


@dataclass(frozen=True)
class SshNodes:
    """Nodes that answer on loopback."""

    kind: str
    nodes: tuple[Node, ...]
    targets: dict[str, SshTarget]
    folder: Path
    environments: EnvironmentPolicy
    servers: list[subprocess.Popen[bytes]]
    """All are ended at the end; who starts one again puts it in the place of the old one."""

    @property
    def port(self) -> int:
        """The common port."""
        return next(iter(self.targets.values())).port

    def with_target(self, node: str, **changes: Any) -> dict[str, SshTarget]:
        """The targets with one of them changed."""
        return {**self.targets, node: replace(self.targets[node], **changes)}


def free_port(hosts: list[str]) -> int:
    """A port that is free on all the given addresses."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind((hosts[0], 0))
            port: int = first.getsockname()[1]
            try:
                for host in hosts[1:]:
                    stack.enter_context(socket.socket()).bind((host, port))
            except OSError:
                continue
            return port


def with_plugins() -> dict[str, str]:
    """The environment of a Python process that finds the product's code."""
    path = [str(REPO / "plugins"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in path if p)}


def wait_for_ssh(host: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a server's banner; fail with its log where it ends first."""
    for _ in range(200):
        if process.poll() is not None:
            pytest.fail(f"{process.args!r} ended: {log.read_text()}")
        with contextlib.suppress(OSError), socket.create_connection((host, port), 1) as link:
            if link.recv(4).startswith(b"SSH"):
                return
        time.sleep(0.05)
    pytest.fail(f"no SSH server on {host}:{port}: {log.read_text()}")


def sshd_words(folder: Path, passwd: str = "") -> list[str]:
    """The words that run sshd, with the users of a passwd file of its own where one is given.

    The library nss_wrapper shows it that file: nothing of the machine is changed, and it needs no
    root. As root, sshd wants a user and a folder that its package makes when it is installed.
    """
    if SSHD is None:
        pytest.skip(programs.missing("sshd"))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        users = Path("/etc/passwd").read_text()
        if not any(line.startswith("sshd:") for line in users.splitlines()):
            passwd = f"{passwd or users}sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    if not passwd:
        return [SSHD]
    wrapper = programs.find(WRAPPER)
    if wrapper is None:
        pytest.skip(programs.missing(WRAPPER))
    (folder / "passwd").write_text(passwd, errors="surrogateescape")
    own = f"NSS_WRAPPER_PASSWD={folder / 'passwd'}", "NSS_WRAPPER_GROUP=/etc/group"
    return ["env", f"LD_PRELOAD={wrapper}", *own, SSHD]


def end(process: subprocess.Popen[bytes]) -> None:
    """End one server."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def nodes_of_both_kinds(*marks: pytest.MarkDecorator) -> Callable[..., Iterator[SshNodes]]:
    """A fixture: the nodes of a file, of the local cluster and, with these marks, of OpenSSH."""
    openssh = pytest.param("openssh", marks=[pytest.mark.openssh, *marks])

    @pytest.fixture(scope="module", params=["local", openssh])
    def nodes(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[SshNodes]:
        start = local_nodes if request.param == "local" else openssh_nodes
        with start(tmp_path_factory.mktemp(request.param)) as found:
            yield found

    return nodes


@contextlib.contextmanager
def openssh_nodes(folder: Path, count: int = 2, more: str = "") -> Iterator[SshNodes]:
    """OpenSSH servers on 127.0.0.2, 127.0.0.3, ...; skips where there is no sshd.

    `more` are lines of sshd_config.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sshd = sshd_words(folder)
    hosts = [f"127.0.0.{i + 2}" for i in range(count)]
    port = free_port(hosts)
    keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f"]
    subprocess.run([*keygen, str(folder / "client")], check=True)
    # No forwarding and no terminal: docs/security.md says that nodes need neither.
    public_key = (folder / "client.pub").read_text()
    (folder / "authorized_keys").write_text(f"restrict {public_key}")
    servers, known = [], []
    try:
        for number, host in enumerate(hosts, 1):
            name = f"n{number}"
            subprocess.run([*keygen, str(folder / f"host_{name}")], check=True)
            config = folder / f"{name}.conf"
            text = CONFIG.format(host=host, port=port, folder=folder, name=name)
            config.write_text(text + more)
            log = folder / f"{name}.log"
            servers.append(subprocess.Popen([*sshd, "-D", "-f", str(config), "-E", str(log)]))
            log.touch()
            wait_for_ssh(host, port, servers[-1], log)
            public = (folder / f"host_{name}.pub").read_text().split()
            known.append(f"[{host}]:{port} {public[0]} {public[1]}\n")
        (folder / "known_hosts").write_text("".join(known))
        yield _nodes("openssh", folder, hosts, port, folder, folder / "client", servers)
    finally:
        for server in servers:
            end(server)


@contextlib.contextmanager
def local_nodes(folder: Path, count: int = 2, *options: str) -> Iterator[SshNodes]:
    """The product's local cluster, with further options of its command."""
    folder.mkdir(parents=True, exist_ok=True)
    hosts = [address_of(i + 1) for i in range(count)]
    port = free_port(hosts)
    log = folder / "cluster.log"
    words = ["--home", str(folder), "--nodes", str(count), "--port", str(port), *options]
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "nightbench.local.local_cluster", *words],
            stdout=out,
            stderr=out,
            env=with_plugins(),
        )
    servers = [server]
    try:
        wait_for_ssh(hosts[-1], port, server, log)
        while "ready" not in log.read_text():
            time.sleep(0.05)
        keys = folder / "cluster"
        yield _nodes("local", folder, hosts, port, keys, keys / "id_ed25519", servers)
    finally:
        for server in servers:
            end(server)


def _nodes(
    kind: str,
    folder: Path,
    hosts: list[str],
    port: int,
    keys: Path,
    key: Path,
    servers: list[subprocess.Popen[bytes]],
) -> SshNodes:
    names = [f"n{i}" for i in range(1, len(hosts) + 1)]
    return SshNodes(
        kind=kind,
        nodes=tuple(
            Node(name=name, host=host, ssh_conn_id="test", port=port)
            for name, host in zip(names, hosts, strict=True)
        ),
        targets={
            name: SshTarget(
                node=name,
                host=host,
                port=port,
                user=getpass.getuser(),
                known_hosts=str(keys / "known_hosts"),
                client_keys=(str(key),),
            )
            for name, host in zip(names, hosts, strict=True)
        },
        folder=folder,
        environments=EnvironmentPolicy(
            root=str(folder / "node") if kind == "openssh" else "~/.nightbench-node",
            python=sys.executable,
            lock_dir=str(folder / "locks"),
        ),
        servers=servers,
    )
