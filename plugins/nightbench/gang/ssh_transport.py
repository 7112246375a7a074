"""Runs commands over one SSH connection and turns its errors into `NodeError`s.

sshd hands a command to the user's login shell as one text. The shells bash, dash, zsh and fish
agree on plain words, on single quotes around all but a quote or a backslash, and on a backslash
before these. They differ in nearly all else (fish reads a backslash inside single quotes, zsh
expands `=word`), which is not used here.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence

import asyncssh

from nightbench.core.errors import UserError
from nightbench.gang.errors import NodeUnreachable, RemoteFailure
from nightbench.gang.node_files import BEGIN
from nightbench.gang.process import FILE_TIMEOUT_S, time_limit
from nightbench.gang.ssh_login import connect
from nightbench.gang.ssh_target import SshTarget
from nightbench.gang.transport import Pool, Transport

LOST = (asyncssh.DisconnectError, OSError)
"""Errors that asyncssh raises in any operation when the connection is lost."""

MORE_CONNECTIONS = 12
"""Further connections to one node at most: a server that allows one session needs one for each
command and conversation."""

_PLAIN = re.compile(r"[A-Za-z0-9_/.,:+-]+\Z")
_PIECES = re.compile(r"['\\]|[^'\\]+")


def quote(word: str) -> str:
    """Return a word quoted so that bash, dash, zsh and fish read it unchanged.

    Raises:
        ValueError: it holds a NUL character, which no command line can carry.
    """
    if "\0" in word:
        raise ValueError("a word of a command contains a NUL character")
    if _PLAIN.match(word):
        return word
    pieces = _PIECES.findall(word)
    return "".join(f"\\{p}" if p in "'\\" else f"'{p}'" for p in pieces) or "''"


class SshTransport(Transport):
    """One node over SSH; connects at the first use, and again after a connection was lost."""

    def __init__(self, target: SshTarget, pool: Pool | None = None) -> None:
        super().__init__(target, target.address, target.login, pool)
        self._target = target
        self._connection: asyncssh.SSHClientConnection | None = None
        self._more: list[asyncssh.SSHClientConnection] = []
        """Further connections, while the server allows few sessions over one."""
        self._connecting = asyncio.Lock()
        self._refused: tuple[float, UserError] | None = None
        """Time and error of the last failed attempt to connect."""

    async def reach(self) -> None:
        """Log in if there is no connection."""
        await self._connected()

    async def start(self, argv: Sequence[str]) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command; the caller closes it."""
        connection = await self._connected()
        line = " ".join(quote(word) for word in ("sh", "-c", BEGIN, "sh", *argv))

        async def operation() -> asyncssh.SSHClientProcess[bytes]:
            async with self.guard(f"start {argv[0]}", FILE_TIMEOUT_S):
                return await self._open(connection, line)

        starting = asyncio.create_task(operation())
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A session left half open would count against the server's limit for ever.
            starting.add_done_callback(_close)
            raise

    async def _open(
        self, first: asyncssh.SSHClientConnection, line: str
    ) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command over a connection that has a session left; connect again if none has.

        Raises:
            asyncssh.ChannelOpenError: the server refuses it over a new connection, too, or so many
                connections are open that one must end first.
        """
        self._more = [each for each in self._more if not each.is_closed()]
        for connection in (first, *self._more):
            try:
                return await connection.create_process(line, encoding=None)
            except asyncssh.ChannelOpenError as error:
                if connection.is_closed() or error.code == asyncssh.OPEN_REQUEST_SESSION_FAILED:
                    raise
                refusal = error
        if len(self._more) >= MORE_CONNECTIONS:
            raise refusal
        further = await connect(self._target)
        if self._connection is not first:  # closed or dropped meanwhile
            further.abort()
            raise refusal
        self._more.append(further)
        try:
            return await further.create_process(line, encoding=None)
        except asyncssh.ChannelOpenError:
            self._more.remove(further)
            further.abort()
            raise

    def not_run(self, command: str, status: int | None, said: bytes) -> RemoteFailure:
        """Return the error for a login shell that ended without running the command."""
        tail = said.decode(errors="replace").strip()[-500:]
        return RemoteFailure.of(
            self,
            f"the login shell did not run `{command}` (exit {status}); its output: {tail!r}. Is "
            f"the shell of user {self.user} nologin, does a login file (.bashrc, .zshenv, "
            "config.fish) end the shell, or does ForceCommand or a key's command= replace it?",
        )

    async def disconnect(self) -> None:
        """Close the connection; processes on the node keep running."""
        for connection in self._taken():
            connection.close()
            try:
                await asyncio.wait_for(connection.wait_closed(), 5)
            except (TimeoutError, *LOST):
                connection.abort()

    # --- the connection -------------------------------------------------------------------

    async def _connected(self) -> asyncssh.SSHClientConnection:
        clock = asyncio.get_running_loop().time
        asked_s = clock()
        async with self._connecting:
            if self._connection is None or self._connection.is_closed():
                if self._refused is not None and self._refused[0] > asked_s:
                    raise self._refused[1]  # another caller tried while this one waited
                try:
                    self._connection = await connect(self._target)
                except UserError as error:
                    self._refused = (clock(), error)
                    raise
            return self._connection

    @contextlib.asynccontextmanager
    async def guard(self, what: str, timeout_s: float | None) -> AsyncIterator[None]:
        """Turn the errors of an operation into a `NodeError`."""
        try:
            async with time_limit(self, self._drop, what, timeout_s):
                yield
        except asyncssh.ChannelOpenError as error:
            # The connection is intact, and others use it.
            raise NodeUnreachable.of(
                self,
                f"no new channel ({error.reason}) to {what}. Its sshd refuses sessions over "
                f"{1 + len(self._more)} connections: see MaxSessions in its sshd_config",
            ) from error
        except EOFError as error:  # the program ended, not the connection
            raise NodeUnreachable.of(self, f"could not {what}: {error}") from error
        except LOST as error:
            self._drop()
            raise NodeUnreachable.of(
                self, f"connection lost ({error}), could not {what}"
            ) from error

    def _drop(self) -> None:
        self.drop_program()
        for connection in self._taken():
            connection.abort()

    def _taken(self) -> list[asyncssh.SSHClientConnection]:
        """Return all connections; this object no longer owns them."""
        taken = [*self._more, *([self._connection] if self._connection else [])]
        self._connection, self._more = None, []
        return taken


def _close(starting: asyncio.Task[asyncssh.SSHClientProcess[bytes]]) -> None:
    """End a command whose caller was cancelled."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()
