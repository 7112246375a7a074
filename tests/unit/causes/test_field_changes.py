"""A node's state, flat, and what changed of it."""

from nightbench.causes.field_changes import changes, flat
from nightbench.report.run_report import hardware_text

DOCUMENT = {
    "schema": "nightbench.fingerprint/1",
    "id": "ab",
    "host": "n1",
    "taken_at": "2026-03-01T01:00:00Z",
    "cpu": {"model": "EPYC", "flags": ["avx", "avx2"]},
    "memory_bytes": 2**36,
    "kernel": "6.1",
    "governor": None,
    "network": [{"name": "eth0", "speed_mbit_s": 10000, "state": "up"}],
    "gpus": [
        {"index": 0, "model": "H200", "driver": "550.1", "power_limit_w": 700.0},
        {"index": 1, "model": "H200", "driver": "550.1", "power_limit_w": 700.0},
    ],
    "packages": {"torch": "2.13.0"},
    "code_digest": "c1",
}


def test_a_fingerprint_as_fields() -> None:
    assert flat(DOCUMENT) == {
        "cpu.model": "EPYC",
        "cpu.flags": "avx, avx2",
        "memory_bytes": str(2**36),
        "kernel": "6.1",
        "network.eth0.name": "eth0",
        "network.eth0.speed_mbit_s": "10000",
        "network.eth0.state": "up",
        "gpus.0.index": "0",
        "gpus.0.model": "H200",
        "gpus.0.driver": "550.1",
        "gpus.0.power_limit_w": "700",
        "gpus.1.index": "1",
        "gpus.1.model": "H200",
        "gpus.1.driver": "550.1",
        "gpus.1.power_limit_w": "700",
    }


def test_what_changed_and_what_it_may_explain() -> None:
    old = flat(DOCUMENT)
    new = old | {
        "kernel": "6.2",
        "network.eth0.state": "down",
        "gpus.0.power_limit_w": "500",
        "gpus.1.power_limit_w": "800",
    }
    del new["memory_bytes"]
    found = {c.field: (c.is_clock, c.is_weak) for c in changes({"n1": old}, {"n1": new})}
    assert found == {
        "kernel": (False, False),
        "network.eth0.state": (False, True),
        "gpus.0.power_limit_w": (True, False),
        "gpus.1.power_limit_w": (True, True),
    }


def test_a_device_that_is_gone_is_told() -> None:
    old = flat(DOCUMENT)
    new = {name: value for name, value in old.items() if not name.startswith("gpus.1")}
    assert [c.label for c in changes({"n1": old}, {"n1": new})] == ["gpus.1.model H200 -> none"]
    blind = {name: value for name, value in old.items() if not name.startswith("gpus")}
    assert changes({"n1": old}, {"n1": blind}) == ()


def test_another_node_is_no_change() -> None:
    assert changes({"n1": {"kernel": "6.1"}}, {"n2": {"kernel": "6.2"}}) == ()


def test_each_port_of_a_network_card_has_its_fields() -> None:
    ports = [
        {"device": "mlx5_0", "port": 1, "rate": "100 Gb/sec", "link_layer": "InfiniBand"},
        {"device": "mlx5_0", "port": 2, "rate": "200 Gb/sec", "link_layer": "Ethernet"},
    ]
    slower = [ports[0] | {"rate": "25 Gb/sec"}, ports[1]]
    (found,) = changes({"n1": flat({"infiniband": ports})}, {"n1": flat({"infiniband": slower})})
    assert found.label == "infiniband.mlx5_0:1.rate 100 Gb/sec -> 25 Gb/sec"
    said = "mlx5_0:1 100 Gb/sec InfiniBand; mlx5_0:2 200 Gb/sec Ethernet"
    assert hardware_text(flat({"infiniband": ports})) == said
