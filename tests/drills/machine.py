"""The first process of a drill host: makes it look like a machine of its own, then reaps.

Runs as root inside fresh namespaces (network, mounts, processes, names, time), reads one JSON
document from stdin's first line, prints `ready`, and lives until it is killed or stdin ends, so
that no host outlives the tests that made it. Standard library only.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def bind(source: str, target: str) -> None:
    mount("--bind", source, target)


def dress(machine: dict[str, str]) -> None:
    """Own /sys, /run, /home, /tmp, accounts, boot id and host name."""
    folder = machine["folder"]
    has_cgroups = os.path.isdir("/sys/fs/cgroup")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for name in ("sshd", "machine", "cgroup", "lock"):
        os.mkdir(f"/run/{name}")
    bind(f"{folder}/machine", "/run/machine")
    if has_cgroups:
        mount("--rbind", "/sys/fs/cgroup", "/run/cgroup")
    # A fresh /sys shows the network devices of this host, not those of the machine below it.
    mount("-t", "sysfs", "sysfs", "/sys")
    if has_cgroups:
        mount("--rbind", "/run/cgroup", "/sys/fs/cgroup")
    for name in ("passwd", "group", "shadow"):
        bind(f"{folder}/machine/{name}", f"/etc/{name}")
    bind(f"{folder}/machine/boot_id", "/proc/sys/kernel/random/boot_id")
    bind(machine["home"], "/home")
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm")
    # Last: what was bound above may lie below /tmp.
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/tmp")
    subprocess.run(["hostname", machine["name"]], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class CpuTimes:
    """Keeps /proc/stat: what the cores did for this host alone, by its cgroup.

    On a machine of its own nobody else's work would stand there. Version 2 of cgroups has no
    figure for each core: there all of it counts for the first.
    """

    def __init__(self, usage: str) -> None:
        with open("/proc/stat") as real:
            self._rest = "".join(line for line in real if not line.startswith(("cpu", "intr")))
        self._usage = usage
        self._began_s = time.monotonic()
        self._file = os.open("/run/stat", os.O_RDWR | os.O_CREAT, 0o444)
        self.write()
        bind("/run/stat", "/proc/stat")

    def write(self) -> None:
        with open(self._usage) as file:
            words = file.read().split()
        if "usage_usec" in words:
            first = int(words[words.index("usage_usec") + 1]) // 10_000
            busy = [first, *[0] * ((os.cpu_count() or 1) - 1)]
        else:
            busy = [int(word) // 10_000_000 for word in words]
        elapsed = int((time.monotonic() - self._began_s) * 100)
        rows = [("cpu ", sum(busy), elapsed * len(busy))]
        rows += [(f"cpu{core}", ticks, elapsed) for core, ticks in enumerate(busy)]
        text = "".join(
            f"{name} {ticks} 0 0 {max(0, room - ticks)} 0 0 0 0 0 0\n" for name, ticks, room in rows
        )
        # It only ever grows, so nobody sees the end of an older text.
        os.pwrite(self._file, (text + self._rest).encode(), 0)


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    # By single bytes: nothing of what follows the line may be swallowed into a buffer.
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1)
    machine = json.loads(line)
    dress(machine)
    times = CpuTimes(machine["cpu_usage"])
    wake, ring = os.pipe()
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([0, wake], [], [], 0.1)
        times.write()
        if 0 in readable and os.read(0, 1) == b"":
            sys.exit(0)
        if wake in readable:
            os.read(wake, 4096)
            reap()


main()
