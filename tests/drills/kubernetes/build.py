"""Programs of Kubernetes, compiled once from Debian's source package into `build/kubernetes`.

`python -m tests.drills.kubernetes.build` does so ahead of the drills. The binary package has
kubectl alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests import programs
from tests.drills.arm import MIRROR, NoEmulation, make_base

BUILD = Path(__file__).resolve().parents[3] / "build" / "kubernetes"
BIN = BUILD / "bin"
BASE = BUILD / "base"
"""Root file system of the image in which gangs are measured: Debian with Python."""
CNI = Path("/usr/lib/cni")
PACKAGES = {
    "go": "golang-go",
    "etcd": "etcd-server",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "debootstrap": "debootstrap",
    "cc": "gcc",
}
NAMES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
TREE = BUILD / "go/src/k8s.io/kubernetes"
VERSIONS = [
    f"k8s.io/kubernetes/vendor/k8s.io/{package}/version.gitVersion"
    for package in ("component-base", "client-go/pkg")
]
OPENAPI = "k8s.io/kubernetes/pkg/generated/openapi"
REFLECT = {
    "unsafe_link.go": {
        "m unsafe.Pointer) *hiter": "m unsafe.Pointer, it *hiter)",
        "// rest fields are ignored": "refs [6]unsafe.Pointer; rest [4]uintptr",
    },
    "unsafe_map.go": {
        "\treturn &UnsafeMapIterator{": "\tit := &hiter{}\n\tmapiterinit(type2.rtype, "
        "*(*unsafe.Pointer)(obj), it)\n\treturn &UnsafeMapIterator{",
        "mapiterinit(type2.rtype, *(*unsafe.Pointer)(obj)),": "it,",
    },
}
"""Map iterators of modern-go/reflect2 as Go 1.18 and newer have them; the source is older."""


class NoKubernetes(Exception):
    """Why no Kubernetes can be built here."""


def missing() -> str:
    """What this machine lacks for a Kubernetes; empty if it lacks nothing."""
    packages = {package for name, package in PACKAGES.items() if programs.find(name) is None}
    if not (CNI / "bridge").exists():
        packages.add("containernetworking-plugins")
    if packages:
        return f"a Kubernetes for drills needs: apt-get install {' '.join(sorted(packages))}"
    return "" if os.getuid() == 0 else "a Kubernetes for drills needs root"


def build() -> None:
    """Build what is not there yet.

    Raises:
        NoKubernetes: a package cannot be fetched, or does not compile.
    """
    try:
        if not all((BIN / name).exists() for name in (*NAMES, "pause")):
            BIN.mkdir(parents=True, exist_ok=True)
            if not TREE.exists():
                _fetch()
            _compile()
        make_base(BASE, _run("dpkg", "--print-architecture").strip())
    except subprocess.CalledProcessError as error:
        raise NoKubernetes(f"{error.cmd[:2]}: {error.stderr.strip()[-500:]}") from error
    except (NoEmulation, OSError) as error:
        raise NoKubernetes(str(error)) from error


def _fetch() -> None:
    """Fetch and unpack the source, and adapt it to a newer Go."""
    sources = BUILD / "sources.list"
    sources.write_text(f"deb-src {MIRROR} bookworm main\n")
    apt = programs.apt_get(BUILD)
    apt += [f"-oDir::Etc::sourcelist={sources}", "-oDir::Etc::sourceparts=/dev/null"]
    _run(*apt, "update")
    _run(*apt, "source", "--download-only", "kubernetes")
    (archive,) = BUILD.glob("kubernetes_*.orig.tar.gz")
    new = BUILD / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    _run("tar", "xzf", str(archive), "-C", str(new), "--strip-components=1")
    for name, changes in REFLECT.items():
        path = new / "vendor/github.com/modern-go/reflect2" / name
        text = path.read_text()
        for old, changed in changes.items():
            if old not in text:
                raise NoKubernetes(f"{path}: found no {old!r}")
            text = text.replace(old, changed)
        path.write_text(text)
    TREE.parent.mkdir(parents=True, exist_ok=True)
    new.rename(TREE)


def _compile() -> None:
    generated = TREE / "pkg/generated/openapi/zz_generated.openapi.go"
    if not generated.exists():  # all else that is generated comes with the source
        _go("-o", str(BIN / "openapi-gen"), "./vendor/k8s.io/kube-openapi/cmd/openapi-gen")
        words = ["-p", OPENAPI, "-O", generated.stem, "-o", str(BUILD / "go/src")]
        words += ["-i", ",".join(_described()), "-r", os.devnull]
        _run(str(BIN / "openapi-gen"), *words, "-h", "hack/boilerplate/boilerplate.generatego.txt")
    # Without a Git checkout, programs and API would name version 0.0.0.
    versions = " ".join(f"-X {name}=v{_version()}" for name in VERSIONS)
    _go("-ldflags", versions, "-o", f"{BIN}/", *(f"./cmd/{name}" for name in NAMES))
    _run("cc", "-static", "-Os", "-o", str(BIN / "pause"), "build/pause/linux/pause.c")


def _described() -> list[str]:
    """Return the packages whose types the API describes."""
    found = set()
    for top in (TREE / "staging/src/k8s.io", TREE / "pkg"):
        for path in top.rglob("*.go"):
            where = str(path.parent.relative_to(TREE))
            is_ours = not re.search("sample-|example|code-generator|testdata|generated", where)
            if is_ours and "+k8s:openapi-gen=true" in path.read_text(errors="replace"):
                place = where.removeprefix("staging/src/")
                found.add(place if place != where else f"k8s.io/kubernetes/{where}")
    return sorted(found)


def _version() -> str:
    """Return the version of the source: the archive's name ends with it."""
    (archive,) = BUILD.glob("kubernetes_*.orig.tar.gz")
    found: list[str] = re.findall(r"[\d.]+", archive.name.removesuffix(".orig.tar.gz"))
    return found[-1]


def _go(*words: str) -> None:
    _run("go", "build", *words)


def _run(*words: str) -> str:
    env = {**os.environ, "GOPATH": str(BUILD / "go"), "GO111MODULE": "off", "CGO_ENABLED": "0"}
    cwd = TREE if TREE.exists() else BUILD
    done = subprocess.run(words, cwd=cwd, env=env, check=True, capture_output=True, text=True)
    return done.stdout


if __name__ == "__main__":
    build()
