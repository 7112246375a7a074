"""What a refused or failed login means, in words that a user can act on."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import asyncssh

from nightbench.gang.errors import (
    HostKeyRejected,
    LoginRefused,
    NodeError,
    NodeUnreachable,
    NotSsh,
)

if TYPE_CHECKING:
    from nightbench.gang.login import SshTarget


def explain(
    target: SshTarget,
    error: BaseException,
    rejected: asyncssh.SSHKey | None,
    known: bool,
    banner: str = "",
) -> NodeError:
    """The error of a node for what asyncssh or the system said.

    Args:
        target: whom the login was for.
        error: what was raised.
        rejected: the host key that was not accepted.
        known: known_hosts has a key of this host, though another one.
        banner: what the server said before the login.
    """

    def of(kind: type[NodeError], message: str) -> NodeError:
        return kind(target.node, target.address, message)

    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        return of(HostKeyRejected, _host_key(target, error, rejected, known))
    if isinstance(error, asyncssh.PermissionDenied | asyncssh.IllegalUserName):
        return of(LoginRefused, _login(target, error, banner))
    if isinstance(error, asyncssh.ChannelOpenError):
        return of(NodeUnreachable, _forwarding(target, error))
    if isinstance(error, TimeoutError):
        return of(
            NodeUnreachable,
            "no answer within the time limit for a login. Is the host up, and is the port open "
            "in the firewalls between?",
        )
    if isinstance(error, ConnectionRefusedError):
        return of(
            NodeUnreachable,
            "connection refused: nothing listens there. Is sshd running, and is the port right?",
        )
    if isinstance(error, socket.gaierror | UnicodeError):
        return of(NodeUnreachable, f"no such host ({error}). Check `hosts` in the YAML")
    if isinstance(error, asyncssh.ProtocolNotSupported | asyncssh.ProtocolError):
        return of(NotSsh, f"what answers there is no SSH server ({error.reason}). Check the port")
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return of(NotSsh, f"no common encryption ({error.reason}). Is its sshd very old?")
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return of(
            NodeUnreachable,
            "no route to it: the host is down, or the network between is. Is it switched on, and "
            "does `ping` reach it from here? A node of an inner network needs `jump`",
        )
    return of(NodeUnreachable, f"connection failed: {error}")


def _host_key(
    target: SshTarget, error: BaseException, rejected: asyncssh.SSHKey | None, known: bool
) -> str:
    source = "known_hosts" if isinstance(target.known_hosts, bytes) else target.known_hosts
    name = target.host if target.port == 22 else f"[{target.host}]:{target.port}"
    if rejected is None:
        return (
            f"its host certificate is not accepted: {error}. Check that {source} holds its "
            "authority (`@cert-authority`), and the certificate's names and dates on the host: "
            "ssh-keygen -L -f HOST_CERTIFICATE"
        )
    found = rejected.get_fingerprint()
    if known:
        return (
            f"host key has CHANGED: found {found}, {source} holds another one. Somebody may "
            "be in between. If the host was set up anew, check the fingerprint on its console, "
            f"then `ssh-keygen -R '{name}' -f FILE` and add the new key, or `nightbench cluster "
            f"scan CLUSTER --replace {target.node}`"
        )
    return (
        f"host key is unknown: found {found}, {source} has none for {name}. Check the "
        "fingerprint on the host's console, then take it over with `nightbench cluster scan "
        f"CLUSTER`, or add the line that `ssh-keyscan -p {target.port} {target.host}` prints"
    )


def _login(target: SshTarget, error: BaseException, banner: str) -> str:
    keys = "the agent's and default keys" if not target.client_keys else "the given key"
    if target.agent is not None:
        keys = "the agent's keys"
    if target.certificates:
        keys += " and certificate"
    said = f" The host says: {' '.join(banner.split())[-300:]!r}." if banner.strip() else ""
    look = (
        " Look at the certificate's dates and principals: ssh-keygen -L -f FILE."
        if target.certificates
        else ""
    )
    reason = error.reason if isinstance(error, asyncssh.DisconnectError) else str(error)
    return (
        f"login refused for user {target.login} with {keys} ({reason}).{said}{look} Check user "
        "and key of the connection, and authorized_keys on the node"
    )


def _forwarding(target: SshTarget, error: asyncssh.ChannelOpenError) -> str:
    last = f"the jump host before {target.address}"
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return (
            f"{last} does not pass connections on ({error.reason}). Its sshd needs "
            "AllowTcpForwarding yes (or local), and PermitOpen must allow this address"
        )
    return (
        f"{last} cannot connect to it ({error.reason}). Is the host up, and is its name known "
        "to the jump host?"
    )
