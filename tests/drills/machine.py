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


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    # By single bytes: nothing of what follows the line may be swallowed into a buffer.
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1)
    dress(json.loads(line))
    wake, ring = os.pipe()
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([0, wake], [], [])
        if 0 in readable and os.read(0, 1) == b"":
            sys.exit(0)
        if wake in readable:
            os.read(wake, 4096)
            reap()


main()
