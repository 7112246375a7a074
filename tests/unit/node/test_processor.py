"""The processor in a fingerprint: x86's and aarch64's /proc/cpuinfo, and sysfs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from nodeside.processor import cpu_description

ALTRA = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop"
ALTRA += " asimddp ssbs"
GRAVITON3 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt"
GRAVITON3 += (
    " fcma lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs"
)
GRAVITON3 += " paca pacg dcpodp svei8mm svebf16 i8mm bf16 dgh rng"
GRACE = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma"
GRACE += " lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm sb paca pacg"
GRACE += " dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svebf16 i8mm"
GRACE += " bf16 dgh bti"
XEON = "fpu vme de pse avx f16c fma avx2 avx512f avx512_bf16 avx512_vnni amx_bf16 amx_int8 sse4_2"

WITHOUT_SVE = ["asimd", "asimddp", "asimdhp"]
WITH_SVE = ["asimd", "asimddp", "asimdfhm", "asimdhp", "bf16", "i8mm", "sve"]


def arm_thread(number: int, features: str, implementer: str, part: str, variant: str) -> str:
    """A thread as an arm64 kernel prints it."""
    return (
        f"processor\t: {number}\nBogoMIPS\t: 2000.00\nFeatures\t: {features}\n"
        f"CPU implementer\t: {implementer}\nCPU architecture: 8\nCPU variant\t: {variant}\n"
        f"CPU part\t: {part}\nCPU revision\t: 1\n"
    )


def described(
    folder: Path, threads: Sequence[str], siblings: Sequence[str] = (), sockets: Sequence[str] = ()
) -> dict[str, Any]:
    """The description from a /proc/cpuinfo and the topology in a sysfs."""
    (folder / "cpuinfo").write_text("\n".join(threads) + "\n")
    for number, (sharing, socket) in enumerate(zip(siblings, sockets, strict=True)):
        topology = folder / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(sharing + "\n")
        (topology / "physical_package_id").write_text(socket + "\n")
    (folder / "cpufreq").mkdir()
    return cpu_description(str(folder / "cpuinfo"), str(folder))


@pytest.mark.parametrize(
    ("features", "part", "variant", "model", "flags"),
    [
        (ALTRA, "0xd0c", "0x3", "Neoverse-N1 r3p1", WITHOUT_SVE),
        (GRAVITON3, "0xd40", "0x1", "Neoverse-V1 r1p1", [*WITH_SVE, "svebf16", "svei8mm"]),
        (GRACE, "0xd4f", "0x0", "Neoverse-V2 r0p1", [*WITH_SVE, "sve2", "svebf16", "svei8mm"]),
    ],
)
def test_cores_of_servers(
    tmp_path: Path, features: str, part: str, variant: str, model: str, flags: list[str]
) -> None:
    """Altra, Graviton3 and Grace: model and extensions from numbers, cores from sysfs."""
    threads = [arm_thread(n, features, "0x41", part, variant) for n in range(4)]
    found = described(tmp_path, threads, ["0", "1", "2", "3"], ["0", "0", "1", "1"])
    del found["machine"]
    expected = {"model": model, "sockets": 2, "cores": 4, "threads": 4, "flags": flags}
    assert found == expected


def test_threads_that_share_a_core(tmp_path: Path) -> None:
    threads = [arm_thread(n, "fp asimd", "0x43", "0x0af", "0x1") for n in range(4)]
    found = described(tmp_path, threads, ["0,2", "1,3", "0,2", "1,3"], ["36"] * 4)
    assert (found["model"], found["sockets"]) == ("ThunderX2-99xx r1p1", 1)
    assert (found["cores"], found["threads"]) == (2, 4)


def test_cores_of_two_kinds_and_firmware_without_sockets(tmp_path: Path) -> None:
    """GB10 has large and small cores; -1 stands for an unknown socket."""
    threads = [arm_thread(0, "asimd", "0x41", "0xd85", "0x0")]
    threads += [arm_thread(1, "asimd", "0x41", "0xd87", "0x0")]
    found = described(tmp_path, threads, ["0", "1"], ["-1", "-1"])
    assert found["model"] == "Cortex-A725 r0p1 + Cortex-X925 r0p1"
    assert (found["sockets"], found["cores"]) == (1, 2)


@pytest.mark.parametrize(
    ("implementer", "part", "model"),
    [
        ("0x41", "0xd99", "ARM implementer 0x41 part 0xd99 r0p1"),
        ("0xc0", "0xac3", "Ampere-1 r0p1"),
        ("0x99", "0x001", "CPU implementer 0x99 part 0x001 r0p1"),
    ],
)
def test_other_implementers(tmp_path: Path, implementer: str, part: str, model: str) -> None:
    """A core that is not in the table is named by its numbers; without a topology threads count."""
    found = described(tmp_path, [arm_thread(0, "asimd", implementer, part, "0x0")])
    assert (found["model"], found["sockets"], found["cores"]) == (model, 1, 1)


def test_x86(tmp_path: Path) -> None:
    """Sockets and cores are in /proc/cpuinfo; core numbers repeat in each socket."""
    threads = [
        f"processor\t: {number}\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\n"
        f"physical id\t: {socket}\ncore id\t\t: {core}\nflags\t\t: {XEON}\n"
        for number, (socket, core) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)] * 2)
    ]
    found = described(tmp_path, threads)
    assert found["model"] == "Intel(R) Xeon(R) Platinum 8480C"
    assert (found["sockets"], found["cores"], found["threads"]) == (2, 4, 8)
    assert set(found["flags"]) == set(XEON.split()) - {"fpu", "vme", "de", "pse"}
