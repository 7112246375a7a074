"""A Slurm cluster on this machine: munge, a controller, two nodes, and a login node over SSH."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.integration.openssh import end, free_port, openssh_nodes

from nightbench.core.model import EnvironmentPolicy, Node, SlurmPolicy
from nightbench.gang import SshTarget

NODES = ("n1", "n2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel")

CONFIG = """
ClusterName=drill
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout=60
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=2 RealMemory=4000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=2 RealMemory=4000
PartitionName=bench Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverTimeLimit=0
"""


def missing() -> str:
    """What this machine lacks for Slurm; empty if it lacks nothing."""
    absent = [name for name in PROGRAMS if tool(name) is None]
    if absent:
        return f"no {', '.join(absent)}: apt-get install slurm-wlm munge"
    return "" if os.getuid() == 0 else "Slurm's daemons switch users: run this as root"


def tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclasses.dataclass(frozen=True)
class SharedHost:
    """A node whose files are those of this machine; as `tests.drills.host.Host` shows them."""

    name: str
    home = Path.home()

    def path(self, inside: str) -> Path:
        """The same file as this machine sees it."""
        return Path(inside)


class SlurmCluster:
    """Daemons in the foreground, each ended by its id.

    Args:
        folder: for all their files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.target: SshTarget | None = None
        self.hosts = {f"node-{name}": SharedHost(f"node-{name}") for name in NODES}
        self.tag = "slurm"

    @property
    def environment(self) -> dict[str, str]:
        """What Slurm's programs need to find this cluster."""
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def start(self, name: str) -> None:
        """Start slurmctld, or slurmd of a node; again after it was killed."""
        words = ["slurmctld", "-D"] if name == "slurmctld" else ["slurmd", "-D", "-N", name]
        self._spawn(name, words)

    def _spawn(self, name: str, words: list[str]) -> None:
        program = tool(words[0])
        assert program is not None
        with (self.folder / f"{name}.log").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                [program, *words[1:]], stdout=out, stderr=out, env=self.environment
            )

    def kill(self, name: str) -> None:
        """SIGKILL to one daemon; what it has started lives on."""
        self.daemons[name].send_signal(signal.SIGKILL)
        self.daemons[name].wait()

    def run(self, *words: str) -> str:
        """What one of Slurm's programs prints."""
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def jobs(self) -> list[tuple[int, str]]:
        """Number and state of all jobs that Slurm still shows, in their order."""
        lines = self.run("squeue", "--noheader", "--states=all", "--format=%A|%T").splitlines()
        return sorted((int(a), b.strip()) for a, b in (line.split("|") for line in lines))

    def has_stored(self, job_id: str) -> bool:
        """Whether slurmctld has written the state of jobs since one of them began."""
        words = ("squeue", "--noheader", f"--name=nightbench/{job_id}", "--format=%S")
        began = datetime.fromisoformat(self.run(*words).strip()).timestamp()
        return (self.folder / "state" / "job_state").stat().st_mtime >= began + 1

    def nodes(self, *names: str) -> tuple[Node, ...]:
        """Slurm's nodes as nodes of a cluster; their data goes over loopback."""
        return tuple(
            Node(
                name=name,
                host=name.removeprefix("node-"),
                ssh_conn_id="login",
                data_address="127.0.0.1",
            )
            for name in names or self.hosts
        )

    def targets(self, **policy: Any) -> dict[str, SshTarget]:
        """How each node is reached: through the login node."""
        assert self.target is not None
        slurm = SlurmPolicy(**{"login": self.target.host, "partition": "bench", **policy})
        return {
            node.name: dataclasses.replace(self.target, node=node.name, slurm=slurm)
            for node in self.nodes()
        }

    @property
    def environments(self) -> EnvironmentPolicy:
        """The folder that login node and nodes share."""
        return EnvironmentPolicy(
            root=str(self.folder / "shared"),
            python="/usr/bin/python3",
            lock_dir=str(self.folder / "locks"),
        )


@contextlib.contextmanager
def slurm_cluster(folder: Path) -> Iterator[SlurmCluster]:
    """A cluster of two nodes and a login node; everything is ended with it."""
    cluster = SlurmCluster(folder)
    for name in ("state", "shared", *(f"spool.{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    ports = [free_port(["127.0.0.1"]) for _ in range(3)]
    host = socket.gethostname().partition(".")[0]
    cluster.conf.write_text(
        CONFIG.format(host=host, folder=folder, ctld=ports[0], n1=ports[1], n2=ports[2])
    )
    files = {"socket": "sock", "key-file": "key", "pid-file": "pid", "log-file": "log"}
    words = [f"--{k}={folder / f'munge.{v}'}" for k, v in (*files.items(), ("seed-file", "seed"))]
    try:
        cluster._spawn("munged", ["munged", "--force", "--foreground", *words])
        until = time.monotonic() + 10
        while not (folder / "munge.sock").exists():
            assert time.monotonic() < until, (folder / "munged.log").read_text()
            time.sleep(0.05)
        for name in ("slurmctld", *NODES):
            cluster.start(name)
        until = time.monotonic() + 30
        while not _is_ready(cluster):
            assert time.monotonic() < until, (folder / "slurmctld.log").read_text()
            time.sleep(0.2)
        more = f"SetEnv SLURM_CONF={cluster.conf}\n"
        with openssh_nodes(folder / "login", count=1, more=more) as login:
            cluster.target = next(iter(login.targets.values()))
            yield cluster
    finally:
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            cluster.run("scancel", "--me")
            until = time.monotonic() + 15
            while cluster.run("squeue", "--noheader").strip() and time.monotonic() < until:
                time.sleep(0.2)
        for daemon in reversed(cluster.daemons.values()):
            end(daemon)


def _is_ready(cluster: SlurmCluster) -> bool:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%T"],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0 and done.stdout.split() == ["idle"]
