"""Fetches the keys of hosts and writes them to a known_hosts file."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import asyncssh

from nightbench.core.atomic_files import replaced_file
from nightbench.core.errors import UserError
from nightbench.gang.errors import NodeUnreachable
from nightbench.gang.ssh_login import FIRST_PAUSE_S, connect, explain
from nightbench.gang.ssh_target import CONNECT_TIMEOUT_S, SshTarget, known_keys

_KINDS = (
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "rsa-sha2-256"),
)
"""Signatures that are asked for, one connection each: a host shows one key at a time."""

_ATTEMPTS = 5


class Status(StrEnum):
    """How a key that a host has shown compares with known_hosts."""

    NEW = "new"
    SAME = "same"
    CHANGED = "CHANGED"
    AUTHORITY = "by authority"
    REVOKED = "REVOKED"


@dataclass(frozen=True)
class HostKey:
    """One key of one host."""

    name: str
    """The host as known_hosts names it: `host`, or `[host]:port`."""
    kind: str
    key: str
    """Base64, as known_hosts holds it."""
    fingerprint: str
    status: Status
    known: str | None = None
    """Fingerprint of the key of this kind that known_hosts holds, if it is another one."""

    @property
    def line(self) -> str:
        """Its line of known_hosts."""
        return f"{self.name} {self.kind} {self.key}\n"


class _Client(asyncssh.SSHClient):
    connection: asyncssh.SSHClientConnection | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.connection = conn


async def host_keys(target: SshTarget) -> list[HostKey]:
    """Return all keys that a host shows, asked through its jump hosts, and their status.

    No key and no password of the user goes to the host: the connection ends before the login.

    Raises:
        NodeUnreachable: it does not answer.
        NodeError: as `connect` raises, of a jump host.
        GangError: known_hosts cannot be read.
    """
    async with contextlib.AsyncExitStack() as stack:
        below = None
        if target.jump:
            last = dataclasses.replace(target.jump[-1], jump=target.jump[:-1])
            below = await stack.enter_async_context(await connect(last))
        asked = [await _ask(target, algorithms, below) for algorithms in _KINDS]
    found = [key for key in asked if key is not None]
    if not found:
        raise NodeUnreachable.of(target, "has no host key of a known kind")
    return [compare(target, key) for key in found]


async def _ask(
    target: SshTarget, algorithms: Sequence[str], below: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHKey | None:
    """Return the host's key for some algorithms; None if it has none."""
    pause_s = FIRST_PAUSE_S
    client = _Client()
    options = asyncssh.SSHClientConnectionOptions(client_factory=lambda: client, config=None)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await asyncssh.get_server_host_key(
                    target.host,
                    target.port,
                    tunnel=below or (),
                    server_host_key_algs=list(algorithms),
                    config=None,
                    options=options,
                )
        except asyncssh.KeyExchangeFailed:
            return None
        except (asyncssh.ConnectionLost, ConnectionResetError) as error:
            if client.connection and client.connection.get_extra_info("server_version"):
                return None  # sshd ends the exchange where it has no key of the kind
            if attempt == _ATTEMPTS or (below is not None and below.is_closed()):
                raise explain(target, error, None, False) from error
            await asyncio.sleep(pause_s)
            pause_s *= 2
        except (asyncssh.Error, OSError) as error:
            raise explain(target, error, None, False) from error
    return None


def compare(target: SshTarget, key: asyncssh.SSHKey) -> HostKey:
    """Compare a key that a host has shown with the target's known_hosts.

    Raises:
        GangError: known_hosts cannot be read.
    """
    trusted, authorities, revoked = known_keys(target)
    kind, text = key.export_public_key("openssh").decode().split()[:2]
    others = [k for k in trusted if k.algorithm == key.algorithm and k != key]
    known = None
    if key in revoked:
        status = Status.REVOKED
    elif key in trusted:
        status = Status.SAME
    elif others:
        status, known = Status.CHANGED, others[0].get_fingerprint()
    elif authorities and not trusted:
        status = Status.AUTHORITY
    else:
        status = Status.NEW
    return HostKey(target.known_hosts_name, kind, text, key.get_fingerprint(), status, known)


def merged(text: str, keys: Iterable[HostKey]) -> str:
    """Return the text of a known_hosts file with new keys added and changed ones replaced.

    Raises:
        UserError: a key that has changed is on a line for several hosts by a pattern.
    """
    text = text if text.endswith("\n") or not text else text + "\n"
    for key in keys:
        if key.status is Status.CHANGED:
            text = _without(text, key)
        if key.line not in text:
            text += key.line
    return text


def _without(text: str, key: HostKey) -> str:
    kept = []
    for line in text.splitlines(keepends=True):
        words = line.split()
        if len(words) < 3 or words[0].startswith(("#", "@")) or words[1] != key.kind:
            kept.append(line)
            continue
        names = words[0].split(",")
        its = [name for name in names if _is_named(name, key)]
        if any("*" in name or "?" in name for name in its):
            raise UserError(
                f"{key.name}: its old key is on a line for several hosts, `{words[0][:200]}`. "
                "Edit that line by hand"
            )
        others = [name for name in names if name not in its]
        if not its:
            kept.append(line)
        elif others:
            kept.append(" ".join([",".join(others), *words[1:]]) + "\n")
    return "".join(kept)


def _is_named(written: str, key: HostKey) -> bool:
    """Whether a name of a known_hosts line means a host: in clear, hashed, or as a pattern."""
    alone = asyncssh.import_known_hosts(f"{written} {key.kind} {key.key}\n")
    return any(alone.match(key.name, "", None))


def save(path: Path, text: str) -> None:
    """Replace the file in one step, keeping its permissions.

    Raises:
        UserError: it cannot be written.
    """
    with replaced_file(path) as new:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        new.write_text(text, encoding="utf-8")
        new.chmod(mode)
