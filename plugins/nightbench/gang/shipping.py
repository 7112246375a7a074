"""Bringing code, uv and wheels to a node: each named by what it holds, sent only when absent."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import posixpath
import tarfile
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nightbench.core.code_digest import shipped_files
from nightbench.gang.errors import DiskFull, NodeUnreachable, RemoteFailure
from nightbench.gang.events import GangEvent, OnEvent
from nightbench.gang.layout import Layout
from nightbench.gang.shipment import Shipment
from nightbench.gang.transport import Transport
from nightbench.gang.wheelhouse import Wheel, digest_of

CLAIMED_BYTES = 1_000_000
"""Larger files are brought by one to a disk that several nodes share; the others wait for it."""

QUIET_S = 20.0
"""After so long without a byte more, who brought a file has gone."""

TOO_OLD = "import sys; sys.exit(0 if sys.version_info >= (3, 7) else 3)"


@dataclass(frozen=True)
class Shipped:
    """Where it all lies on the node."""

    code: str
    uv: str | None
    wheels: tuple[str, ...]
    wheelhouse: tuple[str, ...] | None
    """Folders with a wheel each; None where the node has an index."""


def pack(benchmarks: Path) -> bytes:
    """The shipped tree as a tar.gz that depends on nothing but its content."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in shipped_files(benchmarks):
            content = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


async def ship(
    transport: Transport,
    layout: Layout,
    shipment: Shipment,
    python: str,
    on_event: OnEvent,
    wheels: Sequence[Path] = (),
    house: Sequence[Wheel] | None = None,
) -> Shipped:
    """Bring everything to one node.

    Args:
        transport: the node.
        layout: paths on it.
        shipment: what to bring.
        python: the node's interpreter for the agent.
        on_event: hears of everything that was really sent.
        wheels: builds under test.
        house: wheels for an environment that is built without an index.

    Raises:
        RemoteFailure: no interpreter, no rights, or an archive that does not unpack.
        DiskFull: no room.
    """
    code = await ship_code(transport, layout, shipment, python, on_event)
    uv = None
    if shipment.uv is not None:
        uv = layout.uv(shipment.uv_version)
        digest = await asyncio.to_thread(digest_of, shipment.uv)
        await _put(transport, shipment.uv, uv, 0o755, on_event, digest)
    brought = []
    for wheel in wheels:
        digest = await asyncio.to_thread(digest_of, wheel)
        brought.append(layout.wheel(digest, wheel.name))
        await _put(transport, wheel, brought[-1], 0o644, on_event, digest)
    return Shipped(code, uv, tuple(brought), await _ship_house(transport, layout, house, on_event))


async def machine_of(transport: Transport) -> str:
    """The node's machine, as `uname -m` says it."""
    done = await transport.run(["uname", "-m"], timeout_s=60)
    return done.stdout.decode(errors="replace").strip()


async def _ship_house(
    transport: Transport, layout: Layout, house: Sequence[Wheel] | None, on_event: OnEvent
) -> tuple[str, ...] | None:
    """Bring the wheels that an environment needs; each folder is named by its wheel's hash."""
    if house is None:
        return None
    folders = []
    for wheel in house:
        path = layout.wheel(wheel.digest, wheel.path.name)
        await _put(transport, wheel.path, path, 0o644, on_event, wheel.digest)
        folders.append(posixpath.dirname(path))
    return tuple(folders)


async def ship_code(
    transport: Transport, layout: Layout, shipment: Shipment, python: str, on_event: OnEvent
) -> str:
    """Bring `benchmarks/` to one node, unless the same tree is there; returns its folder."""
    await require_python(transport, python)
    digest = await asyncio.to_thread(shipment.code_digest)
    code = layout.code(digest)
    if await transport.exists(code):
        return code
    archive = await asyncio.to_thread(pack, shipment.benchmarks)
    on_event(
        GangEvent("ship", f"code {digest[:12]} ({len(archive) / 1000:.0f} kB)", transport.node)
    )
    # Unpacked beside and renamed: whoever sees the folder sees all of it.
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
    return code


async def require_python(transport: Transport, python: str) -> None:
    """Check the interpreter that runs the agent.

    Raises:
        RemoteFailure: there is none, or it is older than 3.7.
    """
    found = await transport.run([python, "-c", TOO_OLD], timeout_s=60)
    if found.exit == 0:
        return
    said = found.stderr.decode(errors="replace").strip().splitlines()
    why = "is older than 3.7" if found.exit == 3 else f"does not run: {said[-1] if said else '?'}"
    raise RemoteFailure(
        transport.node,
        transport.address,
        f"{python} {why}. The agent needs Python 3.7 or newer: name one under "
        "environments.python in the cluster's YAML",
    )


def remote_failure(transport: Transport, what: str, stderr: bytes) -> RemoteFailure | DiskFull:
    """The error for a command that failed, by what it wrote to stderr."""
    tail = stderr.decode(errors="replace").strip()[-1500:]
    if "No space left on device" in tail or "Disk quota exceeded" in tail:
        return DiskFull(
            transport.node,
            transport.address,
            f"no room to {what}. Make room there, or put environments.root on another disk "
            "(cluster YAML)",
        )
    return RemoteFailure(transport.node, transport.address, f"could not {what}: {tail}")


async def _put(
    transport: Transport,
    source: Path,
    path: str,
    mode: int,
    on_event: OnEvent,
    digest: str | None = None,
) -> None:
    """Bring a file unless it is there; with its sha256 an upload that broke off goes on."""
    if await transport.exists(path):
        return
    size = source.stat().st_size
    await transport.make_folders(posixpath.dirname(path))
    claim = f"{path}.bringing"
    claimed = digest is not None and size > CLAIMED_BYTES
    if claimed and not await transport.mkdir(claim):
        said = f"{source.name}: waiting, it is being brought for another node or by another run"
        on_event(GangEvent("ship", said, transport.node))
        if await _brought_by_another(transport, path):
            return
    on_event(GangEvent("ship", f"{source.name} ({size / 1e6:.1f} MB)", transport.node))
    try:
        await transport.put_file(source, path, mode, digest)
    finally:
        if claimed:
            with contextlib.suppress(NodeUnreachable):  # then it is quiet, and others go on
                await transport.run(["rm", "-rf", claim], timeout_s=60)


async def _brought_by_another(transport: Transport, path: str) -> bool:
    """Wait while a file grows on a disk that several nodes share; False once it stands still."""
    clock = asyncio.get_running_loop().time
    seen, since_s = b"", clock()
    while clock() - since_s < QUIET_S:
        if await transport.exists(path):
            return True
        # The folder's listing: sizes and names of what grows there.
        found = await transport.run(["ls", "-lnA", posixpath.dirname(path)], timeout_s=60)
        if found.stdout != seen:
            seen, since_s = found.stdout, clock()
        await asyncio.sleep(1)
    return await transport.exists(path)
