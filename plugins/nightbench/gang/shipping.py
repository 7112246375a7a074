"""Shipping code, uv and wheels to a node: each named by its digest, sent only when absent."""

import asyncio
import contextlib
import gzip
import io
import posixpath
import subprocess
import tarfile
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nightbench.config.locations import uv_binary
from nightbench.core.code_digest import code_digest, file_digest, shipped_files
from nightbench.core.errors import UserError
from nightbench.core.model import EnvironmentPolicy
from nightbench.gang.errors import (
    EnvironmentUnavailable,
    GangError,
    NodeUnreachable,
    remote_failure,
)
from nightbench.gang.node_access import Agent, Layout
from nightbench.gang.node_files import require_python
from nightbench.gang.progress import GangEvent, OnEvent
from nightbench.gang.transport import Transport
from nightbench.gang.uv_binary import uv_for
from nightbench.gang.wheels import Wheel

CLAIM_BYTES = 1_000_000
"""Size from which only one upload goes to a disk that nodes share; the others wait for it."""

STALLED_S = 20.0
"""A file that has not grown for so long has lost its uploader."""

UV_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Shipment:
    """The files that the controller ships to the nodes of a cluster."""

    benchmarks: Path
    """The `benchmarks/` folder."""
    uv: Path | None = None
    """This machine's uv binary, for nodes of its architecture; None if they have their own."""
    uv_version: str = ""
    wheelhouse: Path | None = None
    """Folder of wheels for nodes without an index."""

    def code_digest(self) -> str:
        """Return the digest of the tree, which names it on the nodes."""
        return code_digest(self.benchmarks)


def local_shipment(wheelhouse: str | None, benchmarks: Path) -> Shipment:
    """Return what this machine has for the nodes.

    Raises:
        UserError: the uv binary is not there, or does not run.
    """
    uv = uv_binary()
    return Shipment(
        benchmarks=benchmarks,
        uv=uv,
        uv_version=_uv_version(uv) if uv else "",
        wheelhouse=Path(wheelhouse) if wheelhouse else None,
    )


@lru_cache(maxsize=4)
def _uv_version(uv: Path) -> str:
    done = subprocess.run(
        [str(uv), "--version"], capture_output=True, text=True, timeout=UV_TIMEOUT_S, check=False
    )
    words = done.stdout.split()
    if done.returncode != 0 or len(words) < 2:
        raise UserError(f"{uv} --version: found {done.stdout or done.stderr!r}; expected a version")
    return words[1]


@dataclass(frozen=True)
class Shipped:
    """Paths of the shipped things on the node."""

    agent: Agent
    uv: str | None
    wheel: str | None
    wheelhouse: tuple[str, ...] | None
    """Folders with a wheel each; None if the node has an index."""


def pack(benchmarks: Path, project: Path | None = None) -> bytes:
    """Return the shipped tree as a tar.gz that depends only on its content."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in shipped_files(benchmarks, project):
            content = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


async def ship(
    transport: Transport,
    policy: EnvironmentPolicy,
    shipment: Shipment,
    on_event: OnEvent,
    wheel: Path | None = None,
    wheelhouse: Sequence[Wheel] | None = None,
    with_uv: bool = True,
) -> Shipped:
    """Ship everything to one node.

    `wheel` is the build under test, `wheelhouse` what an environment is built from without an
    index.

    Raises:
        RemoteFailure: no interpreter, no rights, or an archive that does not unpack.
        DiskFull: no room.
        EnvironmentUnavailable: there is no uv for the node's machine.
    """
    agent = await ship_agent(transport, policy, shipment, on_event)
    layout, uv, uploaded = agent.layout, None, None
    if with_uv and shipment.uv is not None:
        machine, version = await transport.machine(), shipment.uv_version
        choice = machine, shipment.uv, version, shipment.wheelhouse
        try:
            binary = await asyncio.to_thread(uv_for, *choice)
        except GangError as error:
            raise EnvironmentUnavailable.of(transport, str(error)) from error
        uv = layout.uv(version, machine)
        digest = await asyncio.to_thread(file_digest, binary)
        await _put(transport, binary, uv, 0o755, on_event, digest)
    if wheel is not None:
        digest = await asyncio.to_thread(file_digest, wheel)
        uploaded = layout.wheel(digest, wheel.name)
        await _put(transport, wheel, uploaded, 0o644, on_event, digest)
    folders = await _ship_wheels(transport, layout, wheelhouse, on_event)
    used = {*([posixpath.dirname(uploaded)] if uploaded else []), *(folders or ())}
    if used:
        # `clean` removes what was not used for long: the age of a folder counts from its last use.
        await transport.run(["touch", "-c", *sorted(used)], timeout_s=60)
    return Shipped(agent, uv, uploaded, folders)


async def _ship_wheels(
    transport: Transport, layout: Layout, wheels: Sequence[Wheel] | None, on_event: OnEvent
) -> tuple[str, ...] | None:
    """Ship the wheels of an environment; return their folders, each named by its wheel's hash."""
    if wheels is None:
        return None
    folders = []
    for wheel in wheels:
        path = layout.wheel(wheel.digest, wheel.path.name)
        await _put(transport, wheel.path, path, 0o644, on_event, wheel.digest)
        folders.append(posixpath.dirname(path))
    return tuple(folders)


async def ship_agent(
    transport: Transport, policy: EnvironmentPolicy, shipment: Shipment, on_event: OnEvent
) -> Agent:
    """Ship `benchmarks/` to one node unless it has the same tree; return its agent."""
    digest = await asyncio.to_thread(shipment.code_digest)
    agent = await Agent.of(transport, policy, digest)
    layout, code = agent.layout, agent.code
    if await transport.exists(code):
        return agent
    python = policy.python
    await require_python(transport, python)
    archive = await asyncio.to_thread(pack, shipment.benchmarks)
    on_event(
        GangEvent("ship", f"code {digest[:12]} ({len(archive) / 1000:.0f} kB)", transport.node)
    )
    # Unpacked under another name and renamed: the folder is complete from its first moment.
    beside = posixpath.join(layout.root, "code", f".{digest[:12]}-{uuid.uuid4().hex[:8]}")
    await transport.make_folders(posixpath.dirname(code))
    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as file:
        file.write(archive)
        file.flush()
        await transport.put_file(Path(file.name), f"{beside}.tar.gz")
    unpacked = await transport.run(
        [python, "-m", "tarfile", "-e", f"{beside}.tar.gz", beside], timeout_s=120
    )
    if unpacked.exit == 0 and not await transport.rename(beside, code):
        await transport.run(["rm", "-rf", beside])
    await transport.run(["rm", "-f", f"{beside}.tar.gz"])
    if unpacked.exit != 0:
        await transport.run(["rm", "-rf", beside])
        raise remote_failure(transport, "unpack the code", unpacked.stderr)
    return agent


async def _put(
    transport: Transport,
    source: Path,
    path: str,
    mode: int,
    on_event: OnEvent,
    digest: str,
) -> None:
    """Upload a file unless it is there; an interrupted upload is resumed."""
    if await transport.exists(path):
        return
    size = source.stat().st_size
    await transport.make_folders(posixpath.dirname(path))
    claim = f"{path}.uploading"
    claimed = size > CLAIM_BYTES
    if claimed and not await transport.mkdir(claim):
        said = f"{source.name}: waiting: another node or run is uploading it"
        on_event(GangEvent("ship", said, transport.node))
        if await _uploaded_by_another(transport, path):
            return
    try:
        # Another's upload may have ended between the first look and the claim.
        if not (claimed and await transport.exists(path)):
            on_event(GangEvent("ship", f"{source.name} ({size / 1e6:.1f} MB)", transport.node))
            await transport.put_file(source, path, mode, digest)
    finally:
        if claimed:
            with contextlib.suppress(NodeUnreachable):  # the others see that it has stalled
                await transport.run(["rm", "-rf", claim], timeout_s=60)


async def _uploaded_by_another(transport: Transport, path: str) -> bool:
    """Wait while a file grows on a disk that nodes share; return False once it has stalled."""
    clock = asyncio.get_running_loop().time
    seen, since_s = b"", clock()
    while clock() - since_s < STALLED_S:
        if await transport.exists(path):
            return True
        # The folder's listing: sizes and names of what grows there.
        found = await transport.run(["ls", "-lnA", posixpath.dirname(path)], timeout_s=60)
        if found.stdout != seen:
            seen, since_s = found.stdout, clock()
        await asyncio.sleep(1)
    return await transport.exists(path)
