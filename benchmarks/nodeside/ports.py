"""Ports: names in the job, real numbers reserved on the node until the start signal."""

from __future__ import annotations

import random
import socket
from typing import Sequence

from nodeside.files import AgentError


class PortReservation:
    """Bound sockets that reserve port numbers on the host.

    The wildcard address is bound, so that two nodes on one machine (each with a loopback address of
    its own) never reserve the same number. Frameworks listen on the wildcard too.
    """

    def __init__(self, names: Sequence[str], address: str, low: int, high: int) -> None:
        self.ports: dict[str, int] = {}
        self._sockets: list[socket.socket] = []
        family = _require_local(address)
        wildcard = "::" if family == socket.AF_INET6 else "0.0.0.0"
        numbers = list(range(low, high + 1))
        random.SystemRandom().shuffle(numbers)
        wanted = list(names)
        while wanted and numbers:
            held = socket.socket(family, socket.SOCK_STREAM)
            number = numbers.pop()
            try:
                held.bind((wildcard, number))
            except OSError:
                held.close()
                continue
            self._sockets.append(held)
            self.ports[wanted.pop(0)] = number
        if wanted:
            self.release()
            raise AgentError(
                "no free port for {} in {}-{}".format(", ".join(wanted), low, high),
                "widen `port_range` of this node",
            )

    def release(self) -> None:
        """Release the ports, just before the processes start."""
        for held in self._sockets:
            held.close()
        self._sockets = []


def _require_local(address: str) -> int:
    """Return the address family of `address`, after a check that the node has this address."""
    hint = "set `data_address` of this node to an address that it has"
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise AgentError(
            "data_address {} does not resolve on the node: {}".format(address, error), hint
        ) from error
    family, kind, protocol, _, target = found[0]
    with socket.socket(family, kind, protocol) as probe:
        try:
            probe.bind(target)
        except OSError as error:
            raise AgentError(
                "data_address {} is no address of this node: {}".format(address, error.strerror),
                hint,
            ) from error
    return family
