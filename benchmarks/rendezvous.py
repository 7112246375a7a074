"""Barrier and agreement between ranks over TCP, for frameworks without them (Fluid's trainers).

Rank 0 listens on its own reserved port; the others connect and stay connected. In one exchange,
every rank sends a line, and rank 0 answers each with its own number after all lines have arrived.
If a rank dies, its connection closes, and the others fail instead of waiting.
"""

import json
import operator
import socket
import time


class Rendezvous:
    """TCP connections of `world_size` ranks to rank 0 at `address` (host, port)."""

    def __init__(self, rank, world_size, address, patience_s=600.0):
        self._rank = rank
        if rank == 0:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
                listener.listen(world_size)
                listener.settimeout(patience_s)
                peers = [_timed(listener.accept()[0], patience_s) for _ in range(world_size - 1)]
        else:
            peers = [_timed(_connect(address, patience_s), patience_s)]
        self._streams = [peer.makefile("rw") for peer in peers]
        self._sockets = peers

    def agree(self, value, choose=operator.itemgetter(0)):
        """Return rank 0's number on every rank, or another choice from all ranks' numbers."""
        if self._rank:
            _send(self._streams[0], value)
            return _receive(self._streams[0])
        value = choose([value] + [_receive(stream) for stream in self._streams])
        for stream in self._streams:
            _send(stream, value)
        return value

    def least(self, value):
        """Return the smallest of all ranks' numbers; the connections must then be closed."""
        value = self.agree(value, min)
        # The side that closes first keeps its port in TIME_WAIT: let the clients close first.
        for stream in () if self._rank else self._streams:
            stream.readline()
        return value

    def barrier(self):
        """Return after all ranks have called it."""
        self.agree(0)

    def close(self):
        """Close the connections."""
        for connection in self._streams + self._sockets:
            connection.close()


def of_trainers(context, port=None):
    """Return the rendezvous of the gang's trainers on trainer 0's node; None for one trainer.

    Args:
        context: the context of the rank.
        port: name of the port; if None, trainer 0's own port.
    """
    if context.world_size == 1:
        return None
    host, own = context.address(context.trainers[0]["name"])
    return Rendezvous(context.rank, context.world_size, (host, context.ports.get(port, own)))


def least_of_trainers(context, value):
    """Return the smallest of the trainers' numbers, after all trainers have called it.

    Trainer 0 disconnects last: its port is free for the framework when this returns.
    """
    meeting = of_trainers(context)
    if meeting is None:
        return value
    try:
        return meeting.least(value)
    finally:
        meeting.close()


def _timed(connection, patience_s):
    connection.settimeout(patience_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _connect(address, patience_s):
    limit_s = time.monotonic() + patience_s
    while True:
        try:
            return socket.create_connection(address, timeout=5)
        except OSError:
            # Rank 0 may still be loading its framework.
            if time.monotonic() > limit_s:
                raise
            time.sleep(0.1)


def _send(stream, value):
    stream.write(json.dumps(value) + "\n")
    stream.flush()


def _receive(stream):
    line = stream.readline()
    if not line:
        raise RuntimeError("another rank has left the gang")
    return json.loads(line)
