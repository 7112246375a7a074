"""Runs commands over one SSH connection and turns its errors into `NodeError`s.

sshd hands a command to the user's login shell as one text. bash, dash, zsh and fish agree on
plain words, on single quotes around anything but a quote or a backslash, and on a backslash
before one of these two; they differ in nearly everything else (fish reads a backslash inside
single quotes, zsh expands `=word`). Nothing else is used here.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import asyncssh

from nightbench.core.errors import UserError
from nightbench.gang.conversation import FILE_TIMEOUT_S, Conversation
from nightbench.gang.errors import DiskFull, NodeUnreachable, RemoteFailure
from nightbench.gang.ssh_login import connect
from nightbench.gang.ssh_target import SshTarget

OnLine = Callable[[str], None]
Channel = TypeVar("Channel")

LOST = (asyncssh.DisconnectError, asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, OSError)
"""Errors that asyncssh raises in any operation when the connection is lost."""

SESSIONS = 7
"""Commands at once on a node: OpenSSH allows ten sessions over one connection (MaxSessions), and
SFTP and conversations need some of them. A server that allows fewer gets further connections."""

MORE_CONNECTIONS = 12
"""Further connections to one node at most: a server that allows one session needs one for each
command and conversation."""

MARK = "nightbench: output follows"
"""Printed on a line of its own before a command's output; what stands before it comes from
login files (`.zshenv`, `config.fish`, `BASH_ENV`)."""

_PLAIN = re.compile(r"[A-Za-z0-9_/.,:+-]+\Z")
_PIECES = re.compile(r"['\\]|[^'\\]+")
_BEGIN = f'echo; echo "{MARK}"; exec "$@"'


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


def _command_line(argv: Sequence[str]) -> str:
    """Return the command line of a command whose output begins after `MARK`."""
    return " ".join(quote(word) for word in ("sh", "-c", _BEGIN, "sh", *argv))


def _after_mark(output: bytes) -> bytes | None:
    """Return the command's own output; None where the login shell did not run it."""
    _, mark, after = output.partition(f"\n{MARK}\n".encode())
    return after if mark else None


@dataclass(frozen=True)
class Completed:
    """A command that ended on a node."""

    exit: int
    """Exit status; 128 + n for a death by signal n."""
    stdout: bytes
    stderr: bytes


class SshConnection:
    """One node over SSH; connects at the first use, and again after a connection was lost."""

    def __init__(self, target: SshTarget) -> None:
        self._target = target
        self.node = target.node
        self.address = target.address
        self._connection: asyncssh.SSHClientConnection | None = None
        self._more: list[asyncssh.SSHClientConnection] = []
        """Further connections, while the server allows few sessions over one."""
        self._sftp: asyncssh.SFTPClient | None = None
        self._connecting = asyncio.Lock()
        self._beginning_sftp = asyncio.Lock()
        self._refused: tuple[float, UserError] | None = None
        """Time and error of the last failed attempt to connect."""
        self._sessions = asyncio.Semaphore(SESSIONS)
        self._about: tuple[str, str] | None = None

    async def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        on_stderr: OnLine | None = None,
        timeout_s: float | None = None,
    ) -> Completed:
        """Run a command without a shell. A status other than 0 is not an error here.

        `on_stderr` is called with each line of stderr.
        """
        async with (
            self.guard(f"run {argv[0]}", timeout_s),
            self._process(argv, env) as process,
        ):
            with contextlib.suppress(BrokenPipeError):
                # A short command may end before its input is sent.
                process.stdin.write(stdin)
                process.stdin.write_eof()
            stdout, stderr = await asyncio.gather(
                process.stdout.read(), _lines(process.stderr, on_stderr)
            )
            await process.wait_closed()
            status, output = _exit_of(process), _after_mark(stdout)
            if output is None:
                raise self._not_run(argv[0], status, stdout + stderr)
            return Completed(status, output, stderr)

    @contextlib.asynccontextmanager
    async def converse(
        self, argv: Sequence[str], answer_s: float = FILE_TIMEOUT_S
    ) -> AsyncIterator[Conversation]:
        """Run a command that answers each line with a line; it ends with the context.

        Each answer may take `answer_s`.
        """
        async with self._process(argv, None) as process:
            noise: list[bytes] = []
            async with self.guard(f"begin {argv[0]}", FILE_TIMEOUT_S):
                while (line := await process.stdout.readline()).rstrip() != MARK.encode():
                    if not line:
                        said = b"".join(noise) + await process.stderr.read()
                        raise self._not_run(argv[0], process.exit_status, said)
                    noise.append(line)
            yield Conversation(self, process, answer_s)

    @contextlib.asynccontextmanager
    async def _process(
        self, argv: Sequence[str], env: Mapping[str, str] | None
    ) -> AsyncIterator[asyncssh.SSHClientProcess[bytes]]:
        # The environment goes into the command: sshd accepts only the variables that it lists.
        words = ["env", *(f"{k}={v}" for k, v in env.items()), *argv] if env else list(argv)
        async with self._sessions:
            process = await self.start(words)
            try:
                yield process
            finally:
                process.close()

    async def start(self, argv: Sequence[str]) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command; the caller closes it."""
        await self._connected()
        line = _command_line(argv)

        async def operation() -> asyncssh.SSHClientProcess[bytes]:
            async with self.guard(f"start {argv[0]}", FILE_TIMEOUT_S):
                return await self._open(lambda each: each.create_process(line, encoding=None))

        starting = asyncio.create_task(operation())
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A session left half open would count against the server's limit for ever.
            starting.add_done_callback(_close)
            raise

    async def _open(
        self, channel: Callable[[asyncssh.SSHClientConnection], Awaitable[Channel]]
    ) -> Channel:
        """Open a channel over a connection that has a session left; connect again if none has.

        Raises:
            asyncssh.ChannelOpenError: the server refuses it over a new connection, too, or so many
                connections are open that one must end first.
        """
        first = await self._connected()
        self._more = [each for each in self._more if not each.is_closed()]
        for connection in (first, *self._more):
            try:
                return await channel(connection)
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
            return await channel(further)
        except asyncssh.ChannelOpenError:
            self._more.remove(further)
            further.abort()
            raise

    def _not_run(self, command: str, status: int | None, said: bytes) -> RemoteFailure:
        """Return the error for a login shell that ended without running the command."""
        tail = said.decode(errors="replace").strip()[-500:]
        return RemoteFailure.of(
            self,
            f"the login shell did not run `{command}` (exit {status}); its output: {tail!r}. Is "
            f"the shell of user {self._target.login} nologin, or does a login file of it (.bashrc, "
            ".zshenv, config.fish) end it?",
        )

    async def home(self) -> str:
        """Return the SSH user's home folder."""
        return (await self._home_and_machine())[0]

    async def machine(self) -> str:
        """Return the node's machine as `uname -m` prints it: x86_64, aarch64."""
        return (await self._home_and_machine())[1]

    async def _home_and_machine(self) -> tuple[str, str]:
        """Return both; one command asks for them, once."""
        if self._about is None:
            ask = ["sh", "-c", 'printf "%s\\n%s" "$(uname -m)" "$HOME"']
            done = await self.run(ask, timeout_s=FILE_TIMEOUT_S)
            machine, _, home = (
                done.stdout.decode(errors="backslashreplace").rstrip("/").partition("\n")
            )
            is_text = home.isprintable() and home.encode() in done.stdout
            if done.exit != 0 or not home.startswith("/") or not is_text:
                raise RemoteFailure.of(
                    self,
                    f"$HOME is {home!r}, expected an absolute path in UTF-8; set "
                    "environments.root to an absolute path in the cluster's YAML",
                )
            self._about = home, machine
        return self._about

    async def close(self) -> None:
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
                self._sftp = None
                try:
                    self._connection = await connect(self._target)
                except UserError as error:
                    self._refused = (clock(), error)
                    raise
            return self._connection

    async def files(self) -> asyncssh.SFTPClient:
        """Return the connection's SFTP client; to be called inside of `guard`."""
        connection = await self._connected()
        async with self._beginning_sftp:
            if self._sftp is None:
                try:
                    self._sftp = await self._open(lambda each: each.start_sftp_client())
                except (asyncssh.ChannelOpenError, asyncssh.SFTPError) as error:
                    why = self._no_files(error)
                    if why is None or connection.is_closed():
                        raise
                    raise why from error
            return self._sftp

    def _no_files(self, error: asyncssh.ChannelOpenError | asyncssh.SFTPError) -> UserError | None:
        """Return the error for missing SFTP; None where the connection itself failed."""
        if isinstance(error, asyncssh.SFTPError):
            return RemoteFailure.of(
                self,
                f"SFTP does not begin ({error.reason}). Does a login file (.bashrc, .zshenv, "
                f"config.fish) of user {self._target.login} print something? Make it print only "
                "on terminals, or set `Subsystem sftp internal-sftp` in sshd_config",
            )
        if error.code == asyncssh.OPEN_REQUEST_SESSION_FAILED:
            return RemoteFailure.of(
                self,
                "its SSH server offers no SFTP, which Nightbench needs. Set `Subsystem sftp "
                "internal-sftp` in sshd_config",
            )
        return None

    @contextlib.asynccontextmanager
    async def guard(
        self, what: str, timeout_s: float | None, need_bytes: int = 0
    ) -> AsyncIterator[None]:
        """Turn the errors of an operation into a `NodeError`."""
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError as error:
            self._drop()
            raise NodeUnreachable.of(
                self, f"no answer within {timeout_s:.0f} s to: {what}"
            ) from error
        except asyncssh.ChannelOpenError as error:
            # The connection is intact, and others use it.
            raise NodeUnreachable.of(
                self,
                f"no new channel ({error.reason}) to {what}. Its sshd refuses sessions over "
                f"{1 + len(self._more)} connections: see MaxSessions in its sshd_config",
            ) from error
        except LOST as error:
            self._drop()
            raise NodeUnreachable.of(
                self, f"connection lost ({error}), could not {what}"
            ) from error
        except asyncssh.SFTPError as error:
            raise await self._refusal(what, error, need_bytes) from error

    async def _refusal(
        self, what: str, error: asyncssh.SFTPError, need_bytes: int
    ) -> RemoteFailure | DiskFull:
        """Return the error for a failed file operation: SFTP 3 reports a full disk as "failure"."""
        path = what.partition(" ")[2].rpartition(" to ")[2]
        changes = what.split()[0] in ("make", "write", "upload", "rename")
        full = isinstance(error, asyncssh.SFTPNoSpaceOnFilesystem | asyncssh.SFTPQuotaExceeded)
        if full or (changes and not isinstance(error, asyncssh.SFTPConnectionLost)):
            free, locked = await self._room(path)
            if locked is not None and not full:
                return RemoteFailure.of(
                    self,
                    f"could not {what}: {locked} cannot be written by user {self._target.login} "
                    "(read-only, or no rights). Choose another environments.root in the "
                    "cluster's YAML, or repair the folder",
                )
            if full or (free is not None and free <= max(need_bytes, 1 << 20)):
                return DiskFull.of(
                    self,
                    f"no room to {what}: {(free or 0) / 1e6:.1f} MB free. Make room there, or put "
                    "environments.root on another disk (cluster YAML)",
                )
        return RemoteFailure.of(self, f"could not {what}: {error.reason}")

    async def _room(self, path: str) -> tuple[int | None, str | None]:
        """Return the free bytes at a path, and its nearest folder if that is not writable."""
        script = (
            'p=$(dirname "$1"); while [ ! -e "$p" ]; do p=$(dirname "$p"); done; '
            '[ ! -d "$p" ] || [ -w "$p" ] || echo "locked $p"; df -Pk "$p" | tail -n 1'
        )
        done = await self.run(["sh", "-c", script, "sh", path], timeout_s=FILE_TIMEOUT_S)
        lines = done.stdout.decode(errors="replace").splitlines()
        locked = next((x.removeprefix("locked ") for x in lines if x.startswith("locked ")), None)
        fields = lines[-1].split() if done.exit == 0 and lines else []
        free = int(fields[3]) * 1024 if len(fields) > 3 and fields[3].isdecimal() else None
        return free, locked

    def _drop(self) -> None:
        for connection in self._taken():
            connection.abort()

    def _taken(self) -> list[asyncssh.SSHClientConnection]:
        """Return all connections, which are this object's no more."""
        taken = [*self._more, *([self._connection] if self._connection else [])]
        self._connection, self._sftp, self._more = None, None, []
        return taken


def _close(starting: asyncio.Task[asyncssh.SSHClientProcess[bytes]]) -> None:
    """End a command whose caller was cancelled."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()


async def _lines(stream: asyncssh.SSHReader[bytes], on_line: OnLine | None) -> bytes:
    collected = []
    while line := await stream.readline():
        collected.append(line)
        if on_line is not None:
            on_line(line.decode(errors="replace").rstrip())
    return b"".join(collected)


def _exit_of(process: asyncssh.SSHClientProcess[bytes]) -> int:
    """Return the exit status; raise if the connection was lost before it arrived."""
    code = process.returncode
    if code is None:
        raise ConnectionResetError("the command's channel closed without an exit status")
    return code if code >= 0 else 128 - code
