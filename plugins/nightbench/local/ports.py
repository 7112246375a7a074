"""Ports on loopback: the usual ones if they are free, and the same ones the next time."""

import json
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields

import psutil

from nightbench.core.errors import UserError
from nightbench.local.home import Home, write_private

SEARCH = 200
"""How many ports above the usual one are tried."""


@dataclass(frozen=True)
class Ports:
    """One port for each service that listens; the defaults are the first choice.

    All are below 32768, where Linux begins to take ports for outgoing connections: one of those
    may get a port between its choice and the server's start.
    """

    api: int = 8080
    postgres: int = 15432
    cluster: int = 2222


def is_free(port: int, hosts: tuple[str, ...] = ("127.0.0.1",)) -> bool:
    """Return whether a server could listen on the port of all these addresses now."""
    for host in hosts:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As servers do it: a port with a connection that is still closing counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


def is_listening(port: int, pids: Iterable[int]) -> bool:
    """Return whether one of these processes listens on the port of 127.0.0.1."""
    for pid in pids:
        try:
            sockets = psutil.Process(pid).net_connections("tcp4")
        except psutil.Error:
            continue  # it has ended meanwhile
        if any(
            each.status == psutil.CONN_LISTEN
            and each.laddr.port == port
            and each.laddr.ip in ("127.0.0.1", "0.0.0.0")
            for each in sockets
        ):
            return True
    return False


def choose_ports(home: Home, reserved: ExitStack, running: frozenset[str] = frozenset()) -> Ports:
    """Return the ports of this home, and remember them.

    A remembered port is kept unless another process has taken it meanwhile. Until `reserved` is
    closed no other home is given these ports: a server may take half a minute before it listens.
    `running` names ports (fields of `Ports`) that our own services hold right now.

    Raises:
        UserError: no port was free in the range that was tried.
    """
    remembered = load_ports(home)
    chosen: dict[str, int] = {}
    for field in fields(Ports):
        first = getattr(remembered or Ports(), field.name)
        if remembered and field.name in running:
            chosen[field.name] = first
            continue
        chosen[field.name] = _next_free(field.name, first, reserved)
    ports = Ports(**chosen)
    if ports != remembered:
        write_private(home.ports_file, json.dumps(asdict(ports)) + "\n")
    return ports


def load_ports(home: Home) -> Ports | None:
    """Return the remembered ports, or None before the first `up`.

    Raises:
        UserError: the file is not what `choose` wrote.
    """
    if not home.ports_file.exists():
        return None
    try:
        return Ports(**{k: int(v) for k, v in json.loads(home.ports_file.read_text()).items()})
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"{home.ports_file}: not readable as ports ({error}). Remove the file to get new ports."
        ) from error


def _next_free(name: str, first: int, reserved: ExitStack) -> int:
    # The nodes of the local cluster listen on the same port of their own loopback addresses.
    hosts = ("127.0.0.1", "127.0.0.2", "127.0.0.3") if name == "cluster" else ("127.0.0.1",)
    for port in range(first, min(first + SEARCH, 65536)):
        if is_free(port, hosts) and _reserve(port, reserved):
            return port
    raise UserError(
        f"No free port for {name}: {first} to {first + SEARCH - 1} are in use on 127.0.0.1. Stop "
        "a program that listens there (list: ss -ltnp)."
    )


def _reserve(port: int, reserved: ExitStack) -> bool:
    """Hold the port's name in this network namespace until this process ends."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        name.bind(f"\0nightbench-port-{port}")
    except OSError:
        name.close()
        return False
    reserved.enter_context(name)
    return True
