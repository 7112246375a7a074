"""Logs in to a node. Host keys are always checked; each error says what the user can do."""

import asyncio
import errno
import logging
import random
import socket

import asyncssh

from nightbench.gang.errors import (
    GangError,
    HostKeyRejected,
    LoginRefused,
    NodeError,
    NodeUnreachable,
    NotSsh,
)
from nightbench.gang.ssh_target import CONNECT_TIMEOUT_S, SshTarget, known_keys, login_options

asyncssh.set_log_level("WARNING")
KEEPALIVE_S = 10

THROTTLED_S = 30.0
"""Time for which logins are retried that the server closes before they begin (MaxStartups)."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0

log = logging.getLogger(__name__)


class _Client(asyncssh.SSHClient):
    """Stores the server's banner and rejects unknown host keys."""

    def __init__(self) -> None:
        self.rejected: asyncssh.SSHKey | None = None
        self.banner = ""
        self.authenticating = False
        self.password_missing = False
        """Whether the server asked for a password that the Connection does not have."""
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

    def password_auth_requested(self) -> None:
        self.password_missing = True

    def kbdint_auth_requested(self) -> None:
        self.password_missing = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection to the jump host, which served only this one."""
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
        NotSsh: what listens on the port is not an SSH server.
        GangError: a key, an agent or the known_hosts file cannot be read.
    """
    below: asyncssh.SSHClientConnection | None = None
    for hop in (*target.jump, target):
        try:
            below = await _login_with_retries(hop, below, target)
        except NodeError as error:
            if hop is target:
                raise
            message = f"jump host {hop.address} before it: {error.message}"
            raise type(error).of(target, message) from error
    assert below is not None
    return below


async def _login_with_retries(
    target: SshTarget, below: asyncssh.SSHClientConnection | None, whole: SshTarget
) -> asyncssh.SSHClientConnection:
    """Log in; try again if a busy sshd (MaxStartups 10:30:100) closed before the login."""
    clock = asyncio.get_running_loop().time
    give_up_s, pause_s, attempt = clock() + THROTTLED_S, FIRST_PAUSE_S, 1
    while True:
        try:
            return await _login(target, below)
        except _ClosedBeforeLogin as closed:
            wait_s = random.uniform(pause_s / 2, pause_s)
            if below is not None and below.is_closed():
                raise NodeUnreachable.of(target, "the jump host's connection was lost") from closed
            if clock() + wait_s > give_up_s:
                _abandon(below)
                raise NodeUnreachable.of(
                    target,
                    f"closed the connection before the login, {attempt} times in "
                    f"{THROTTLED_S:.0f} s ({closed}). Is the login throttled (MaxStartups, "
                    "PerSourcePenalties, fail2ban), or is the answer not from an SSH server?",
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
        except BaseException:
            _abandon(below)
            raise


class _ClosedBeforeLogin(Exception):
    """The server closed the connection before it began to check the login."""


async def _login(
    target: SshTarget, below: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    client = _Client()
    known = False
    try:
        options = await login_options(target)
        trusted, authorities, revoked = known_keys(target)
        known = bool(trusted or authorities)
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            connection = await asyncssh.connect(
                target.host,
                target.port,
                tunnel=below,
                username=target.login,
                known_hosts=(list(trusted), list(authorities), list(revoked)),
                config=None,
                client_factory=lambda: client,
                login_timeout=CONNECT_TIMEOUT_S,
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=3,
                utf8_decode_errors="backslashreplace",  # of a banner in another encoding
                **options,
            )
    except (asyncssh.ConnectionLost, ConnectionResetError) as error:
        if not client.authenticating and (below is None or not below.is_closed()):
            raise _ClosedBeforeLogin(str(error)) from error
        raise explain(target, error, client.rejected, False, client.banner) from error
    except (asyncssh.Error, OSError) as error:
        raise explain(
            target, error, client.rejected, known, client.banner, client.password_missing
        ) from error
    except ValueError as error:
        raise GangError(
            f"node {target.node}: no login to {target.address[:300]!r} as {target.login[:100]!r}: "
            f"{error}. Check host and user in the cluster's YAML and the connection"
        ) from error
    client.below = below
    return connection


def _abandon(below: asyncssh.SSHClientConnection | None) -> None:
    if below is not None:
        below.abort()


# --- what a refusal means -------------------------------------------------------------------


def explain(
    target: SshTarget,
    error: BaseException,
    rejected: asyncssh.SSHKey | None,
    known: bool,
    banner: str = "",
    password_missing: bool = False,
) -> NodeError:
    """Return the error of a node for an error of asyncssh or of the system.

    `rejected` is the host key that was not accepted; `known` says that known_hosts has another one;
    `password_missing` that the server asked for a password and got none.
    """
    kind: type[NodeError] = NodeUnreachable
    if isinstance(error, asyncssh.HostKeyNotVerifiable):
        kind, message = HostKeyRejected, _host_key_rejected(target, error, rejected, known)
    elif isinstance(error, asyncssh.PermissionDenied | asyncssh.IllegalUserName):
        kind, message = LoginRefused, _login_refused(target, error, banner, password_missing)
    elif isinstance(error, asyncssh.ChannelOpenError):
        message = _forwarding_refused(target, error)
    elif isinstance(error, TimeoutError):
        message = (
            "no answer within the time limit for a login. Is the host up, and do the firewalls "
            "open the port?"
        )
    elif isinstance(error, ConnectionRefusedError):
        message = (
            "connection refused: nothing listens there. Is sshd running, and is the port right?"
        )
    elif isinstance(error, socket.gaierror | UnicodeError):
        message = (
            f"no such host: {target.host} ({error}). Check `hosts` in the YAML; ~/.ssh/config is "
            "not read, so an alias from it is no host"
        )
    elif isinstance(error, asyncssh.ProtocolNotSupported | asyncssh.ProtocolError):
        kind = NotSsh
        message = f"found no SSH server there ({error.reason}). Check the port"
    elif isinstance(error, asyncssh.KeyExchangeFailed):
        kind = NotSsh
        message = f"no common encryption ({error.reason}). Is its sshd very old?"
    elif isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        message = (
            "no route to it: the host or the network is down. Is it switched on, and does `ping` "
            "reach it from here? A node in an internal network needs `jump`"
        )
    else:
        message = f"connection failed: {error}"
    return kind.of(target, message)


def _host_key_rejected(
    target: SshTarget, error: BaseException, rejected: asyncssh.SSHKey | None, known: bool
) -> str:
    source = "known_hosts" if isinstance(target.known_hosts, bytes) else target.known_hosts
    name = target.known_hosts_name
    if "key is revoked" in str(error):
        return f"host key is REVOKED (`@revoked` in {source}). Give the host a new key"
    if rejected is None:
        return (
            f"its host certificate is not accepted: {error}. Check that {source} has its "
            "authority (`@cert-authority`), and the certificate's names and dates on the host: "
            "ssh-keygen -L -f HOST_CERTIFICATE"
        )
    found = rejected.get_fingerprint()
    if known:
        return (
            f"host key has CHANGED: found {found}; {source} has another one. The connection may "
            "be intercepted. If the host was reinstalled, check the fingerprint on its console, "
            f"then `ssh-keygen -R '{name}' -f FILE` and add the new key, or `nightbench cluster "
            f"scan CLUSTER --replace {target.node}`"
        )
    return (
        f"host key is unknown: found {found}, {source} has none for {name}. Check the fingerprint "
        "on the host's console, then accept it with `nightbench cluster scan CLUSTER`, or add "
        f"the line that `ssh-keyscan -p {target.port} {target.host}` prints"
    )


def _login_refused(
    target: SshTarget, error: BaseException, banner: str, password_missing: bool
) -> str:
    keys = "the agent's and default keys" if not target.client_keys else "the given key"
    if target.agent is not None:
        keys = "the agent's keys"
    if target.certificates:
        keys += " and certificate"
    said = f" The host says: {' '.join(banner.split())[-300:]!r}." if banner.strip() else ""
    look = (
        " Check the certificate's dates and principals: ssh-keygen -L -f FILE."
        if target.certificates
        else ""
    )
    if password_missing and target.password is None:
        look += (
            " The server also asks for a password (AuthenticationMethods publickey,password "
            "requires both): set it as the password of the connection, or have the user exempted."
        )
    reason = error.reason if isinstance(error, asyncssh.DisconnectError) else str(error)
    return (
        f"login refused for user {target.login} with {keys} ({reason}).{said}{look} Check user "
        "and key of the connection, and authorized_keys on the node"
    )


def _forwarding_refused(target: SshTarget, error: asyncssh.ChannelOpenError) -> str:
    last = f"the jump host before {target.address}"
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return (
            f"{last} does not forward connections ({error.reason}). Its sshd needs "
            "AllowTcpForwarding yes (or local), and PermitOpen must allow this address"
        )
    return (
        f"{last} cannot connect to it ({error.reason}). Is the host up, and is its name known "
        "to the jump host?"
    )
