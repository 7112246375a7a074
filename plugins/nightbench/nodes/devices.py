"""Findings about cores, GPUs and links."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nightbench.core.model import Cluster, FrameworkInfo, Node
from nightbench.core.variants import variant_of
from nightbench.nodes.node_preflight import Finding, FindingLevel, fail, info, warn

Document = Mapping[str, Any]

MIN_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""CUDA's major version -> the oldest Linux driver that runs it (NVIDIA, CUDA Compatibility)."""

HOT_C = 80.0
"""Degrees Celsius: an idle GPU has 30 to 50."""


def governor(document: Document, cluster: Cluster) -> Iterator[Finding]:
    """The frequency governor, compared with the YAML."""
    found, wanted = document["cpu"]["governors"], cluster.health.governor
    advice = "`cpupower frequency-set -g {}` as root, and at boot"
    if wanted and found and found != [wanted]:
        yield fail(
            "governor", ", ".join(found), f"{wanted} (health.governor)", advice.format(wanted)
        )
    elif wanted and not found:
        yield info(
            "governor",
            "the node reports none (a virtual machine, or fixed frequencies)",
            f"{wanted} (health.governor)",
            "check the hypervisor, or remove health.governor from the cluster's YAML",
        )
    elif {"powersave", "conservative"} & set(found):
        yield warn(
            "governor",
            ", ".join(found),
            "performance: with other governors, results depend on changes of the CPU clock",
            advice.format("performance") + "; or accept the found governor with health.governor",
        )


# --- GPUs ---------------------------------------------------------------------------------


def gpus(
    document: Document, cluster: Cluster, node: Node, lines: Sequence[FrameworkInfo]
) -> Iterator[Finding]:
    """GPUs: as many as expected, healthy, with a driver that runs what was chosen."""
    have, problem = document["gpus"], document["gpu_problem"]
    wants = cluster.device_kind == "gpu"
    if problem:
        yield Finding(
            FindingLevel.FAIL if wants else FindingLevel.INFO,
            "GPUs",
            problem,
            "nvidia-smi answers" if wants else "no GPU is used on this cluster",
            "load the driver (`nvidia-smi` on the node, `dmesg | grep -i nvrm`); after an update "
            "of the driver, reboot",
        )
    yield from _count(have, cluster, node, is_known=bool(problem))
    for gpu in have if wants else ():
        if not node.devices or {str(gpu["index"]), gpu["uuid"]} & {*node.devices}:
            yield from _health(gpu)
    if wants and have:
        yield from _driver(have, cluster, lines)


def _count(
    have: Sequence[Document], cluster: Cluster, node: Node, is_known: bool
) -> Iterator[Finding]:
    expected = cluster.health.expected_devices
    if expected is None and cluster.device_kind == "gpu":
        expected = len(node.devices) or cluster.devices_per_node
    if expected is not None and len(have) < expected and not is_known:
        yield fail(
            "GPUs",
            f"{len(have)}",
            f"{expected}",
            "search `dmesg` for Xid errors; a GPU lost from the bus returns after a reboot",
        )
    elif cluster.health.expected_devices is not None and len(have) > (expected or 0):
        yield warn(
            "GPUs",
            f"{len(have)}",
            f"{expected} (health.expected_devices)",
            "correct the cluster's YAML",
        )
    if cluster.device_kind == "gpu":
        known = {str(gpu["index"]) for gpu in have} | {gpu["uuid"] for gpu in have}
        absent = [device for device in node.devices if device not in known]
        if absent and have:
            yield fail(
                "GPUs",
                f"no {', '.join(absent)}",
                "every device that the YAML lists for the node",
                "`nvidia-smi -L` on the node lists indices and UUIDs",
            )


_OTHERS_LINKS = "{nvlinks_max}, as other GPUs of this model on the node have"
_FAULTS: tuple[tuple[FindingLevel, str, Callable[[Document], Any], str, str, str], ...] = (
    (
        FindingLevel.FAIL, "memory", lambda gpu: gpu["ecc_uncorrected"],
        "{ecc_uncorrected} uncorrected ECC errors since the driver was loaded", "none",
        "reset the GPU (`nvidia-smi --gpu-reset`) or reboot; replace it if errors return",
    ),
    (
        FindingLevel.FAIL, "memory", lambda gpu: gpu["remapped_rows_pending"],
        "a memory row must be remapped", "no row to remap",
        "reset the GPU (`nvidia-smi --gpu-reset`) or reboot",
    ),
    (
        FindingLevel.WARN, "memory", lambda gpu: gpu["retired_pages"],
        "{retired_pages} pages retired for double-bit errors", "none",
        "watch the number of retired pages; vendors replace a card that has 60",
    ),
    (
        FindingLevel.FAIL, "throttle", lambda gpu: gpu["slowed"],
        "{slowed}", "no slowdown before a benchmark runs",
        "check fans, air flow and power supply; `nvidia-smi -q -d PERFORMANCE`",
    ),
    (
        FindingLevel.WARN, "temperature",
        lambda gpu: (gpu["temperature_c"] or 0) >= HOT_C and not gpu["slowed"],
        "{temperature_c:.0f} degrees Celsius before a benchmark runs", f"below {HOT_C:.0f}",
        "check which process uses the GPU (`nvidia-smi`), then fans and air flow",
    ),
    (
        FindingLevel.WARN, "persistence", lambda gpu: gpu["persistence"] is False,
        "off: the driver unloads between launches, which slows the first step", "on",
        "`systemctl enable --now nvidia-persistenced` as root, or `nvidia-smi -pm 1`",
    ),
    (
        FindingLevel.FAIL, "NVLink",
        lambda gpu: 0 < (gpu.get("nvlinks") or 0) < gpu["nvlinks_max"],
        "{nvlinks} links are up", _OTHERS_LINKS,
        "see `nvidia-smi nvlink -s` and `-e`, and the fabric manager; reset the GPU or reboot",
    ),
    (
        FindingLevel.WARN, "NVLink",
        lambda gpu: gpu.get("nvlinks") == 0 and gpu["nvlinks_max"],
        "no link is up", _OTHERS_LINKS,
        "a fault, except if bridges connect only some GPUs (`nvidia-smi topo -m`)",
    ),
    (
        FindingLevel.WARN, "PCIe",
        lambda gpu: None not in (width := (gpu["pcie_width"], gpu["pcie_width_max"]))
        and width[0] < width[1],
        "{pcie_width} lanes", "{pcie_width_max} lanes",
        "reseat the card; check the lanes under load with `nvidia-smi -q -d PCIE`",
    ),
)  # fmt: skip
"""Level, subject, when a GPU has the fault, what is found and what is expected of it, advice."""


def _health(gpu: Document) -> Iterator[Finding]:
    slowed = [r for r in gpu["throttle"] if "thermal" in r or "hw" in r or "brake" in r]
    gpu = {**gpu, "slowed": ", ".join(slowed)}
    for level, what, has_fault, found, expected, advice in _FAULTS:
        if has_fault(gpu):
            said, name = found.format_map(gpu), f"GPU {gpu['index']}"
            yield Finding(level, what, said, expected.format_map(gpu), advice, name)


def _driver(
    have: Sequence[Document], cluster: Cluster, lines: Sequence[FrameworkInfo]
) -> Iterator[Finding]:
    drivers = {gpu["driver"] for gpu in have if gpu["driver"]}
    if not drivers:
        return
    driver = min(drivers, key=_version)
    needs: dict[str, list[str]] = {}
    for line in lines:
        variant = variant_of(line, cluster, {})
        if not isinstance(variant, str):
            continue
        stated = line.variants.get(variant)
        least = (stated and stated.driver) or MIN_DRIVERS.get(_cuda_major(variant) or 0)
        if least and _version(driver) < _version(least):
            needs.setdefault(least, []).append(f"{line.line} {variant}")
    for least, who in sorted(needs.items()):
        yield fail(
            "driver",
            driver,
            f"{least} or newer for {', '.join(who)}",
            "update the driver, or choose an older variant under environments.variants",
        )


def _cuda_major(variant: str) -> int | None:
    """`cu126` -> 12, `cu130` -> 13; None if it is no CUDA variant."""
    found = re.match(r"cu(?:da)?-?(\d{2})\d*\Z", variant)
    return int(found[1]) if found else None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


# --- links --------------------------------------------------------------------------------


def links(document: Document, cluster: Cluster, node: Node) -> Iterator[Finding]:
    """The interface of the frameworks' traffic: there, up, and as fast as the YAML wants."""
    if (node.interface or "").startswith("lo"):
        return  # within one machine there is no link
    by_name = {link["name"]: link for link in document["links"]}
    if node.interface and node.interface not in by_name:
        have = ", ".join(sorted(by_name)) or "none"
        yield fail(
            "link",
            f"no interface {node.interface} (there are {have})",
            f"{node.interface}, as the YAML says",
            "correct `interface`, or set it up",
        )
        return
    address = node.data_address or node.host
    carrying = [
        link
        for link in document["links"]
        if link["name"] == node.interface or (not node.interface and address in link["addresses"])
    ]
    least = cluster.health.min_link_mbps
    for link in carrying:
        yield from _link(link, least)
    if least is not None and not carrying:
        yield info(
            "link",
            f"no interface has the address {address}",
            f"an interface with {least} Mbit/s (health.min_link)",
            "set `interface` in the cluster's YAML",
        )


def _link(link: Document, least: float | None) -> Iterator[Finding]:
    name, wanted = f"link {link['name']}", f"{least} Mbit/s (health.min_link)"
    if not link["up"]:
        advice = f"`ip link set {link['name']} up`; check cable and switch"
        yield fail(name, "down", "up", advice)
    elif least is not None and link["mbps"] is None:
        advice = "the control measurement all_reduce (`--controls`) shows its speed"
        yield info(name, "the interface reports no speed", wanted, advice)
    elif least is not None and link["mbps"] < least:
        advice = "check cable, switch port and auto-negotiation (`ethtool`)"
        yield fail(name, f"{link['mbps']} Mbit/s", wanted, advice)
