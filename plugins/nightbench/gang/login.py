"""Logging in to a node: host keys are always checked, and a refusal says what to do."""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncssh

from nightbench.errors import UserError
from nightbench.gang.errors import (
    GangError,
    HostKeyRejected,
    LoginRefused,
    NodeError,
    NodeUnreachable,
    NotSsh,
)

asyncssh.set_log_level("WARNING")
CONNECT_TIMEOUT_S = 15.0
KEEPALIVE_S = 10


@dataclass(frozen=True)
class SshTarget:
    """How a node is reached."""

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

    def __repr__(self) -> str:
        keys = ["<text>" if "PRIVATE KEY" in key else key for key in self.client_keys]
        return f"SshTarget({self.node}, {self.user or ''}@{self.address}, keys={keys})"

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def login(self) -> str:
        """The user name that is presented."""
        return self.user or getpass.getuser()


class _Client(asyncssh.SSHClient):
    """Remembers the key of a host that known_hosts does not vouch for; never accepts it."""

    def __init__(self) -> None:
        self.rejected: asyncssh.SSHKey | None = None

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        self.rejected = key
        return False


async def connect(target: SshTarget) -> asyncssh.SSHClientConnection:
    """Log in.

    Raises:
        NodeUnreachable: refused, timed out, no such host, closed before the login.
        HostKeyRejected: the host's key is unknown or has changed.
        LoginRefused: the user or the key is not accepted.
        NotSsh: what answers there speaks no SSH.
        GangError: a key or the known_hosts file cannot be read.
    """
    options: dict[str, Any] = {}
    if target.client_keys:
        options["client_keys"] = load_keys(target)
        options["agent_path"] = None
    if target.password is not None:
        options["password"] = target.password
    try:
        known = asyncssh.match_known_hosts(
            target.known_hosts, target.host, "", target.port if target.port != 22 else None
        )
    except (OSError, ValueError) as error:
        raise GangError(
            f"node {target.node}: the known_hosts of {target.address} cannot be read: {error}. "
            "Give known_hosts in the cluster's YAML, or host_key in the connection's extra"
        ) from error
    client = _Client()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await asyncssh.connect(
                target.host,
                target.port,
                username=target.login,
                known_hosts=target.known_hosts,
                config=None,
                client_factory=lambda: client,
                login_timeout=CONNECT_TIMEOUT_S,
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=3,
                **options,
            )
    except (asyncssh.Error, OSError) as error:
        raise _explain(target, error, client.rejected, bool(known[0] or known[1])) from error


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
        except (OSError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise GangError(
                f"node {target.node} ({target.address}): private key {name} cannot be used: "
                f"{error}. Check the path, its rights and the passphrase of the connection"
            ) from error
    return keys


def _explain(
    target: SshTarget, error: BaseException, rejected: asyncssh.SSHKey | None, known: bool
) -> UserError:
    """The error of a node for what asyncssh or the system said."""
    source = "known_hosts" if isinstance(target.known_hosts, bytes) else target.known_hosts

    def of(kind: type[NodeError], message: str) -> NodeError:
        return kind(target.node, target.address, message)

    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        found = rejected.get_fingerprint() if rejected is not None else "another key"
        name = target.host if target.port == 22 else f"[{target.host}]:{target.port}"
        if known:
            return of(
                HostKeyRejected,
                f"host key has CHANGED: found {found}, {source} holds another one. Somebody may "
                "be in between. If the host was set up anew, check the fingerprint on its "
                f"console, then `ssh-keygen -R '{name}' -f FILE` and add the new key",
            )
        return of(
            HostKeyRejected,
            f"host key is unknown: found {found}, {source} has none for {name}. Check the "
            f"fingerprint on the host's console, then add the line that `ssh-keyscan -p "
            f"{target.port} {target.host}` prints",
        )
    if isinstance(error, asyncssh.PermissionDenied):
        keys = "the agent's and default keys" if not target.client_keys else "the given key"
        return of(
            LoginRefused,
            f"login refused for user {target.login} with {keys} ({error.reason}). Check user and "
            "key of the connection, and authorized_keys on the node",
        )
    if isinstance(error, TimeoutError):
        return of(
            NodeUnreachable,
            f"no answer within {CONNECT_TIMEOUT_S:.0f} s. Is the host up, and is the port open "
            "in the firewalls between?",
        )
    if isinstance(error, ConnectionRefusedError):
        return of(
            NodeUnreachable,
            "connection refused: nothing listens there. Is sshd running, and is the port right?",
        )
    if isinstance(error, socket.gaierror):
        return of(NodeUnreachable, f"no such host ({error.strerror}). Check `hosts` in the YAML")
    if isinstance(error, asyncssh.ProtocolNotSupported | asyncssh.ProtocolError):
        return of(NotSsh, f"what answers there is no SSH server ({error.reason}). Check the port")
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return of(NotSsh, f"no common encryption ({error.reason}). Is its sshd very old?")
    return of(NodeUnreachable, f"connection failed: {error}")
