"""Address, user, keys and known hosts of a node, or of a jump host on the way to it."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh

from nightbench.core.model import SlurmPolicy
from nightbench.gang.errors import GangError

if TYPE_CHECKING:
    from nightbench.gang.ssh_transport import SshTransport
    from nightbench.gang.transport import Pool

CONNECT_TIMEOUT_S = 15.0


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
    """Passphrase of the client keys."""
    password: str | None = field(default=None, repr=False)
    certificates: tuple[str, ...] = ()
    """OpenSSH user certificates, each a path or a text; `KEY-cert.pub` next to a key is found."""
    agent: str | None = None
    """Socket of the SSH agent whose keys are offered too; "" means SSH_AUTH_SOCK of this process,
    None none but if there are no client keys."""
    python: str = "python3"
    """The node's Python, 3.7 or newer."""
    slurm: SlurmPolicy | None = None
    """Set if this is the login node of the Slurm cluster that the node belongs to."""
    jump: tuple[SshTarget, ...] = ()
    """Hosts that the connection passes through, the first first."""
    problem: str | None = None
    """Why nothing logs in there: its Airflow Connection is missing or damaged."""

    def __repr__(self) -> str:
        keys = ["<text>" if "PRIVATE KEY" in key else key for key in self.client_keys]
        via = "".join(f", via {hop.address}" for hop in self.jump)
        return f"SshTarget({self.node}, {self.user or ''}@{self.address}, keys={keys}{via})"

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def known_hosts_name(self) -> str:
        """The host as known_hosts names it: `host`, or `[host]:port`."""
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"

    @property
    def login(self) -> str:
        """The user name that is presented."""
        return self.user or getpass.getuser()

    def of_job(self, job_id: str) -> SshTarget:
        """Return how the node of a job is reached: as for every other job."""
        return self

    def transport(self, pool: Pool) -> SshTransport:
        """Return a transport that removes itself from `pool` when it is closed."""
        from nightbench.gang.ssh_transport import SshTransport

        return SshTransport(self, pool)


def _entries(target: SshTarget) -> asyncssh.SSHKnownHosts:
    """Return the entries of a target's known_hosts; as OpenSSH, without lines that are none.

    Raises:
        GangError: it cannot be read.
    """
    # As OpenSSH, without lines that are no entries.
    given = target.known_hosts
    try:
        content = given if isinstance(given, bytes) else Path(given).read_bytes()
    except OSError as error:
        raise GangError(
            f"node {target.node}: the known_hosts of {target.address} cannot be read: {error}. "
            "Set known_hosts in the cluster's YAML, or host_key in the connection's extra"
        ) from error
    lines = content.decode("utf-8-sig", "replace").splitlines()
    try:
        return asyncssh.import_known_hosts("\n".join(lines))
    except ValueError:
        return asyncssh.import_known_hosts("\n".join(filter(_is_entry, lines)))


def _is_entry(line: str) -> bool:
    try:
        asyncssh.import_known_hosts(line)
    except ValueError:
        return False
    return True


def known_keys(
    target: SshTarget,
) -> tuple[Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey], Sequence[asyncssh.SSHKey]]:
    """Return the keys that known_hosts has for a host: trusted, of authorities, revoked.

    Raises:
        GangError: it cannot be read.
    """
    entries, port = _entries(target), target.port if target.port != 22 else None
    found = asyncssh.match_known_hosts(entries, target.host, "", port)
    # Without a trusted key for its port asyncssh forgets those that are revoked for it.
    revoked = asyncssh.match_known_hosts(entries, target.known_hosts_name, "", None)[2]
    return found[0], found[1], [*found[2], *revoked]


async def login_options(target: SshTarget) -> dict[str, Any]:
    """Return keys, certificates, agent and password as options of `asyncssh.connect`.

    Raises:
        GangError: the target has a problem, or a key, a certificate or an agent cannot be used.
    """
    if target.problem is not None:
        raise GangError(f"node {target.node}: {target.problem}")
    options: dict[str, Any] = {}
    if target.client_keys:
        options["client_keys"] = [_key(target, given) for given in target.client_keys]
        options["agent_path"] = None
    if certificates := list(_certificates(target)):
        options["client_certs"] = certificates
    if target.agent is not None:
        options["agent_path"] = await _agent_socket(target)
    if target.password is not None:
        options["password"] = target.password
    return options


async def _agent_socket(target: SshTarget) -> str:
    """Return the agent's socket, after checking that an agent with keys answers there."""
    path = target.agent or os.environ.get("SSH_AUTH_SOCK", "")
    where = f"node {target.node} ({target.address}): the connection asks for an SSH agent, but"
    if not path:
        raise GangError(
            f"{where} SSH_AUTH_SOCK is not set in this process. Start worker and triggerer with "
            "this variable, or set agent_socket in the connection's extra"
        )
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S), asyncssh.connect_agent(path) as agent:
            keys = await agent.get_keys()
    except (OSError, ValueError, asyncssh.Error) as error:
        raise GangError(f"{where} no agent answers at {path}: {error}. Is it running?") from error
    if not keys:
        raise GangError(f"{where} the agent at {path} has no key. Add a key: ssh-add KEY")
    return path


def _key(target: SshTarget, given: str) -> asyncssh.SSHKey:
    is_text = "PRIVATE KEY" in given
    read = asyncssh.import_private_key if is_text else asyncssh.read_private_key
    advice = "Check the path, its rights and the passphrase of the connection"
    with _usable(target, "private key", given, is_text, advice):
        return read(given, target.passphrase)


def _certificates(target: SshTarget) -> Iterator[asyncssh.SSHCertificate]:
    """Yield the user certificates that are named, and those beside the keys."""
    beside = [f"{k}-cert.pub" for k in target.client_keys if "PRIVATE KEY" not in k]
    for given in (*target.certificates, *(path for path in beside if Path(path).is_file())):
        is_text = "-cert-v01@openssh.com " in given
        read = asyncssh.import_certificate if is_text else asyncssh.read_certificate
        with _usable(target, "certificate", given, is_text, "Inspect it: ssh-keygen -L -f FILE"):
            yield read(given)


@contextmanager
def _usable(target: SshTarget, what: str, given: str, is_text: bool, advice: str) -> Iterator[None]:
    """Raise an error about an unusable key or file, with its path, never its content."""
    try:
        yield
    except (OSError, ValueError) as error:
        name = "given as text" if is_text else given[:500]
        raise GangError(
            f"node {target.node} ({target.address}): {what} {name} cannot be used: {error}. "
            f"{advice}"
        ) from error
