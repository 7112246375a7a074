"""One host of a lab: a set of namespaces with an OpenSSH server; see `hosts`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.marks import marks

if TYPE_CHECKING:
    from tests.drills.hosts import Lab

HERE = Path(__file__).resolve().parent
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin"
PYTHON = "/usr/bin/python3"
"""For the agent: the machine's own, which every account of a host can run."""
USERS = {"bench": 30001, "person": 30002, "neighbour": 30003}
"""Accounts of every host: ours, a colleague's who benchmarks too, and somebody else's."""


def tool(name: str) -> str:
    """Path of a program; administration's folders count too."""
    found = shutil.which(name, path=PATH)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: see `hosts.TOOLS`")
    return found


def unshare(offset_s: int) -> list[str]:
    words = ["--net", "--mount", "--uts", "--ipc", "--pid", "--mount-proc", "--time"]
    words += ["--fork", "--kill-child"]
    clocks = ["--monotonic", str(offset_s), "--boottime", str(offset_s)]
    return [tool("unshare"), *words, *clocks]


def sh(name: str, *words: str) -> str:
    done = subprocess.run([tool(name), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{name} {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Cgroup:
    """Cgroups of one host, version 1 or 2: CPU can be limited, CPU time is counted.

    Raises:
        OSError: they cannot be made, or have no limit that can be set.
    """

    def __init__(self, name: str) -> None:
        top = Path("/sys/fs/cgroup")
        if (top / "memory").is_dir():
            self._folders = [top / kind / name for kind in ("memory", "cpuacct", "cpu")]
            self._quota = self._folders[2] / "cpu.cfs_quota_us"
            share = self._folders[2] / "cpu.shares", "100000"
            self.cpu_usage = self._folders[1] / "cpuacct.usage_percpu"
        else:
            (top / "cgroup.subtree_control").write_text("+memory +cpu")
            self._folders = [top / name]
            self._quota = self._folders[0] / "cpu.max"
            share = self._folders[0] / "cpu.weight", "10000"
            self.cpu_usage = self._folders[0] / "cpu.stat"
        for folder in self._folders:
            folder.mkdir(exist_ok=True)
        self._whole = self._quota.read_text().split()[0]
        share[0].write_text(share[1])  # a hundred times what other work of this machine gets
        self.cpu_usage.read_text()
        self.members = [str(folder / "cgroup.procs") for folder in self._folders]

    def limit_cpu(self, cores: float | None) -> None:
        """All processes of the group together may compute so much; None lifts it."""
        # The period is 100 ms, in both versions, unless somebody has set another one.
        self._quota.write_text(self._whole if cores is None else str(int(100_000 * cores)))

    def take(self, pid: int) -> None:
        """Put a process in; its children follow."""
        for members in self.members:
            Path(members).write_text(str(pid))

    def remove(self) -> None:
        """Remove them; the kernel may still be letting go of what was killed there."""
        for folder in self._folders:
            until = time.monotonic() + 5
            while folder.is_dir():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.05)


class Host:
    """One machine. Made by `Lab.host`, which says what the arguments mean."""

    def __init__(
        self,
        lab: Lab,
        number: int,
        name: str,
        *,
        sshd: Mapping[str, object],
        home: Path | None,
    ) -> None:
        self.lab = lab
        self.name = name
        self.address = f"{lab.network}.{10 + number}"
        self.port = 22
        self.folder = lab.folder / name
        self.home = home or self.folder / "home"
        """`/home` of the host on the test's side: a disk, it outlives a crash."""
        self._machine = self.folder / "machine"
        self._link = f"nb{lab.tag}{number}"
        self._hardware = f"02:64:{lab.tag[:2]}:{lab.tag[2:]}:00:{number:02x}"
        self._sshd = dict(sshd)
        self._init: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._group = Cgroup(f"nightbench-drills-{lab.tag}-{name}")
        self._boots = 0
        self._machine.mkdir(parents=True)
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._machine / "host_key"))
        self._accounts()
        self._homes()

    # --- power ----------------------------------------------------------------------------

    def boot(self) -> None:
        """Switch on: fresh processes, /tmp, /run, boot id and monotonic clock; disks as left."""
        self._boots += 1
        (self._machine / "boot_id").write_text(f"{uuid.uuid4()}\n")
        # The first boot was long ago, each by another amount; a later one has just been.
        offset_s = int(self.address.split(".")[3]) * 1000
        if self._boots > 1:
            offset_s = 30 - int(time.monotonic())
        console = self.folder / "console.log"
        with console.open("ab") as log:
            self._init = subprocess.Popen(
                [*unshare(offset_s), PYTHON, str(HERE / "machine.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._group.take(self._init.pid)
        machine = {
            "name": self.name,
            "folder": str(self.folder),
            "home": str(self.home),
            "cpu_usage": str(self._group.cpu_usage),
        }
        assert self._init.stdin is not None
        assert self._init.stdout is not None
        self._init.stdin.write(json.dumps(machine).encode() + b"\n")
        self._init.stdin.flush()
        if self._init.stdout.readline() != b"ready\n":
            raise RuntimeError(f"host {self.name} did not boot: {console.read_text()}")
        self._pid = int(
            Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text().split()[0]
        )
        # A card keeps its hardware address, or others would look for the old one for a while.
        card = ["name", "eth0", "address", self._hardware, "netns", str(self._pid)]
        sh("ip", "link", "add", self._link, "type", "veth", "peer", *card)
        sh("ip", "link", "set", self._link, "master", self.lab.bridge, "up")
        self.run(["ip", "addr", "add", f"{self.address}/24", "dev", "eth0"])
        self.run(["ip", "link", "set", "eth0", "up"])
        self.start_sshd()
        self.wait_for_ssh()

    def crash(self) -> None:
        """Cut the power: nobody on the network hears a farewell."""
        if self.running:
            with contextlib.suppress(RuntimeError):
                sh("ip", "link", "set", self._link, "down")
            os.kill(self._pid, signal.SIGKILL)
        if self._init is not None:
            for pipe in (self._init.stdin, self._init.stdout):
                if pipe is not None:
                    pipe.close()
            self._init.wait()
        # The kernel takes the card away with the namespace, but sockets that wait for a last
        # answer keep that for a while.
        if os.path.exists(f"/sys/class/net/{self._link}"):
            with contextlib.suppress(RuntimeError):
                sh("ip", "link", "del", self._link)

    @property
    def running(self) -> bool:
        """Whether it is switched on."""
        return self._init is not None and self._init.poll() is None

    def remove(self) -> None:
        """Switch off for good."""
        self.crash()
        self._group.remove()

    def limit_cpu(self, cores: float | None) -> None:
        """Processes of the host together get so much of a core (`0.25`); None lifts it."""
        self._group.limit_cpu(cores)

    # --- network --------------------------------------------------------------------------

    def unplug(self) -> None:
        """The link goes down; the host's card sees it."""
        sh("ip", "link", "set", self._link, "down")

    def plug(self) -> None:
        """The link comes up again."""
        sh("ip", "link", "set", self._link, "up")

    def swallow(self) -> None:
        """Packets vanish at the switch, in both directions; no side sees anything of it."""
        sh("ip", "link", "set", self._link, "nomaster")

    def forward(self) -> None:
        """The switch forwards again."""
        sh("ip", "link", "set", self._link, "master", self.lab.bridge)

    def limit(self, rate: str | None) -> None:
        """Limit the bandwidth in both directions (`10mbit`); None lifts it."""
        tbf = ["root", "tbf", "rate", str(rate), "burst", "128kb", "latency", "50ms"]
        if rate is None:
            sh("tc", "qdisc", "del", "dev", self._link, "root")
            self.run(["tc", "qdisc", "del", "dev", "eth0", "root"])
        else:
            sh("tc", "qdisc", "replace", "dev", self._link, *tbf)
            self.run(["tc", "qdisc", "replace", "dev", "eth0", *tbf])

    # --- SSH ------------------------------------------------------------------------------

    def start_sshd(self, **options: object) -> None:
        """Start the server; options of sshd_config, kept for later starts."""
        self._sshd.update(options)
        lines = {
            "ListenAddress": f"{self.address}:{self.port}",
            "HostKey": "/run/machine/host_key",
            "PidFile": "/run/sshd.pid",
            "AuthenticationMethods": "publickey",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "UsePAM": "no",
            "MaxSessions": 64,
            **self._sshd,
        }
        text = "".join(f"{key} {value}\n" for key, value in lines.items())
        (self._machine / "sshd_config").write_text(text)
        self.run([tool("sshd"), "-f", "/run/machine/sshd_config", "-E", "/run/machine/sshd.log"])

    def stop_sshd(self) -> None:
        """Stop the server; sessions that are open stay."""
        pid = self.path("/run/sshd.pid").read_text().strip()
        self.run(["kill", pid])
        while self.path("/run/sshd.pid").exists():
            time.sleep(0.02)

    def restart_sshd(self, **options: object) -> None:
        """Stop and start the server, as an administrator does; sessions that are open stay."""
        self.stop_sshd()
        self.start_sshd(**options)
        self.wait_for_ssh()

    def kill_sshd(self) -> None:
        """Kill the server and every session's process of it; what they started goes on."""
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "sshd":
                    os.kill(pid, signal.SIGKILL)
        self.path("/run/sshd.pid").unlink(missing_ok=True)

    def known_hosts_line(self) -> str:
        """The host's key as known_hosts has it."""
        kind, key = (self._machine / "host_key.pub").read_text().split()[:2]
        return f"{self.address} {kind} {key}\n"

    def wait_for_ssh(self) -> None:
        """Until the server answers; after a cut the kernel needs a second to find the way."""
        until = time.monotonic() + 20
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((self.address, self.port), 1) as link,
            ):
                if link.recv(4).startswith(b"SSH"):
                    return
            if time.monotonic() > until:
                log = (self._machine / "sshd.log").read_text()
                raise RuntimeError(f"no SSH server on {self.name} ({self.address}): {log}")
            time.sleep(0.02)

    # --- inside ---------------------------------------------------------------------------

    def run(
        self, argv: Sequence[str], user: str | None = None, check: bool = True, **popen: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root or one of `USERS`.

        Raises:
            RuntimeError: it failed, and `check`.
        """
        words = self.inside(argv, user)
        done = subprocess.run(words, capture_output=True, text=True, check=False, **popen)
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(argv)}: {done.stderr.strip()}")
        return done

    def start(self, argv: Sequence[str], user: str | None = None) -> subprocess.Popen[bytes]:
        """Start a command inside and leave it running; it ends with the host at the latest."""
        return subprocess.Popen(self.inside(argv, user), stdin=subprocess.DEVNULL)

    def inside(self, argv: Sequence[str], user: str | None = None) -> list[str]:
        """The words that run a command inside from the test's side."""
        # First into the host's cgroups, which cannot be reached any more from inside.
        join = "".join(f'echo $$ >"{members}" && ' for members in self._group.members)
        words = ["sh", "-c", f'{join}exec "$@"', "sh"]
        words += [tool("nsenter"), "-t", str(self._pid), "-m", "-u", "-i", "-n", "-p", "-T", "--"]
        if user is not None:
            number = str(USERS[user])
            words += [tool("setpriv"), "--reuid", number, "--regid", number, "--clear-groups"]
            words += ["env", f"HOME=/home/{user}", f"USER={user}"]
        return [*words, *argv]

    def path(self, inside: str) -> Path:
        """A file of the running host, on the test's side."""
        return Path(f"/proc/{self._pid}/root{inside}")

    def write_home(self, name: str, text: str, user: str = "bench") -> None:
        """A file in an account's home."""
        path = self.home / user / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for made in (path, *path.parents):
            if made == self.home:
                break
            os.chown(made, USERS[user], USERS[user])

    # --- what runs there ------------------------------------------------------------------

    def processes(self) -> list[int]:
        """Every process of the host, by its number on the test's side."""
        here = os.readlink(f"/proc/{self._pid}/ns/pid")
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns/pid") == here:
                    found.append(int(entry.name))
        return found

    def marked(self, mark: str = "") -> list[tuple[int, str]]:
        """Processes of this host that carry a mark which begins so: (pid, command)."""
        inside = set(self.processes()) if self.running else set()
        return [(pid, command) for pid, command in marked(mark) if pid in inside]

    def _accounts(self) -> None:
        texts = {name: Path(f"/etc/{name}").read_text() for name in ("passwd", "group", "shadow")}
        for user, number in USERS.items():
            texts["passwd"] += f"{user}:x:{number}:{number}::/home/{user}:/bin/bash\n"
            texts["group"] += f"{user}:x:{number}:\n"
            texts["shadow"] += f"{user}:*:19000:0:99999:7:::\n"
        if "\nsshd:" not in texts["passwd"]:  # a server that was fetched, not installed
            texts["passwd"] += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
        for name, text in texts.items():
            path = self._machine / name
            path.write_text(text)
            path.chmod(0o600 if name == "shadow" else 0o644)

    def _homes(self) -> None:
        for user in USERS:
            folder = self.home / user
            if folder.exists():
                continue  # a shared home that another host made
            folder.mkdir(parents=True)
            os.chown(folder, USERS[user], USERS[user])
            self.write_home(".ssh/authorized_keys", self.lab.public_key, user)
            (folder / ".ssh").chmod(0o700)


def marked(mark: str = "") -> list[tuple[int, str]]:
    """Processes of all hosts (and here) whose job or agent mark begins so: (pid, command)."""
    found = []
    for pid in marks(mark):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            if command:
                found.append((pid, command.decode(errors="replace").strip()))
    return found
