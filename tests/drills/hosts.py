"""Hosts made for real: one set of namespaces each, with an OpenSSH server and its own network.

A host has its own network card (a veth pair to a bridge), process table, host name, accounts,
`/home`, `/tmp`, boot id, monotonic clock and count of CPU time; what it shares with the machine
below it is the kernel, the processors and the wall clock. So `crash` really takes everything
away, `boot` really starts anew, and an agent cannot see other hosts' processes, while the test
sees all of them in its own `/proc`.

    with Lab(folder) as lab:
        n1, n2 = lab.host("n1"), lab.host("n2")
        lab.targets(), lab.nodes(), lab.environments, lab.cluster()   # for nightbench.gang
        lab.connection("bench"), lab.cluster_yaml("lab", "my_conn")    # for Airflow and the command
        n1.unplug(); n1.plug()             # the link goes down, and up again
        n1.swallow(); n1.forward()         # packets vanish without a word, and pass again
        n1.limit("10mbit"); n1.limit(None) # tc tbf, in both directions
        n1.limit_cpu(0.25)                 # of a core, all its processes together; None lifts it
        n1.crash(); n1.boot()              # power cut; disks stay, /tmp and processes do not
        n1.restart_sshd(); n1.kill_sshd()  # the server, or with every session
        n1.run(["id"], user="bench")       # a command inside
        n1.path("/home/bench")             # a file of the host as the test sees it

Needs root (or CAP_SYS_ADMIN and CAP_NET_ADMIN as uid 0): `missing()` says what is not there.
Everything ends with the `Lab`; hosts end also when the tests are killed, and the bridge that is
left then is removed by the next `Lab`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.drills.host import (
    PATH,
    PYTHON,
    USERS,
    Cgroup,
    Host,
    marked,
    sh,
    tool,
    unshare,
)

from nightbench.core.model import Cluster, EnvironmentPolicy, Node
from nightbench.gang import SshTarget

TOOLS = {
    "ip": "package iproute2",
    "tc": "package iproute2",
    "unshare": "package util-linux",
    "nsenter": "package util-linux",
    "mount": "package mount",
    "hostname": "package hostname",
    "setpriv": "package util-linux",
    "taskset": "package util-linux",
    "sshd": "package openssh-server",
    "ssh-keygen": "package openssh-client",
}
LOCKS = Path("/run/nightbench-drills")

__all__ = ["PYTHON", "USERS", "Host", "Lab", "marked", "missing", "remove_leftovers", "tool"]


def missing() -> list[str]:
    """What the drills need and this machine lacks; empty if they can run."""
    lacking = [
        f"{name} ({why})" for name, why in TOOLS.items() if not shutil.which(name, path=PATH)
    ]
    if not os.path.exists(PYTHON):
        lacking.append(f"{PYTHON} (3.7 or newer, for the agent on the hosts)")
    if os.getuid() != 0:
        lacking.append("root (run `sudo make drills`)")
        return lacking
    if lacking:
        return lacking
    trial = [*unshare(0), "true"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lacking.append(f"namespaces (`{' '.join(trial)}` says: {done.stderr.strip()})")
    name = f"nbtry{os.getpid() % 10000}"
    done = subprocess.run(
        [tool("ip"), "link", "add", name, "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lacking.append(f"network devices of our own (`ip link add` says: {done.stderr.strip()})")
    else:
        sh("ip", "link", "del", name)
    try:
        Cgroup("nightbench-drills-try").remove()
    except OSError as error:
        lacking.append(f"cgroups that can be made, for CPU accounting ({error})")
    return lacking


BRIDGE_ADDRESS = "02:00:0a:c9:00:01"
"""Locally administered; every lab is a network of its own."""


class Lab:
    """Hosts on one bridge; the test itself is on it too, as the controller.

    Args:
        folder: for keys, homes and logs; the caller removes it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: dict[str, Host] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Lab:
        remove_leftovers()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tag = f"{random.SystemRandom().randrange(16**4):04x}"
        self._stack.enter_context(_claimed(self.tag))
        self.bridge = f"nb{self.tag}br"
        self.network = _free_network()
        # An address of its own: otherwise the bridge takes the lowest of its cards', and a host
        # that loses power takes the controller's address out of every other host's sight.
        sh("ip", "link", "add", self.bridge, "address", BRIDGE_ADDRESS, "type", "bridge")
        self._stack.callback(sh, "ip", "link", "del", self.bridge)
        sh("ip", "addr", "add", f"{self.network}.1/24", "dev", self.bridge)
        sh("ip", "link", "set", self.bridge, "up")
        self.key = self.folder / "client"
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))
        self.public_key = (self.folder / "client.pub").read_text()
        self.known_hosts = self.folder / "known_hosts"
        self.known_hosts.touch()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def host(
        self,
        name: str,
        *,
        sshd: Mapping[str, object] | None = None,
        shares_home_of: Host | None = None,
        boot: bool = True,
    ) -> Host:
        """Make a host and switch it on.

        Args:
            name: host name and name of the node.
            sshd: options of sshd_config.
            shares_home_of: `/home` is that host's, as on clusters with one file server.
            boot: False leaves it switched off.
        """
        host = Host(
            self,
            len(self.hosts) + 1,
            name,
            sshd=sshd or {},
            home=shares_home_of.home if shares_home_of else None,
        )
        self.hosts[name] = host
        self._stack.callback(host.remove)
        with self.known_hosts.open("a") as file:
            file.write(host.known_hosts_line())
        if boot:
            host.boot()
        return host

    # --- for nightbench -------------------------------------------------------------------

    @property
    def environments(self) -> EnvironmentPolicy:
        """Agents run by the hosts' own Python; all else by default."""
        return EnvironmentPolicy(python=PYTHON)

    def nodes(self, *names: str) -> tuple[Node, ...]:
        """The hosts as nodes of a cluster; all of them where none is named."""
        return tuple(
            Node(name=name, host=self.hosts[name].address, ssh_conn_id="lab")
            for name in names or self.hosts
        )

    def targets(self, user: str = "bench") -> dict[str, SshTarget]:
        """How each host is reached."""
        return {
            name: SshTarget(
                node=name,
                host=host.address,
                port=host.port,
                user=user,
                known_hosts=str(self.known_hosts),
                client_keys=(str(self.key),),
            )
            for name, host in self.hosts.items()
        }

    def cluster(self, name: str = "lab", **changes: Any) -> Cluster:
        """All hosts as a cluster."""
        return Cluster(name, self.nodes(), environments=self.environments, **changes)

    def connection(self, user: str = "bench") -> dict[str, Any]:
        """An SSH connection as Airflow and `connections.json` have it."""
        extra = {"key_file": str(self.key), "known_hosts": str(self.known_hosts)}
        host = next(iter(self.hosts.values()))
        return {
            "conn_type": "ssh",
            "host": host.address,
            "port": host.port,
            "login": user,
            "extra": extra,
        }

    def cluster_yaml(self, name: str = "lab", conn_id: str = "lab", more: str = "") -> str:
        """`clusters/<name>.yaml` with all hosts; `more` is further keys as YAML."""
        lines = [f"cluster: {name}", f"known_hosts: {self.known_hosts}", "nodes:"]
        for node, host in self.hosts.items():
            lines += [f"  - hosts: {host.address}", f"    name: {node}"]
            lines += [f"    ssh_conn_id: {conn_id}", "    interface: eth0"]
        lines += ["environments:", "  kind: venv", f"  python: {PYTHON}"]
        return "\n".join(lines) + "\n" + more


# --- the machine below the hosts --------------------------------------------------------------


@contextlib.contextmanager
def _claimed(tag: str) -> Iterator[None]:
    """Hold a lock for as long as the devices of this tag may be there."""
    LOCKS.mkdir(parents=True, exist_ok=True)
    path = LOCKS / f"{tag}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink()


def remove_leftovers() -> None:
    """Remove bridges and cgroups of drills that were killed; those of running ones stay."""
    for path in LOCKS.glob("*.lock") if LOCKS.is_dir() else ():
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # it runs
            for link in Path("/sys/class/net").glob(f"nb{path.stem}*"):
                # The other end of a pair may be gone by the time that we come to it.
                with contextlib.suppress(RuntimeError):
                    sh("ip", "link", "del", link.name)
            top = Path("/sys/fs/cgroup")
            for folder in (top, top / "memory", top / "cpuacct", top / "cpu"):
                for group in folder.glob(f"nightbench-drills-{path.stem}-*"):
                    group.rmdir()
            path.unlink(missing_ok=True)


def _free_network() -> str:
    """`10.x.y` that no route of this machine knows."""
    routes = sh("ip", "-4", "route", "show", "table", "all")
    while True:
        network = f"10.{random.randrange(64, 250)}.{random.randrange(256)}"
        if f"{network}." not in routes:
            return network
