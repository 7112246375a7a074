"""A command in a pod: the exec stream of the API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""Protocols of the exec stream, the newest first; the fifth can end a command's input."""

LINE_BYTES = 16 << 20
"""Longest line that a command in a pod may print."""

PIECE_BYTES = 1 << 16
"""Bytes of input in one message."""

STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255
"""Channels: the first byte of each message."""

NO_PROGRAM = ("executable file not found", "no such file or directory", "permission denied")
"""Words of a container's engine about a command that it cannot run."""

CANNOT_RUN = 126
"""Exit status of a command that the container's engine cannot run."""


class _Input:
    """Input of a command; sends in the order of writing."""

    def __init__(self, process: PodProcess, can_end: bool) -> None:
        self._process = process
        self._can_end = can_end
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def write(self, data: bytes) -> None:
        if self._process.is_closing():
            raise BrokenPipeError("the command has ended")
        for begin in range(0, len(data), PIECE_BYTES):
            self._pieces.put_nowait(bytes([STDIN]) + data[begin : begin + PIECE_BYTES])

    def write_eof(self) -> None:
        """End the input, if the protocol can do so (v5, since Kubernetes 1.30)."""
        if self._can_end:
            self._pieces.put_nowait(bytes([CLOSE, STDIN]))

    async def send(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        with contextlib.suppress(ConnectionError):  # the reader reports it
            while True:
                await socket.send_bytes(await self._pieces.get())


class PodProcess:
    """A command in a pod, with the interface of asyncssh's `SSHClientProcess`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.stdin = _Input(self, socket.protocol == PROTOCOLS[0])
        self.stdout = asyncio.StreamReader(LINE_BYTES)
        self.stderr = asyncio.StreamReader(LINE_BYTES)
        self.returncode: int | None = None
        self._sending = asyncio.create_task(self.stdin.send(socket))
        self._reading = asyncio.create_task(self._read())

    def is_closing(self) -> bool:
        """Return whether the stream has ended."""
        return self._reading.done()

    async def wait_closed(self) -> None:
        """Wait for the end of the stream."""
        await asyncio.wait([self._reading])

    def close(self) -> None:
        """End the stream; the command sees the end of its input."""
        self._reading.cancel()

    async def _read(self) -> None:
        import aiohttp

        outputs = {STDOUT: self.stdout, STDERR: self.stderr}
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                channel, content = message.data[0], message.data[1:]
                if channel in outputs:
                    outputs[channel].feed_data(content)
                elif channel == STATUS:
                    self._take_status(content)
        finally:
            self._sending.cancel()
            for stream in outputs.values():
                stream.feed_eof()
            await self._socket.close()

    def _take_status(self, content: bytes) -> None:
        document = json.loads(content)
        if document.get("status") == "Success":
            self.returncode = 0
            return
        causes = (document.get("details") or {}).get("causes") or []
        exits = [each["message"] for each in causes if each.get("reason") == "ExitCode"]
        if exits:
            self.returncode = int(exits[0])
            return
        # A container that has ended runs nothing either: then the status stays unknown.
        why = str(document.get("message"))
        self.stderr.feed_data(why.encode())
        if any(words in why for words in NO_PROGRAM):
            self.returncode = CANNOT_RUN
