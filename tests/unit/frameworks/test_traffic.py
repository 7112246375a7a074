"""What ranks talk over, from real sockets and from texts as NCCL writes them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import traffic  # noqa: E402 - found by the path above

IB = """\
n1:71:71 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:71:71 [0] NCCL INFO Using network IB
n1:71:90 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/IB/0/GDRDMA
n1:71:90 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
"""
FELL_BACK = """\
n1:71:71 [0] NCCL INFO NET/IB : No device found.
n1:71:71 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
n1:71:71 [0] NCCL INFO Using network Socket
n1:71:90 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
"""

CHANNELS = (
    "n1:71:90 [0] NCCL INFO 16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p "
    "channels, 2 p2p channels per peer\n"
)
TUNING = """\
n1:71:71 [0] NCCL INFO Broadcast: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
n1:7:7 [0] NCCL INFO AllReduce: 262144 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}
n1:71:71 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}
"""
TUNING_2_20 = "n1:71:71 [0] NCCL INFO 26214400 Bytes -> Algo 0 proto 1 time 54.707825\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (IB + CHANNELS, "nccl/ib/16 channels"),
        (IB + CHANNELS + CHANNELS.replace("16 coll", "8 coll"), "nccl/ib/8+16 channels"),
        (IB + CHANNELS + TUNING, "nccl/ib/16 channels/nvls_tree simple"),
        (IB + CHANNELS + TUNING_2_20, "nccl/ib/16 channels/tree ll128"),
        (IB, "nccl/ib"),
        (FELL_BACK, "nccl/socket"),
        (IB + FELL_BACK, "nccl/ib+socket"),
        ("n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n", "nccl/p2p"),
        ("n1:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n", "nccl/shm"),
        (FELL_BACK.rsplit("\n", 2)[0], "nccl/socket"),
        ("", "nccl"),
    ],
)
def test_nccl_by_its_log(log, told):
    assert traffic.nccl_transport(log) == told


def test_nccl_is_asked_to_write_its_log_and_may_be_silent(tmp_path):
    environment = {"NIGHTBENCH_PROCESS_DIR": str(tmp_path)}
    traffic.listen_to_nccl(environment)
    assert traffic.of_nccl(environment) == "nccl"
    Path(environment["NCCL_DEBUG_FILE"]).write_text(IB)
    assert traffic.of_nccl(environment) == "nccl/ib"


def test_gloo_by_the_sockets_of_the_process():
    assert "lo" not in traffic.interfaces()
    for host in ("127.0.0.1", "127.0.0.2"):
        with socket.create_server((host, 0)) as server:
            port = server.getsockname()[1]
            with socket.create_connection((host, port)) as client, server.accept()[0]:
                assert traffic.of_sockets("gloo") == "gloo/socket/lo"
                assert traffic.of_sockets("gloo", port) == "gloo/socket", (
                    "the rendezvous does not count"
                )
                assert client


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_gloo_over_ipv6():
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("needs IPv6")
    with server, socket.create_connection(server.getsockname()[:2]) as client, server.accept()[0]:
        assert traffic.of_sockets("gloo") == "gloo/socket/lo"
        assert client


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: it makes a network namespace")
def test_the_interface_that_is_really_used_is_told():
    """Two interfaces in a namespace of their own; the traffic takes the second."""
    script = (
        "import socket, traffic\n"
        "server = socket.create_server(('10.77.1.1', 0))\n"
        "client = socket.create_connection(server.getsockname(), source_address=('10.77.1.1', 0))\n"
        "peer = server.accept()[0]\n"
        "print(traffic.of_sockets('gloo'))\n"
    )
    setup = (
        "ip link set lo up; ip link add dat0 type veth peer name dat1; "
        "ip addr add 10.77.0.1/24 dev dat0; ip addr add 10.77.1.1/24 dev dat1; "
        'ip link set dat0 up; ip link set dat1 up; exec "$@"'
    )
    call = ["unshare", "-n", "sh", "-ec", setup, "sh", sys.executable, "-c", script]
    done = subprocess.run(call, cwd=BENCHMARKS, capture_output=True, text=True, timeout=300)
    if done.returncode != 0 and "Operation not permitted" in done.stderr:
        pytest.skip("needs a machine that allows network namespaces")
    assert done.stdout == "gloo/socket/dat1\n", done.stderr


@pytest.mark.parametrize(
    ("host", "interface"),
    [("127.0.0.1", "lo"), ("127.0.0.2", "lo"), ("no-such.invalid", None)],
)
def test_the_interface_of_an_address(host: str, interface: str | None) -> None:
    assert traffic.interface_of(host) == interface


def test_an_address_of_one_link_names_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the C library gives it: with the scope behind."""
    found = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%eth0", 0, 0, 2))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert traffic.interface_of("node-a") is None
