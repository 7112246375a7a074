"""State of a node's clock, limits, login session, network links and disks."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import re
import resource
import shutil
import socket
import struct
import time
from typing import Any

from nodeside.files import read_text
from nodeside.shell import answer

_STA_UNSYNC = 0x40
_SIOCGIFADDR = 0x8915
NETWORK = "/sys/class/net"


def clock() -> dict[str, Any]:
    """Return both clocks, and whether the wall clock is synchronised."""
    synchronised, source = _synchronised()
    return {
        "wall_s": time.time(),
        "monotonic_s": time.monotonic(),
        "synchronised": synchronised,
        "source": source,
    }


def _synchronised() -> tuple[bool | None, str | None]:
    kernel = _kernel_is_synchronised()
    if kernel:
        return True, "kernel"
    # Some daemons synchronise the clock without setting the kernel's flag.
    said = answer(["chronyc", "-n", "tracking"], timeout_s=5.0)
    if said is not None:
        return "Not synchronised" not in said and "Leap status" in said, "chrony"
    said = answer(["timedatectl", "show", "-p", "NTPSynchronized", "--value"], timeout_s=5.0)
    if said is not None and said.strip() in ("yes", "no"):
        return said.strip() == "yes", "timedatectl"
    return kernel, None if kernel is None else "kernel"


def _kernel_is_synchronised() -> bool | None:
    """Return whether the kernel's clock is synchronised (adjtimex(2)); None if not permitted."""
    # struct timex: modes is its first member and stays 0 (read only); status follows offset,
    # freq, maxerror and esterror.
    buffer = ctypes.create_string_buffer(512)
    state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    if state < 0:
        return None
    word = struct.calcsize("l")
    status = struct.unpack_from("i", buffer, 5 * word)[0]
    return not status & _STA_UNSYNC


def disk(path: str) -> dict[str, Any]:
    """Return the space on the file system of `path`, for this user."""
    while not os.path.exists(path):
        path = os.path.dirname(path) or "/"
    usage, files = shutil.disk_usage(path), os.statvfs(path)
    return {
        "free_bytes": usage.free,
        "total_bytes": usage.total,
        "inodes_free": files.f_favail if files.f_files else None,
        "quota": _quota(),
    }


def _quota() -> dict[str, int] | None:
    """Return the user's quota with the least space left; None if there is none.

    `quota` names devices, which a path below a bind mount does not reveal.
    """
    text = answer(["quota", "-w", "-p"], timeout_s=10.0)
    return parse_quota(text) if text else None


def parse_quota(text: str) -> dict[str, int] | None:
    """Return the tightest line of `quota -w -p`: filesystem, blocks of 1 KiB, limits, ..."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and re.match(r"\d+\*?\Z", words[1]):
            used = int(words[1].rstrip("*")) * 1024
            limits = [int(word) * 1024 for word in words[2:4] if word.isdigit() and word != "0"]
            if limits:
                found.append((min(limits) - used, used, min(limits)))
    if not found:
        return None
    _, used, limit = min(found)
    return {"used_bytes": used, "limit_bytes": limit}


def shared_memory_free() -> int | None:
    """Return the free bytes of /dev/shm."""
    return shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else None


def cpu_state() -> dict[str, Any]:
    """Return the changeable state of the cores: governors, hyper-threads, isolation, load."""
    cores = sorted(os.sched_getaffinity(0))
    base = "/sys/devices/system/cpu"
    governors = {
        read_text("{}/cpu{}/cpufreq/scaling_governor".format(base, core)) for core in cores
    }
    active = read_text(base + "/smt/active")
    return {
        "cores": len(cores),
        "governors": sorted(name for name in governors if name),
        "load1": os.getloadavg()[0],
        "smt": active == "1" if active in ("0", "1") else None,
        "isolated": read_text(base + "/isolated") or "",
    }


def memory_state() -> dict[str, int]:
    """Return the bytes of memory: total, available, and swapped out."""
    values = {}
    for line in (read_text("/proc/meminfo") or "").splitlines():
        key, _, rest = line.partition(":")
        values[key] = int(rest.split()[0]) * 1024
    return {
        "total_bytes": values["MemTotal"],
        "available_bytes": values.get("MemAvailable", values["MemFree"]),
        "swap_used_bytes": values.get("SwapTotal", 0) - values.get("SwapFree", 0),
    }


def limits() -> dict[str, int | None]:
    """Return the resource limits of this login's processes; None: unlimited."""

    def soft(kind: int) -> int | None:
        value = resource.getrlimit(kind)[0]
        return None if value == resource.RLIM_INFINITY else value

    return {
        "memlock_bytes": soft(resource.RLIMIT_MEMLOCK),
        "nofile": soft(resource.RLIMIT_NOFILE),
        "nproc": soft(resource.RLIMIT_NPROC),
    }


def session() -> dict[str, Any]:
    """Return whether a login's processes end with it, and whether it needs an allocation."""
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    linger = None
    if os.path.isdir("/run/systemd/system"):
        linger = os.path.exists(os.path.join("/var/lib/systemd/linger", user))
    return {
        "kill_user_processes": _kills_user_processes(user),
        "linger": linger,
        "allocation": {
            "slurm_job": os.environ.get("SLURM_JOB_ID"),
            "pam_slurm": _pam_slurm(),
        },
    }


def _kills_user_processes(user: str) -> bool | None:
    text = answer(["loginctl", "show-session"], timeout_s=5.0)
    said = dict(line.partition("=")[::2] for line in (text or "").splitlines())
    if said.get("KillUserProcesses") not in ("yes", "no"):
        return None
    if said["KillUserProcesses"] == "no" or user in said.get("KillExcludeUsers", "").split():
        return False
    only = said.get("KillOnlyUsers", "").split()
    return not only or user in only


def _pam_slurm() -> bool | None:
    found = None
    for path in glob.glob("/etc/pam.d/*"):
        if os.path.basename(path) not in ("sshd", "system-auth", "password-auth", "common-account"):
            continue
        text = read_text(path)
        if text is not None:
            lines = [line.strip() for line in text.splitlines()]
            used = any("pam_slurm" in line and not line.startswith("#") for line in lines)
            found = bool(found) or used
    return found


def cards() -> list[dict[str, Any]]:
    """Return the network interfaces other than loopback, with what the kernel says of each."""
    found = []
    for folder in sorted(glob.glob(NETWORK + "/*")):
        name = os.path.basename(folder)
        if name == "lo" or not os.path.isdir(folder):
            continue
        speed = read_text(os.path.join(folder, "speed")) or ""
        mtu = read_text(os.path.join(folder, "mtu")) or ""
        found.append(
            {
                "name": name,
                "state": read_text(os.path.join(folder, "operstate")) or "unknown",
                "speed_mbit_s": int(speed) if re.match(r"[1-9]\d*\Z", speed) else None,
                "mtu": int(mtu) if mtu.isdigit() else None,
            }
        )
    return found


def links() -> list[dict[str, Any]]:
    """Return whether the network interfaces work, and their addresses."""
    addresses, found = _addresses(), []
    for card in cards():
        name, state = card["name"], card["state"]
        carrier = read_text(os.path.join(NETWORK, name, "carrier"))
        found.append(
            {
                "name": name,
                "mbps": card["speed_mbit_s"],
                "mtu": card["mtu"],
                # Virtual interfaces report "unknown" while they work.
                "up": state == "up" or (state == "unknown" and carrier == "1"),
                "addresses": addresses.get(name, []) or _ipv4(name),
            }
        )
    return found


def _addresses() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (answer(["ip", "-o", "addr", "show"], timeout_s=5.0) or "").splitlines():
        words = line.split()
        if len(words) > 3 and words[2] in ("inet", "inet6"):
            found.setdefault(words[1].partition("@")[0], []).append(words[3].partition("/")[0])
    return found


def _ipv4(name: str) -> list[str]:
    """Return the address that the kernel reports, without the program `ip`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            raw = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.ENODEV):
                return []
            raise
    return [socket.inet_ntoa(raw[20:24])]
