"""Hosts whose programs are aarch64's: an arm64 Debian below qemu's user emulation.

The root file system is debootstrap's, unpacked without running a program of it, and is kept in
`build/arm64`. A host's sshd is this machine's own and changes into that root for each session, so
its shell, its Python and its uv are arm64 programs, and `uname -m` prints aarch64.

The kernel hands arm64 programs to qemu by an entry of binfmt_misc, which is of the whole machine:
`emulated` makes it, where there is none, and removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests import programs
from tests.drills.hosts import Host, Lab, tool

BUILD = Path(__file__).resolve().parents[2] / "build" / "arm64"
BASE = BUILD / "base"
PACKAGES = "python3,python3-venv"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
INSIDE = "/run/arm"
"""The arm64 root on a host."""

BINFMT = Path("/proc/sys/fs/binfmt_misc")
ENTRY = "nightbench-drills-aarch64"
_MAGIC = r"\x7f\x45\x4c\x46\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
_MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
"""ELF, 64 bits, little endian, an executable or a shared object of aarch64 (EM_AARCH64 is 0xb7)."""

GRACE = "".join(
    f"""processor\t: {number}
BogoMIPS\t: 2000.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp sve sve2 i8mm bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
CPU revision\t: 0

"""
    for number in range(os.cpu_count() or 1)
)
"""What /proc/cpuinfo says on Grace; qemu shows this machine's."""


SITECUSTOMIZE = """\
import sys

if any(word.endswith("agent.py") for word in sys.orig_argv):
    import ctypes

    class CDLL(ctypes.CDLL):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            known = self.prctl
            self.prctl = lambda option, *more: 0 if option == 36 else known(option, *more)

    ctypes.CDLL = CDLL
"""
"""For Debian 12's qemu 7.2, which refuses PR_SET_CHILD_SUBREAPER (36) with EINVAL.

The agents of these hosts adopt no orphans; there are other drills for that.
"""


class NoEmulation(Exception):
    """Why arm64 programs cannot be run here."""


@contextlib.contextmanager
def emulated() -> Iterator[None]:
    """Let this machine run arm64 programs, with the root file system in place.

    Raises:
        NoEmulation: a program is missing, or the kernel refuses.
    """
    qemu = _qemu()
    make_base(BASE, "arm64")
    with _mounted(), _entry(qemu):
        done = subprocess.run(
            ["chroot", str(BASE), "/usr/bin/uname", "-m"], capture_output=True, text=True
        )
        if done.stdout.strip() != "aarch64":
            raise NoEmulation(f"qemu does not run arm64 programs: {done.stderr.strip()}")
        yield


def arm_host(lab: Lab, name: str) -> Host:
    """Make a host whose sessions are in an arm64 root of its own, on a processor like Grace."""
    host = lab.host(name, sshd={"ChrootDirectory": INSIDE})
    (host.folder / "machine/cpuinfo").write_text(GRACE)
    over = "/run/over"
    layers = f"lowerdir={BASE},upperdir={over}/upper,workdir={over}/work"
    host.run(["mkdir", "-p", INSIDE, f"{over}/upper", f"{over}/work"])
    host.run(["mount", "-t", "overlay", "-o", layers, "overlay", INSIDE])
    for place in ("proc", "sys", "dev", "home"):
        host.run(["mkdir", "-p", f"{INSIDE}/{place}"])
        host.run(["mount", "--rbind", f"/{place}", f"{INSIDE}/{place}"])
    for file in ("passwd", "group"):
        host.run(["cp", f"/etc/{file}", f"{INSIDE}/etc/{file}"])
    host.path(f"{INSIDE}/etc/python3.11/sitecustomize.py").write_text(SITECUSTOMIZE)
    host.run(["mount", "--bind", "/run/machine/cpuinfo", f"{INSIDE}/proc/cpuinfo"])
    return host


def _qemu() -> Path:
    """Return the path of qemu's static program, fetched where the machine has none."""
    names = ("qemu-aarch64-static", "qemu-aarch64")
    if not any(
        programs.find(name) or (programs.UNPACKED / "usr/bin" / name).exists() for name in names
    ):
        try:
            programs.unpack(["qemu-user-static"])
        except (FileNotFoundError, subprocess.SubprocessError) as error:
            raise NoEmulation(f"needs qemu (package qemu-user-static): {error}") from error
    for name in names:
        for found in (programs.find(name), programs.UNPACKED / "usr/bin" / name):
            if found and Path(found).exists():
                return Path(found).resolve()
    raise NoEmulation("needs qemu-aarch64-static (package qemu-user-static)")


def make_base(base: Path, arch: str) -> None:
    """Make a root file system once: debootstrap fetches, and nothing of it is run.

    Raises:
        NoEmulation: debootstrap is missing or fails.
    """
    if (base / "usr/bin/python3").exists():
        return
    debootstrap = shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin")
    if debootstrap is None:
        raise NoEmulation("needs debootstrap (package debootstrap)")
    new = base.with_name(f"new.{os.getpid()}")
    base.parent.mkdir(parents=True, exist_ok=True)
    words = [debootstrap, f"--arch={arch}", "--foreign", "--variant=minbase"]
    try:
        with base.with_name("debootstrap.log").open("wb") as log:
            done = subprocess.run(
                [*words, f"--include={PACKAGES}", "bookworm", str(new), MIRROR],
                stdout=log,
                stderr=log,
            )
        if done.returncode != 0:
            raise NoEmulation(f"debootstrap failed: see {log.name}")
        # The first stage unpacks what is essential; the rest lies beside it.
        for archive in sorted((new / "var/cache/apt/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(archive), str(new)], check=True)
        new.chmod(0o755)
        new.rename(base)
    finally:
        shutil.rmtree(new, ignore_errors=True)


@contextlib.contextmanager
def _mounted() -> Iterator[None]:
    if (BINFMT / "register").exists():
        yield
        return
    mount = [tool("mount"), "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoEmulation(f"the kernel has no binfmt_misc: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run([tool("umount"), str(BINFMT)], check=True)


@contextlib.contextmanager
def _entry(qemu: Path) -> Iterator[None]:
    """Register qemu for arm64 programs, also for those in other roots (F)."""
    mine = BINFMT / ENTRY
    if mine.exists():  # of drills that were killed
        mine.write_text("-1")
    try:
        (BINFMT / "register").write_text(f":{ENTRY}:M::{_MAGIC}:{_MASK}:{qemu}:F")
    except OSError as error:
        raise NoEmulation(f"the kernel takes no entry of binfmt_misc: {error}") from error
    try:
        yield
    finally:
        mine.write_text("-1")
