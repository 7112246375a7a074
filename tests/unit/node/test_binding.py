"""Which cores processes get, by tables as `nvidia-smi topo -m` prints them."""

from __future__ import annotations

from typing import Any

import pytest
from nodeside import binding

HEADER = "GPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
LINKS = " X \tNV18\tNV18\tNV18\tSYS"
SOCKETS = ["0-3,8-11", "0-3,8-11", "4-7,12-15", "4-7,12-15"]
GANG = {f"trainer-{n}": str(n) for n in range(4)}


def facts(cores: list[str], header: str = HEADER) -> dict[str, Any]:
    rows = [f"GPU{n}\t{LINKS}\t{text}\t{n // 2}\t\tN/A" for n, text in enumerate(cores)]
    legend = "NIC0\tSYS\tSYS\tSYS\tSYS\t X \n\nLegend:\n\n  X    = Self"
    return {
        "gpus": [{"index": n, "uuid": f"GPU-{n}"} for n in range(len(cores))],
        "gpu_topology": "\n".join([header, *rows, legend]),
    }


@pytest.fixture(autouse=True)
def two_threads_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Core n and n + 8 are threads of one."""

    def siblings(path: str) -> str:
        core = int(path.split("/cpu")[-1].split("/")[0]) % 8
        return f"{core},{core + 8}"

    monkeypatch.setattr(binding, "read_text", siblings)


def bound(
    devices: dict[str, str] = GANG,
    cores: list[str] = SOCKETS,
    allowed: range | list[int] = range(16),
    with_others: bool = False,
    header: str = HEADER,
) -> dict[str, str]:
    found = binding.beside_devices(devices, facts(cores, header), list(allowed), with_others)
    return {name: binding.as_ranges(share) for name, share in found.items()}


def test_ranks_share_their_socket_by_whole_cores() -> None:
    assert bound() == {
        "trainer-0": "0-1,8-9",
        "trainer-1": "2-3,10-11",
        "trainer-2": "4-5,12-13",
        "trainer-3": "6-7,14-15",
    }
    assert bound({"a": "GPU-3"}) == {"a": "4-7,12-15"}, "alone there, named by its UUID"
    assert bound({"a": "3"}, with_others=True) == {"a": "6-7,14-15"}, "GPU 2 is another job's"


def test_a_job_with_fewer_cores_keeps_to_them() -> None:
    assert bound(allowed=[0, 8, 1, 9, 4, 12]) == {
        "trainer-0": "0,8",
        "trainer-1": "1,9",
        "trainer-2": "4,12",
        "trainer-3": "4,12",
    }
    assert bound(allowed=range(4)) == {}, "none of its cores is beside GPUs 2 and 3"


@pytest.mark.parametrize(
    "facts",
    [
        {"cores": ["0-15"] * 4},
        {"cores": ["0-15", "N/A", "0-15", "0-15"]},
        {"cores": SOCKETS[:3]},
        {"header": "GPU0\tGPU1\tGPU2\tGPU3\tNIC0"},
        {"devices": {"a": "MIG-5a1e"}},
        {"devices": {}},
    ],
    ids=["one NUMA node", "unknown", "a GPU is missing", "old driver", "MIG", "no GPU"],
)
def test_a_node_without_the_facts_is_left_as_it_is(facts: dict[str, Any]) -> None:
    assert bound(**facts) == {}


def test_no_table_and_no_gpu_bind_nothing() -> None:
    nothing = {"gpus": [], "gpu_topology": None}
    assert binding.beside_devices({"a": "0"}, nothing, [0, 1], False) == {}


@pytest.mark.parametrize("text", ["0", "0-3", "0-3,8", "1,3,5-6"])
def test_lists_of_cores_are_written_as_they_are_read(text: str) -> None:
    assert binding.as_ranges(binding.cores_in(text)) == text
