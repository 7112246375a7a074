"""Answers of nodes: of a command that answers line by line, and JSON objects."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from nightbench.gang.errors import DamagedAnswer, NodeUnreachable, Place, RemoteFailure
from nightbench.gang.process import RemoteProcess

FILE_TIMEOUT_S = 30.0
"""For an operation on a small file, and for an answer; uploads have their own."""

NOISE_LINES = 50
"""Lines that a node's Python may print before its first answer: of a wrapper, or sitecustomize."""


class Guard(Place, Protocol):
    """A node whose connection turns the errors of an operation into a `NodeError`."""

    def guard(self, what: str, timeout_s: float | None) -> AbstractAsyncContextManager[None]:
        """See `Transport.guard`."""


@contextlib.asynccontextmanager
async def time_limit(
    place: Place, drop: Callable[[], None], what: str, timeout_s: float | None
) -> AsyncIterator[None]:
    """Drop the connection to a node if an operation takes too long.

    Raises:
        NodeUnreachable: the operation took too long.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        drop()
        raise NodeUnreachable.of(place, f"no answer within {timeout_s:.0f} s to: {what}") from error


class Conversation:
    """A command that answers each line of its input with one line."""

    def __init__(
        self,
        transport: Guard,
        process: RemoteProcess,
        answer_s: float = FILE_TIMEOUT_S,
    ) -> None:
        self._transport = transport
        self._process = process
        self._answer_s = answer_s

    async def ask(self, line: str) -> str:
        """Send one line; return the answer without its line end."""
        with contextlib.suppress(BrokenPipeError):  # it has ended: stderr holds the reason
            self._process.stdin.write(line.encode() + b"\n")
        return await self.read_line()

    async def ask_document(self, what: str, line: str) -> dict[str, Any]:
        """Send one line; return the JSON object that answers it, after what else is printed.

        Raises:
            DamagedAnswer: there is none within `NOISE_LINES` lines.
        """
        answer = await self.ask(line)
        first = answer
        for _ in range(NOISE_LINES):
            document = as_document(answer)
            if document is not None:
                return document
            answer = await self.read_line()
        raise no_document(self._transport, what, first.encode())

    async def read_line(self) -> str:
        """Return the next line of its output without its line end."""
        async with self._transport.guard("converse", self._answer_s):
            answer = await self._process.stdout.readline()
            if not answer:
                why = (await self._process.stderr.read()).decode(errors="replace").strip()
                raise RemoteFailure.of(self._transport, f"no answer: {why[-500:]}")
            return answer.decode(errors="replace").rstrip("\n")


def as_document(line: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object in a text; None if it holds something else."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def no_document(place: Place, what: str, said: bytes) -> DamagedAnswer:
    """Return the error for an answer of a node that is no JSON object."""
    return DamagedAnswer.of(
        place,
        f"`{what}`: expected a JSON object; found {said[:80]!r}"
        + (f" and {len(said) - 80} more bytes" if len(said) > 80 else ""),
    )
