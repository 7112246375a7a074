"""Commands and files in a pod, over the exec stream of the API server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from nightbench.core.model import KubernetesPolicy, ReasonCode, SlurmPolicy
from nightbench.core.pod_manifests import JOB, NODE, job_label, label_value
from nightbench.gang import pod_files
from nightbench.gang.conversation import FILE_TIMEOUT_S, as_document, time_limit
from nightbench.gang.errors import NodeUnreachable, PodError, RemoteFailure
from nightbench.gang.kubernetes_api import (
    ApiAccess,
    ApiRefused,
    ApiUnreachable,
    KubernetesApi,
    acquire_api,
    release_api,
)
from nightbench.gang.pod_events import cause_of_loss
from nightbench.gang.pod_process import PodProcess
from nightbench.gang.pod_states import PodState, code_of_refusal, state_of
from nightbench.gang.transport import (
    BEGIN,
    MARK,
    MIN_BYTES_PER_S,
    Pool,
    Transport,
    unique_beside,
)

PIECE_BYTES = 1 << 20
"""Bytes of a file in one request."""

_RUN_FILES = "import base64,sys;exec(base64.b64decode(sys.stdin.readline()))"
"""Runs the program that is the first line of its input: a command line would be too long."""


@dataclass(frozen=True)
class PodTarget:
    """How the pod of a node is reached."""

    node: str
    access: ApiAccess
    policy: KubernetesPolicy = field(compare=False, repr=False)
    python: str = field(compare=False)
    """Python in the pod."""
    shared: bool = field(default=False, compare=False)
    """Several pods may run on one machine."""
    job_id: str | None = None
    """The job whose pod it is; None: a node of the cluster, which has no pod."""
    slurm: SlurmPolicy | None = None

    @property
    def address(self) -> str:
        """Namespace and node, for messages."""
        return f"{self.policy.namespace}/{self.node}"

    def of_job(self, job_id: str) -> PodTarget:
        """Return how the pod of a job is reached."""
        return replace(self, job_id=job_id or None)

    def transport(self, pool: Pool) -> PodTransport:
        """Return a transport that removes itself from `pool` when it is closed."""
        return PodTransport(self, pool)


@contextlib.contextmanager
def node_errors(target: PodTarget) -> Iterator[None]:
    """Turn the errors of requests into errors of a node."""
    try:
        yield
    except ApiRefused as refused:
        code = code_of_refusal(refused.status, refused.message)
        raise PodError.of_code(target, refused.message, code) from refused
    except ApiUnreachable as error:
        raise NodeUnreachable.of(target, f"no answer of the API server ({error})") from error
    except TimeoutError as late:
        raise NodeUnreachable.of(target, str(late)) from late


class PodTransport(Transport):
    """Commands and files in the pod of a node; a lost pod is followed by the next one."""

    def __init__(self, target: PodTarget, pool: Pool | None = None) -> None:
        super().__init__(target, target.address, str(target.policy.user), pool)
        self._target = target
        self._api: KubernetesApi | None = None
        self._pod: PodState | None = None
        self._looking = asyncio.Lock()
        self._helper: PodProcess | None = None
        self._asking = asyncio.Lock()

    async def start(self, argv: Sequence[str]) -> PodProcess:
        """Start a command whose output begins after `MARK`; the caller closes it."""
        async with self.guard(f"start {argv[0]}", FILE_TIMEOUT_S):
            pod, api = await self._found()
            words = ["sh", "-c", BEGIN, "sh", *argv]
            return await api.execute(self._target.policy.namespace, pod.name, words)

    def not_run(self, command: str, status: int | None, said: bytes) -> RemoteFailure:
        """Return the error for a command that was not even begun."""
        tail = said.decode(errors="replace").strip()[-500:]
        return RemoteFailure.of(
            self, f"the pod did not run `{command}` (exit {status}): {tail!r}. Its image needs sh"
        )

    @contextlib.asynccontextmanager
    async def guard(
        self, what: str, timeout_s: float | None, need_bytes: int = 0
    ) -> AsyncIterator[None]:
        """Turn the errors of an operation into a `NodeError`."""
        try:
            async with time_limit(self, self._drop, what, timeout_s):
                yield
        except ApiUnreachable as error:
            self._drop()
            raise NodeUnreachable.of(self, f"no answer of the API server ({error})") from error
        except ApiRefused as error:
            if error.status in (401, 403):
                code = code_of_refusal(error.status, error.message)
                raise PodError.of_code(self, error.message, code) from error
            raise await self._loss(what, str(error)) from error
        except (ConnectionError, EOFError) as error:
            raise await self._loss(what, str(error)) from error
        except _FileError as error:
            full = error.number in (errno.ENOSPC, errno.EDQUOT)
            room = await self.free_space(error.path)
            raise self.refused(what, str(error), room, need_bytes, full) from error

    async def _loss(self, what: str, why: str) -> PodError | NodeUnreachable:
        """Return why a stream ended: its pod has, or only the connection."""
        known = self._pod
        self._drop()
        if known is not None:
            with contextlib.suppress(ApiRefused, ApiUnreachable):
                now = await self._look()
                if now is None or now.end is not None:
                    assert self._api is not None, "it has been asked"
                    name, namespace = (now or known).name, self._target.policy.namespace
                    code, said = await cause_of_loss(self._api, namespace, name, now)
                    return PodError.of_code(self, said, code)
        return NodeUnreachable.of(self, f"stream lost ({why}), wanted to {what}")

    async def _found(self) -> tuple[PodState, KubernetesApi]:
        """Return the node's pod, which runs."""
        async with self._looking:
            if self._pod is None:
                pod = await self._look()
                if pod is None:
                    raise PodError.of_code(self, "it has none", ReasonCode.POD_DELETED)
                if not pod.is_running:
                    code = pod.end or ReasonCode.POD_NOT_STARTED
                    raise PodError.of_code(self, pod.why or pod.waits or "not yet", code)
                self._pod, self._about = pod, None
            assert self._api is not None
            return self._pod, self._api

    async def _look(self) -> PodState | None:
        """Return the newest pod of the node; None where there is none."""
        target = self._target
        if target.job_id is None:
            raise RemoteFailure.of(self, "its pods exist only while a case is measured")
        if self._api is None:
            self._api = await acquire_api(target.access)
        labels = {JOB: job_label(target.job_id), NODE: label_value(target.node)}
        found = [state_of(pod) for pod in await self._api.pods(target.policy.namespace, labels)]
        return max(found, key=lambda pod: (pod.end is None, pod.created, pod.name), default=None)

    def _drop(self) -> None:
        self._pod = None
        if self._helper is not None:
            self._helper.close()
            self._helper = None
        for channel in self._channels.values():
            channel.end()

    async def disconnect(self) -> None:
        """Close the streams; processes in the pod keep running."""
        self._drop()
        if self._api is not None:
            self._api = None
            await release_api(self._target.access)

    # --- files ----------------------------------------------------------------------------

    async def _ask(
        self,
        what: str,
        do: str,
        path: str,
        limit_s: float = FILE_TIMEOUT_S,
        expected: int | None = None,
        need: int = 0,
        **more: Any,
    ) -> _Answer:
        """Return the answer to a request; with an error only if its number is `expected`."""
        async with self._asking, self.guard(what, limit_s, need):
            if self._helper is None or self._helper.ended:
                self._helper = await self._begin()
            helper = self._helper
            try:
                request = {"do": do, "path": path, **more}
                helper.stdin.write(json.dumps(request).encode() + b"\n")
                line = await helper.stdout.readline()
                document = as_document(line)
                if document is None:
                    raise ConnectionResetError("the file program ended without an answer")
            except BaseException:
                helper.close()  # a late answer must not pass for that of the next request
                self._helper = None
                raise
            number = document.get("errno")
            if number is not None and number != expected:
                raise _FileError(number, document["error"], path)
            return _Answer(document.get("value"), number is not None)

    async def _begin(self) -> PodProcess:
        helper = await self.start([self._target.python, "-uc", _RUN_FILES])
        try:
            helper.stdin.write(base64.b64encode(_program()) + b"\n")
            while (line := await helper.stdout.readline()).rstrip() != MARK.encode():
                if not line:
                    said = await helper.stderr.read()
                    raise self.not_run(self._target.python, helper.returncode, said)
        except BaseException:
            helper.close()
            raise
        return helper

    async def read(self, path: str) -> bytes | None:
        """Return the content of a file; None where there is none."""
        found = b""
        while (piece := await self._piece(path, len(found), PIECE_BYTES)) is not None:
            found += piece
            if len(piece) < PIECE_BYTES:
                return found
        return None

    async def _piece(self, path: str, begin: int, size: int) -> bytes | None:
        """Return a piece of a file; None where there is no file."""
        what, absent = f"read {path}", errno.ENOENT
        part = {"begin": begin, "size": min(PIECE_BYTES, size)}
        answer = await self._ask(what, "read", path, expected=absent, **part)
        return None if answer.failed else base64.b64decode(answer.value)

    async def piece(self, path: str, begin: int, size: int) -> bytes:
        """Return at most so many bytes of a file; none at its end."""
        return await self._piece(path, begin, size) or b""

    async def write_atomic(self, path: str, content: bytes) -> None:
        """Make a file appear with all its content, replacing one that is there."""
        what, beside = f"write {path}", unique_beside(path)
        for begin in range(0, max(len(content), 1), PIECE_BYTES):
            piece = content[begin : begin + PIECE_BYTES]
            await self._write(what, beside, begin, piece, len(content))
        await self._ask(what, "rename", beside, to=path)

    async def put_file(
        self, source: Path, path: str, mode: int = 0o644, digest: str | None = None
    ) -> None:
        """Upload a file; it appears complete or not at all. An interrupted upload begins again."""
        what, beside, size = f"upload {path}", unique_beside(path), source.stat().st_size
        begin = 0
        with source.open("rb") as file:
            while (piece := await asyncio.to_thread(file.read, PIECE_BYTES)) or begin == 0:
                await self._write(what, beside, begin, piece, size)
                begin += len(piece)
                if not piece:
                    break
        await self._ask(what, "chmod", beside, mode=mode)
        await self._ask(what, "rename", beside, to=path)

    async def _write(self, what: str, path: str, begin: int, piece: bytes, need: int) -> None:
        limit_s = FILE_TIMEOUT_S + len(piece) / MIN_BYTES_PER_S
        data = base64.b64encode(piece).decode()
        await self._ask(what, "write", path, limit_s, need=need, begin=begin, data=data)

    async def mkdir(self, path: str) -> bool:
        """Make one folder, atomically; return False where it existed already."""
        return not (await self._ask(f"make {path}", "mkdir", path, expected=errno.EEXIST)).failed

    async def make_folders(self, path: str) -> None:
        """Make a folder and all above it."""
        await self._ask(f"make {path}", "makedirs", path)

    async def rename(self, source: str, destination: str) -> bool:
        """Rename; return False where the destination is a folder that is not empty."""
        what, full = f"rename {source} to {destination}", errno.ENOTEMPTY
        answer = await self._ask(what, "rename", source, expected=full, to=destination)
        return not answer.failed

    async def exists(self, path: str) -> bool:
        """Return whether there is a file or a folder."""
        return bool((await self._ask(f"look at {path}", "exists", path)).value)

    async def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none where there is no such folder."""
        answer = await self._ask(f"list {path}", "listdir", path, expected=errno.ENOENT)
        return [] if answer.failed else list(answer.value)


@dataclass(frozen=True)
class _Answer:
    value: Any
    failed: bool
    """The operation failed as expected."""


class _FileError(Exception):
    """A file operation failed in the pod."""

    def __init__(self, number: int, why: str, path: str) -> None:
        self.number = number
        self.path = path
        super().__init__(why)


@cache
def _program() -> bytes:
    return Path(pod_files.__file__).read_bytes()
