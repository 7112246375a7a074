"""The traffic of a ring all-reduce over plain TCP: the speed of the network between nodes.

Each rank passes on the pieces of all ranks, as often as an all-reduce does, and adds nothing. All
ranks know the content of each piece, so that a corrupted byte is found.
"""

from __future__ import annotations

import errno
import hashlib
import json
import socket
import struct
import sys
import threading
import time
from typing import Any, Sequence

from nodeside.files import AgentError

TIMEOUT_S = 60.0
"""Limit for the arrival of other ranks and for all rounds: ranks must not outlive controllers."""
_SEED_BYTES = 32
_HELLO = struct.Struct("!32sI")


def allreduce(
    rank: int,
    world: int,
    port_range: tuple[int, int],
    size_bytes: int,
    rounds: int,
    address: str | None,
) -> dict[str, Any]:
    """Run one rank of the all-reduce; ports and peers are exchanged over stdin and stdout.

    Prints {"port": P}; reads one line, the JSON list of "address:port" of all ranks in order;
    returns {"seconds": [of each round], "bytes": of the buffer, "ranks"}. A buffer of B bytes
    makes 2 (N - 1) / N B cross each link in each direction.

    Raises:
        AgentError: a rank does not connect, a round takes too long, or the result is wrong.
    """
    if not 0 <= rank < world or world < 2:
        raise AgentError("rank {} of {} ranks: at least two ranks are needed".format(rank, world))
    if size_bytes < world or rounds < 1:
        raise AgentError("nothing to send: found {} bytes and {} rounds".format(size_bytes, rounds))
    server = _listen(address, port_range)
    try:
        print(json.dumps({"port": server.getsockname()[1]}), flush=True)
        peers = _peers(sys.stdin.readline(), world)
        right, left = _join(server, peers, rank)
    except OSError as error:
        raise AgentError("the ranks cannot connect to a ring: {}".format(error)) from error
    finally:
        server.close()
    try:
        return _run(right, left, rank, world, size_bytes, rounds)
    except OSError as error:
        raise AgentError("rank {}: {}".format(rank, error)) from error
    finally:
        right.close()
        left.close()


def _listen(address: str | None, port_range: tuple[int, int]) -> socket.socket:
    last: OSError | None = None
    for port in range(port_range[0], port_range[1] + 1):
        try:
            server = _bind(address, port)
        except OSError as error:
            last = error
            continue
        server.settimeout(TIMEOUT_S)
        return server
    raise AgentError(
        "no free port in {}-{}{}: {}".format(
            port_range[0], port_range[1], " on {}".format(address) if address else "", last
        ),
        "see `port_range` and `data_address` of this node in the cluster's YAML",
    )


def _bind(address: str | None, port: int) -> socket.socket:
    """Return a listening socket; without an address, on all interfaces over IPv6 and IPv4."""
    families = [socket.AF_INET6, socket.AF_INET]
    if address is not None:
        families = [socket.AF_INET6 if ":" in address else socket.AF_INET]
    for family in families:
        server = None
        try:
            server = socket.socket(family, socket.SOCK_STREAM)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bool(address)))
            server.bind((address or "", port))
            server.listen(8)
            return server
        except OSError as error:
            if server is not None:
                server.close()
            # A kernel without IPv6 lacks the family or the address; a port in use is another error.
            if family == families[-1] or error.errno == errno.EADDRINUSE:
                raise
    raise AssertionError("a list of families is never empty")


def _peers(line: str, world: int) -> list[tuple[str, int]]:
    try:
        found = [str(entry).rpartition(":") for entry in json.loads(line)]
        peers = [(host.strip("[]"), int(port)) for host, _, port in found]
    except (ValueError, TypeError) as error:
        raise AgentError("stdin has no list of addresses: {!r}".format(line[:200])) from error
    if len(peers) != world:
        raise AgentError("{} addresses on stdin for {} ranks".format(len(peers), world))
    return peers


def _join(
    server: socket.socket, peers: Sequence[tuple[str, int]], rank: int
) -> tuple[socket.socket, socket.socket]:
    """Return sockets to the rank on the right and from the rank on the left; accept no other."""
    world = len(peers)
    ring = hashlib.sha256(json.dumps(peers).encode()).digest()
    right = _connect(peers[(rank + 1) % world])
    right.sendall(_HELLO.pack(ring, rank))
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        server.settimeout(max(0.1, deadline - time.monotonic()))
        left = server.accept()[0]
        left.settimeout(5.0)
        try:
            said = _HELLO.unpack(_receive(left, _HELLO.size))
        except OSError:
            said = None  # a port scanner, or a client that hung up
        if said == (ring, (rank - 1) % world):
            break
        left.close()
    for link in (left, right):
        link.settimeout(TIMEOUT_S)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return right, left


def _connect(peer: tuple[str, int]) -> socket.socket:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return socket.create_connection(peer, timeout=10.0)
        except OSError as error:
            if time.monotonic() > deadline:
                raise AgentError(
                    "cannot reach {}:{}: {}".format(peer[0], peer[1], error),
                    "check for a firewall between the nodes' data addresses",
                ) from error
        time.sleep(0.1)


def _receive(link: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    view = memoryview(buffer)
    done = 0
    while done < size:
        count = link.recv_into(view[done:])
        if count == 0:
            raise ConnectionError("the other rank closed the connection")
        done += count
    return bytes(buffer)


def _run(
    right: socket.socket,
    left: socket.socket,
    rank: int,
    world: int,
    size_bytes: int,
    rounds: int,
) -> dict[str, Any]:
    chunk = -(-size_bytes // world)
    seconds = []
    deadline = time.monotonic() + TIMEOUT_S
    for number in range(rounds + 1):  # not counted: the first round opens the connections' windows
        pieces = [_piece(origin, number, chunk) for origin in range(world)]
        begin_s = time.monotonic()
        piece = pieces[rank]
        for step in range(2 * (world - 1)):
            if time.monotonic() > deadline:
                said = "rank {}: the rounds take longer than {:g} s".format(rank, TIMEOUT_S)
                raise AgentError(said)
            piece = _exchange(right, left, piece)
            if piece != pieces[(rank - 1 - step) % world]:
                raise AgentError("rank {}: the piece of step {} is wrong".format(rank, step))
        if number:
            seconds.append(time.monotonic() - begin_s)
    return {"seconds": seconds, "bytes": chunk * world, "ranks": world}


def _exchange(right: socket.socket, left: socket.socket, piece: bytes) -> bytes:
    """Send to the right while receiving from the left: with full buffers, sending first blocks."""
    wrong: list[OSError] = []

    def send() -> None:
        try:
            right.sendall(piece)
        except OSError as error:
            wrong.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        received = _receive(left, len(piece))
    finally:
        sender.join()
    if wrong:
        raise wrong[0]
    return received


def _piece(origin: int, number: int, size: int) -> bytes:
    """Return the piece of a rank in a round; every rank can compute those of all ranks."""
    seed = hashlib.shake_256("{}/{}".format(origin, number).encode()).digest(_SEED_BYTES)
    return (seed * -(-size // _SEED_BYTES))[:size]
