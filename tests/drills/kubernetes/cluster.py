"""A Kubernetes on this machine: a control plane, and a kubelet on each host of a lab.

    with Lab(folder) as lab, Kubernetes(lab, ("n1", "n2")) as cluster:
        cluster.kubeconfig            # of an administrator
        cluster.kubectl("get", "pods")
        cluster.kill("apiserver"); cluster.start("apiserver")
        cluster.kill("kubelet-n1"); cluster.start("kubelet-n1")

Services and names of pods do not work: nothing of ours needs them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from tests.contained import folder_of_server
from tests.drills.host import Host, sh, tool
from tests.drills.hosts import LOCKS, Lab
from tests.drills.kubernetes.build import BASE, BIN, BUILD, CNI, build
from tests.drills.kubernetes.image import write_image
from tests.integration.openssh import end

T = TypeVar("T")

PROGRAMS = Path(os.environ.get("NIGHTBENCH_DRILL_KUBERNETES", BIN))
"""Folder of the programs: those that are built here, or another version's, which may have an etcd
of its own."""
TOKEN = "drill"
IMAGE, PAUSE = "localhost/base:1", "localhost/pause:1"
DISK = "/home/kubernetes"
"""Folder of a host that lies on a disk."""
SOCKET = "/run/containerd.sock"
READY_S = 180.0

CONTAINERD = f"""\
version = 2
root = "{DISK}/containerd"
state = "/run/containerd"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI}"
    conf_dir = "{DISK}/cni"
"""
"""Without CAP_SYS_RESOURCE runc may not lower the score of a pod for the kernel's killer."""

KERNEL = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
KEYS = ("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")
"""What a kubelet sets; each host gets copies, so that this machine keeps its own."""


class Kubernetes:
    """Control plane on the test's side of a lab, whose hosts become the machines.

    Args:
        lab: it has no other hosts.
        machines: their names.
    """

    def __init__(self, lab: Lab, machines: Sequence[str] = ("n1", "n2")) -> None:
        self.lab = lab
        self._machines = machines
        self.folder = lab.folder / "kubernetes"
        self.kubeconfig = self.folder / "kubeconfig"
        self.hosts: dict[str, Host] = {}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._server = f"{lab.network}.1"
        said = subprocess.check_output([PROGRAMS / "kubelet", "--version"], text=True)
        self.version = said.rpartition("v")[2].strip()
        """Of the programs: `1.20.2`."""

    def __enter__(self) -> Kubernetes:
        self.folder.mkdir()
        for left in {each.name for each in Path("/sys/fs/cgroup").glob("*/nbkube-*")}:
            if not (LOCKS / f"{left.split('-')[1]}.lock").exists():  # of a killed drill
                _remove_cgroups(left)
        sh("ssh-keygen", "-q", "-t", "rsa", "-m", "PEM", "-N", "", "-f", f"{self.folder}/account")
        (self.folder / "tokens").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        try:
            for name in ("etcd", "apiserver"):
                self.start(name)
            self.write_kubeconfig(self.kubeconfig, TOKEN)
            self.until(lambda: self.kubectl("get", "--raw", "/healthz"), "API server")
            for name in ("controllers", "scheduler"):
                self.start(name)
            for number, name in enumerate(self._machines):
                self._add_machine(number, name)
            wait = f"--timeout={READY_S:.0f}s"
            self.until(lambda: self.kubectl("get", "node", *self._machines), "machines")
            self.kubectl("wait", "--for=condition=Ready", "node", "--all", wait)
            # The controllers make it some seconds after they start; pods before are refused.
            self.until(lambda: self.kubectl("get", "serviceaccount", "default"), "account")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for host in self.hosts.values():
            host.crash()
            _remove_cgroups(self._cgroup(host.name))
        for daemon in reversed(self._daemons.values()):
            end(daemon)

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Return what kubectl prints.

        Raises:
            RuntimeError: it failed.
        """
        argv = [str(PROGRAMS / "kubectl"), "--kubeconfig", str(self.kubeconfig), *words]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def token_of(self, namespace: str, account: str) -> str:
        """Return the token of a service account; before 1.24 the controllers make one."""
        if self._since(24):
            return self.kubectl("-n", namespace, "create", "token", account).strip()

        def find() -> str:
            found = json.loads(self.kubectl("-n", namespace, "get", "secret", "-o", "json"))
            for secret in found["items"]:
                if secret["metadata"]["name"].startswith(f"{account}-token-"):
                    return base64.b64decode(secret["data"]["token"]).decode()
            raise RuntimeError(f"no token of {namespace}/{account}")

        return self.until(find, "token")

    def write_kubeconfig(self, target: Path, token: str) -> None:
        """Write a kubeconfig of the user that a token stands for."""
        certificate = self.until((self.folder / "server/apiserver.crt").read_bytes, "certificate")
        authority = base64.b64encode(certificate).decode()
        server = {"server": f"https://{self._server}:6443", "certificate-authority-data": authority}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "drill", "cluster": server}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "drill", "context": {"cluster": "drill", "user": "user"}}],
            "current-context": "drill",
        }
        target.write_text(json.dumps(document))

    def start(self, name: str) -> None:
        """Start a daemon; again after it was killed."""
        part, _, machine = name.partition("-")
        words = self._words(part, machine)
        argv = self.hosts[machine].inside(words) if machine else words
        with (self.folder / f"{name}.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self, name: str) -> None:
        """SIGKILL to a daemon; what it has started stays."""
        daemon = self._daemons.pop(name)
        if "-" in name:  # in a host, nsenter waits for it
            inside = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text()
            os.kill(int(inside.split()[0]), signal.SIGKILL)
        else:
            daemon.kill()
        daemon.wait()

    def _words(self, part: str, machine: str) -> list[str]:
        etcd, key = f"http://{self._server}:2379", f"{self.folder}/account"
        config = f"--kubeconfig={self.kubeconfig}"
        gates = ["--feature-gates=GenericWorkload=true,GangScheduling=true"]
        gates = gates if self._since(36) else []
        alone = [config, "--leader-elect=false", "--secure-port=0", *gates]
        alone += [] if self._since(24) else ["--port=0"]
        if part == "etcd":
            peer = f"http://{self._server}:2380"
            urls = {"listen-client": etcd, "advertise-client": etcd, "listen-peer": peer}
            words = [f"--{name}-urls={url}" for name, url in urls.items()]
            words += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
            own = PROGRAMS / "etcd"
            etcd_program = str(own) if own.exists() else tool("etcd")
            return [etcd_program, f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", *words]
        if part == "apiserver":
            issuer = "--service-account-issuer=https://kubernetes.default.svc"
            return [
                *(
                    f"{PROGRAMS}/kube-apiserver",
                    f"--etcd-servers={etcd}",
                    "--authorization-mode=RBAC",
                ),
                *(f"--bind-address={self._server}", f"--advertise-address={self._server}"),
                *(f"--cert-dir={self.folder}/server", f"--token-auth-file={self.folder}/tokens"),
                *(issuer, "--service-cluster-ip-range=10.97.0.0/24"),
                *(f"--service-account-key-file={key}", "--allow-privileged=false"),
                *(f"--service-account-signing-key-file={key}", "--anonymous-auth=false"),
                "--kubelet-preferred-address-types=InternalIP",
                *([*gates, "--runtime-config=scheduling.k8s.io/v1alpha2=true"] if gates else []),
            ]
        if part == "controllers":
            accounts = [f"--service-account-private-key-file={key}"]
            accounts += [f"--root-ca-file={self.folder}/server/apiserver.crt"]
            # A machine whose kubelet is dead counts as lost after 20 s instead of five minutes.
            lost = ["--node-monitor-grace-period=20s"]
            return [f"{PROGRAMS}/kube-controller-manager", *alone, *accounts, *lost]
        if part == "scheduler":
            return [f"{PROGRAMS}/kube-scheduler", *alone]
        if part == "containerd":
            return [tool("containerd"), "--config", f"{DISK}/containerd.toml"]
        address = f"--node-ip={self.hosts[machine].address}"
        engine = [f"--container-runtime-endpoint=unix://{SOCKET}"]
        engine += [] if self._since(27) else ["--container-runtime=remote"]
        files = [f"--config={DISK}/kubelet.json", f"--kubeconfig={DISK}/kubeconfig"]
        files += [f"--root-dir={DISK}/root", f"--cert-dir={DISK}/certificates"]
        return [f"{DISK}/kubelet", *files, *engine, address, f"--hostname-override={machine}"]

    def _add_machine(self, number: int, name: str) -> None:
        host = self.hosts[name] = self.lab.host(name)
        host.run(["ip", "route", "add", "default", "via", self._server])
        for other, peer in enumerate(self.hosts.values()):
            if peer is not host:
                host.run(["ip", "route", "add", _subnet(other), "via", peer.address])
                peer.run(["ip", "route", "add", _subnet(number), "via", host.address])
        for file in (*KERNEL, *KEYS):
            copy = f"/run/{file.replace('/', '-')}"
            host.run(["sh", "-c", f"cat /proc/sys/{file} > {copy}"])
            host.run(["mount", "--bind", copy, f"/proc/sys/{file}"])
        top = Path("/sys/fs/cgroup")
        kinds = [each for each in top.iterdir() if (each / "tasks").exists()]
        for kind in kinds or [top]:  # version 2 has one tree
            (kind / self._cgroup(name)).mkdir()
        share = top / "cpu" / self._cgroup(name) / "cpu.shares"
        if share.exists():  # as a lab's hosts have it, before other work of this machine
            share.write_text("100000")
        disk = host.home / Path(DISK).name
        (disk / "cni").mkdir(parents=True)
        ranges = [[{"subnet": _subnet(number)}]]
        addresses = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": addresses}
        network = {"cniVersion": "0.4.0", "name": "drill", "plugins": [bridge]}
        (disk / "cni/drill.conflist").write_text(json.dumps(network))
        (disk / "containerd.toml").write_text(CONTAINERD)
        # The checkout may lie below /tmp, and each host has a /tmp of its own.
        shutil.copy2(PROGRAMS / "kubelet", disk)
        (disk / "kubeconfig").write_text(self.kubeconfig.read_text())
        kubelet = {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup(name)}",
            "failSwapOn": False,
            # However full this machine's disk is: an image that is deleted cannot be fetched.
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
        }
        if self._since(31):  # 1.35 and newer refuse cgroups of version 1 without this
            kubelet["failCgroupV1"] = False
        (disk / "kubelet.json").write_text(json.dumps(kubelet))
        self.start(f"containerd-{name}")
        for image in images():
            self.load_image(name, image)
        self.start(f"kubelet-{name}")

    def load_image(self, machine: str, image: Path) -> None:
        """Make an image known to a machine."""
        words = ["ctr", "-a", SOCKET, "-n", "k8s.io", "images", "import", "-"]

        def load() -> None:
            with image.open("rb") as content:
                self.hosts[machine].run(words, stdin=content)

        self.until(load, f"containerd of {machine}")

    def _since(self, minor: int) -> bool:
        return int(self.version.split(".")[1]) >= minor

    def _cgroup(self, machine: str) -> str:
        return f"nbkube-{self.lab.tag}-{machine}"

    def until(self, ask: Callable[[], T], what: str) -> T:
        """Return the answer to something that fails for a while."""
        until_s = time.monotonic() + READY_S
        while True:
            try:
                return ask()
            except (RuntimeError, OSError) as error:
                died = [name for name, each in self._daemons.items() if each.poll() is not None]
                if died or time.monotonic() > until_s:
                    logs = [f"--- {each.name}\n{each.read_text()[-2000:]}" for each in self.logs()]
                    raise RuntimeError("\n".join([f"no {what}: {error}; {died}", *logs])) from error
            time.sleep(0.3)

    def logs(self) -> list[Path]:
        """Return the daemons' logs."""
        return sorted(self.folder.glob("*.log"))


def images() -> list[Path]:
    """Return the images that every machine has, made once."""
    contents = {PAUSE: {"pause": BIN / "pause"}, IMAGE: {".": BASE}}
    found = []
    for name, files in contents.items():
        path = BUILD / f"{name.partition('/')[2].partition(':')[0]}.tar"
        if not path.exists():
            new = path.with_suffix(f".{os.getpid()}.tar")
            write_image(new, name, files)
            new.rename(path)
        found.append(path)
    return found


def _subnet(number: int) -> str:
    return f"10.98.{number}.0/24"


def _remove_cgroups(name: str) -> None:
    top = Path("/sys/fs/cgroup")
    for tree in (top / name, *top.glob(f"*/{name}")):
        for folder, _, _ in os.walk(tree, topdown=False):
            until_s = time.monotonic() + 5
            while os.path.isdir(folder):  # the kernel may still be ending what was killed there
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
                    break
                assert time.monotonic() < until_s, folder
                time.sleep(0.05)


@contextlib.contextmanager
def started() -> Iterator[Kubernetes]:
    """Build what is missing, and start a cluster of two machines; nothing of it is left.

    Raises:
        NoKubernetes: it cannot be built.
    """
    build()
    folder = folder_of_server("nbkube-")
    try:
        with Lab(folder) as lab, Kubernetes(lab) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Start a cluster until a signal or Ctrl-C ends it."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with started() as cluster:
        print(f"KUBECONFIG={cluster.kubeconfig}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
