"""Logging in to a node: host keys are always checked, and a refusal says what to do."""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from nightbench.gang.errors import GangError, NodeError, NodeUnreachable
from nightbench.gang.refusals import explain

asyncssh.set_log_level("WARNING")
CONNECT_TIMEOUT_S = 15.0
KEEPALIVE_S = 10

THROTTLED_S = 30.0
"""How long a server that closes connections before the login is asked again (MaxStartups)."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SshTarget:
    """How a node, or a jump host on the way to one, is reached."""

    node: str
    """Its name in the cluster."""
    host: str
    known_hosts: str | bytes
    """Path of a known_hosts file, or the content of one. There is no way to switch this off."""
    port: int = 22
    user: str | None = None
    """The user of this process when None."""
    client_keys: tuple[str, ...] = ()
    """Each the path of a private key or its text; the user's agent and default keys if empty."""
    passphrase: str | None = field(default=None, repr=False)
    """Of the client keys."""
    password: str | None = field(default=None, repr=False)
    certificates: tuple[str, ...] = ()
    """OpenSSH user certificates, each a path or a text; `KEY-cert.pub` beside a key by itself."""
    agent: str | None = None
    """Socket of the SSH agent whose keys are offered too; "" means SSH_AUTH_SOCK of this process,
    None none but where there are no client keys."""
    jump: tuple[SshTarget, ...] = ()
    """Hosts that the connection passes through, the first first."""

    def __repr__(self) -> str:
        keys = ["<text>" if "PRIVATE KEY" in key else key for key in self.client_keys]
        via = "".join(f", via {hop.address}" for hop in self.jump)
        return f"SshTarget({self.node}, {self.user or ''}@{self.address}, keys={keys}{via})"

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def login(self) -> str:
        """The user name that is presented."""
        return self.user or getpass.getuser()


class _Client(asyncssh.SSHClient):
    """Remembers what the server said before the login; never accepts an unknown host key."""

    def __init__(self) -> None:
        self.rejected: asyncssh.SSHKey | None = None
        self.banner = ""
        self.authenticating = False
        self.below: asyncssh.SSHClientConnection | None = None
        """Connection to the jump host, once this one has become its only use."""

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        self.rejected = key
        return False

    def auth_banner_received(self, msg: str, lang: str) -> None:
        self.banner = (self.banner + msg)[-2000:]

    def begin_auth(self, username: str) -> None:
        self.authenticating = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The jump host's connection has served."""
        if self.below is None:
            return
        if exc is None:
            self.below.close()
        else:
            self.below.abort()


async def connect(target: SshTarget) -> asyncssh.SSHClientConnection:
    """Log in, through the target's jump hosts; they are closed with the connection.

    Raises:
        NodeUnreachable: refused, timed out, no such host, closed before the login.
        HostKeyRejected: the host's key is unknown or has changed.
        LoginRefused: the user or the key is not accepted.
        NotSsh: what answers there speaks no SSH.
        GangError: a key, an agent or the known_hosts file cannot be read.
    """
    below: asyncssh.SSHClientConnection | None = None
    for hop in (*target.jump, target):
        try:
            below = await _persist(hop, below, target)
        except NodeError as error:
            if hop is target:
                raise
            message = f"on the way to it, jump host {hop.address}: {error.message}"
            raise type(error)(target.node, target.address, message) from error
    assert below is not None
    return below


async def _persist(
    target: SshTarget, below: asyncssh.SSHClientConnection | None, whole: SshTarget
) -> asyncssh.SSHClientConnection:
    """Log in to one host; again, after a pause, where it closed before it listened to us.

    A busy sshd drops connections at random before the login (MaxStartups 10:30:100).
    """
    clock = asyncio.get_running_loop().time
    give_up_s, pause_s, attempt = clock() + THROTTLED_S, FIRST_PAUSE_S, 1
    while True:
        try:
            return await _login(target, below)
        except _ClosedEarly as closed:
            wait_s = random.uniform(pause_s / 2, pause_s)
            if below is not None and below.is_closed():
                raise NodeUnreachable(
                    target.node, target.address, "the jump host's connection was lost"
                ) from closed
            if clock() + wait_s > give_up_s:
                if below is not None:
                    below.abort()
                raise NodeUnreachable(
                    target.node,
                    target.address,
                    f"closed the connection before the login, {attempt} times in "
                    f"{THROTTLED_S:.0f} s ({closed}). Is it throttled (MaxStartups, "
                    "PerSourcePenalties, fail2ban), or is what answers there no SSH server?",
                ) from closed
            log.warning(
                "node %s (%s): closed the connection before the login (attempt %d), MaxStartups "
                "perhaps: again in %.1f s",
                whole.node,
                target.address,
                attempt,
                wait_s,
            )
            await asyncio.sleep(wait_s)
            pause_s, attempt = min(pause_s * 2, LONGEST_PAUSE_S), attempt + 1


class _ClosedEarly(Exception):
    """The server closed before it began to look at the login."""


async def _login(
    target: SshTarget, below: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    """One attempt at one host, through the connection to the one before it."""
    client = _Client()
    known = False
    try:
        options = await _options(target)
        known = _known(target)
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            connection = await asyncssh.connect(
                target.host,
                target.port,
                tunnel=below,
                username=target.login,
                known_hosts=target.known_hosts,
                config=None,
                client_factory=lambda: client,
                login_timeout=CONNECT_TIMEOUT_S,
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=3,
                **options,
            )
    except (asyncssh.ConnectionLost, ConnectionResetError) as error:
        if not client.authenticating and (below is None or not below.is_closed()):
            raise _ClosedEarly(str(error)) from error
        _abandon(below)
        raise explain(target, error, client.rejected, False, client.banner) from error
    except (asyncssh.Error, OSError) as error:
        _abandon(below)
        raise explain(target, error, client.rejected, known, client.banner) from error
    except ValueError as error:
        _abandon(below)
        raise GangError(
            f"node {target.node}: no login to {target.address[:300]!r} as {target.login[:100]!r}: "
            f"{error}. Check host and user in the cluster's YAML and the connection"
        ) from error
    except BaseException:
        _abandon(below)
        raise
    client.below = below
    return connection


def _abandon(below: asyncssh.SSHClientConnection | None) -> None:
    if below is not None:
        below.abort()


def _known(target: SshTarget) -> bool:
    """Whether known_hosts has anything to say about the host.

    Raises:
        GangError: it cannot be read.
    """
    port = target.port if target.port != 22 else None
    try:
        found = asyncssh.match_known_hosts(target.known_hosts, target.host, "", port)
    except (OSError, ValueError) as error:
        raise GangError(
            f"node {target.node}: the known_hosts of {target.address} cannot be read: {error}. "
            "Give known_hosts in the cluster's YAML, or host_key in the connection's extra"
        ) from error
    return bool(found[0] or found[1])


async def _options(target: SshTarget) -> dict[str, Any]:
    """Keys, certificates, agent and password, as asyncssh takes them."""
    options: dict[str, Any] = {}
    if target.client_keys:
        options["client_keys"] = load_keys(target)
        options["agent_path"] = None
    certificates = load_certificates(target)
    if certificates:
        options["client_certs"] = certificates
    if target.agent is not None:
        options["agent_path"] = await _agent_socket(target)
    if target.password is not None:
        options["password"] = target.password
    return options


async def _agent_socket(target: SshTarget) -> str:
    """The agent's socket, after a look that somebody with a key answers there."""
    path = target.agent or os.environ.get("SSH_AUTH_SOCK", "")
    where = f"node {target.node} ({target.address}): the connection asks for an SSH agent, but"
    if not path:
        raise GangError(
            f"{where} SSH_AUTH_SOCK is not set in this process. Start the worker and the "
            "triggerer with it, or name the socket: agent_socket in the connection's extra"
        )
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S), asyncssh.connect_agent(path) as agent:
            keys = await agent.get_keys()
    except (OSError, ValueError, asyncssh.Error) as error:
        raise GangError(f"{where} nobody answers at {path}: {error}. Is it running?") from error
    if not keys:
        raise GangError(f"{where} the one at {path} holds no key. Add one: ssh-add KEY")
    return path


def load_keys(target: SshTarget) -> Sequence[asyncssh.SSHKey]:
    """The client keys, read from their paths or texts.

    Raises:
        GangError: a key cannot be read; the message names its path, never its content.
    """
    keys = []
    for key in target.client_keys:
        name = "given as text" if "PRIVATE KEY" in key else key
        try:
            if "PRIVATE KEY" in key:
                keys.append(asyncssh.import_private_key(key, target.passphrase))
            else:
                keys.append(asyncssh.read_private_key(key, target.passphrase))
        except (OSError, ValueError) as error:
            raise GangError(
                f"node {target.node} ({target.address}): private key {name[:500]} cannot be used: "
                f"{error}. Check the path, its rights and the passphrase of the connection"
            ) from error
    return keys


def load_certificates(target: SshTarget) -> Sequence[asyncssh.SSHCertificate]:
    """The user certificates that are named, and those that lie beside the keys.

    Raises:
        GangError: one cannot be read.
    """
    beside = [f"{k}-cert.pub" for k in target.client_keys if "PRIVATE KEY" not in k]
    found = []
    for given in (*target.certificates, *(path for path in beside if Path(path).is_file())):
        text = "-cert-v01@openssh.com " in given
        try:
            if text:
                found.append(asyncssh.import_certificate(given))
            else:
                found.append(asyncssh.read_certificate(given))
        except (OSError, ValueError) as error:
            name = "given as text" if text else given[:500]
            raise GangError(
                f"node {target.node} ({target.address}): certificate {name} cannot be used: "
                f"{error}. Look at it: ssh-keygen -L -f FILE"
            ) from error
    return found
