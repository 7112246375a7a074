"""The transport that a rank really uses, read from its sockets and from NCCL's log.

It has the form `backend/network/interface` with the known parts: `gloo/socket/eth0`. NCCL chooses
interfaces by itself. Its channels, algorithm and protocol follow instead: `nccl/ib/16 channels`,
`nccl/ib/16 channels/ring simple`.
"""

import collections
import fcntl
import os
import re
import socket
import struct

_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B
_ESTABLISHED = "01"
_VIA = re.compile(r" via ((?:NET|P2P|SHM|NVLS|COLLNET)(?:/[A-Za-z]+)?)")
_NETWORK = re.compile(r"(?:Using network |NET/)(IB|Socket|[A-Za-z][A-Za-z ]*[A-Za-z])\b")
_CHANNELS = re.compile(r" (\d+) coll channels,")
_CHOICE = re.compile(r" (\d+) Bytes -> Algo (\w+) proto (\w+)")
# NCCL 2.19 to 2.22 write numbers.
_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_PROTOCOLS = ("ll", "ll128", "simple")

NCCL_LOG = "nccl.log"


def listen_to_nccl(environment):
    """Make NCCL log how its ranks are connected; call this before NCCL is initialised.

    NCCL logs while it connects and is silent in the window. If NCCL_DEBUG_SUBSYS has TUNING, it
    writes a line for each collective. A log that the site has set by NCCL_DEBUG_FILE keeps its
    path.
    """
    environment.setdefault("NCCL_DEBUG", "INFO")
    environment.setdefault("NCCL_DEBUG_SUBSYS", "INIT,NET")
    folder = environment.get("NIGHTBENCH_PROCESS_DIR")
    if folder:
        environment.setdefault("NCCL_DEBUG_FILE", os.path.join(folder, NCCL_LOG))


def of_nccl(environment):
    """Return `nccl/ib`, `nccl/socket`, `nccl/p2p`, ... from NCCL's log; `nccl` without one."""
    path = environment.get("NCCL_DEBUG_FILE")
    try:
        with open(path or "", errors="replace") as log:
            return nccl_transport(log.read())
    except OSError:
        return "nccl"


def nccl_transport(log):
    """Return the transport of the channels between ranks, from the text of NCCL's log.

    Channels over a network have priority over channels inside a node. Without any channel (one
    rank), the result has the network that NCCL chose. The algorithm that moved most bytes is named;
    only rank 0 logs it.
    """
    networks, inside = set(), set()
    for found in _VIA.findall(log):
        kind, _, network = found.partition("/")
        if kind == "NET":
            networks.add(network.lower())
        else:
            inside.add(kind.lower())
    if not networks and not inside:
        networks = {name.lower().replace(" ", "_") for name in _NETWORK.findall(log)[-1:]}
    words = ["nccl"] + ["+".join(sorted(networks or inside))] * bool(networks or inside)
    channels = sorted(set(map(int, _CHANNELS.findall(log))))
    if channels and words[1:]:
        words.append("{} channels".format("+".join(map(str, channels))))
        carried = collections.Counter()
        for size, algorithm, protocol in _CHOICE.findall(log):
            carried[_name(algorithm, _ALGORITHMS), _name(protocol, _PROTOCOLS)] += int(size)
        words += [" ".join(choice) for choice, _ in carried.most_common(1)]
    return "/".join(words)


def _name(word, names):
    return names[int(word)] if word.isdigit() and int(word) < len(names) else word.lower()


def of_sockets(backend, store_port=None):
    """Return backend and interfaces of this process's connections to ranks: `gloo/socket/eth0`.

    Args:
        backend: library that exchanges the gradients.
        store_port: port of the rendezvous, whose connections carry no gradients.
    """
    names = sorted(interfaces(store_port))
    return "/".join([backend, "socket"] + ["+".join(names)] * bool(names))


def interfaces(without_port=None):
    """Return the network interfaces of this process's established TCP connections."""
    mine = _own_sockets()
    found = set()
    for family, path in ((socket.AF_INET, "/proc/self/net/tcp"),
                         (socket.AF_INET6, "/proc/self/net/tcp6")):  # fmt: skip
        for words in _lines(path)[1:]:
            if len(words) < 10 or words[3] != _ESTABLISHED or words[9] not in mine:
                continue
            address, port = words[1].split(":")
            if without_port in (int(port, 16), int(words[2].split(":")[1], 16)):
                continue
            name = _interface_of(family, _address(family, address))
            if name:
                found.add(name)
    return found


def interface_of(host):
    """Return the network interface that has the address of a host name; None if there is none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    except socket.gaierror:
        return None
    return _interface_of(family, socket.inet_pton(family, address[0].partition("%")[0]))


def _own_sockets():
    inodes = set()
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + entry)
        except OSError:
            continue  # the listing's own
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes


def _lines(path):
    """Return the words of each line of a kernel file; empty if the file is absent."""
    try:
        with open(path) as table:
            return [line.split() for line in table]
    except OSError:
        return []


def _address(family, text):
    """Return an address as bytes; the kernel writes it as 32-bit words in the machine's order."""
    size = 4 if family == socket.AF_INET else 16
    words = [int(text[i : i + 8], 16) for i in range(0, size * 2, 8)]
    packed = struct.pack("={}I".format(len(words)), *words)
    if family == socket.AF_INET6 and packed[:12] == b"\0" * 10 + b"\xff\xff":
        return packed[12:]  # an IPv4 peer of an IPv6 socket
    return packed


def _interface_of(family, packed):
    if len(packed) == 16:
        for words in _lines("/proc/net/if_inet6"):
            if len(words) > 5 and bytes.fromhex(words[0]) == packed:
                return words[5]
        return None
    within = None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            own = _ask(probe, _SIOCGIFADDR, name)
            if own == packed:
                return name
            mask = _ask(probe, _SIOCGIFNETMASK, name)
            if own and mask and all(a & m == b & m for a, b, m in zip(own, packed, mask)):
                within = within or name  # a second address of the interface, 127.0.0.2 of lo
    return within


def _ask(probe, request, name):
    try:
        answer = fcntl.ioctl(probe, request, struct.pack("256s", name.encode()[:15]))
    except OSError:
        return None  # an interface without an IPv4 address
    return answer[20:24]
