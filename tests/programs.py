"""Programs that tests run and no wheel brings: an OpenSSH server, other login shells, `ip`.

What the machine lacks, apt fetches as the user who asks: with lists and a cache of its own, checked
by the distribution's keys. The packages are unpacked in `build/programs`; nothing is installed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "ssh-agent": "openssh-client",
    "ssh-add": "openssh-client",
    "ip": "iproute2",
    "zsh": "zsh",
    "fish": "fish",
    "libnss_wrapper.so": "libnss-wrapper",
}
"""Program or library -> Debian's and Ubuntu's package."""
BUILD = Path(__file__).resolve().parents[1] / "build" / "programs"
UNPACKED = BUILD / "root"
BIN = BUILD / "bin"
SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")
LIBRARIES = (f"usr/lib/{os.uname().machine}-linux-gnu", f"lib/{os.uname().machine}-linux-gnu")
PATIENCE_S = 300


def find(name: str) -> str | None:
    """Return the path of a program or library, the machine's own or an unpacked one."""
    if ".so" in name:
        places = [Path(base, folder) for base in ("/", UNPACKED) for folder in LIBRARIES]
        return next((str(place / name) for place in places if (place / name).exists()), None)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM, str(BIN)])
    return shutil.which(name, path=path)


def missing(name: str) -> str:
    """Say which program is not there, and what would bring it."""
    return f"needs {name}, which apt did not bring (package {PACKAGES[name]})"


def provide() -> None:
    """Unpack what the machine lacks; where that is impossible, say why."""
    packages = sorted({package for name, package in PACKAGES.items() if find(name) is None})
    if not packages:
        return
    print(f"tests: fetching {', '.join(packages)} into {BUILD}", flush=True)
    try:
        unpack(packages)
    except FileNotFoundError as error:
        print(f"tests: not fetched: {error.filename} is not installed", file=sys.stderr)
    except subprocess.TimeoutExpired as error:
        print(f"tests: not fetched: {shlex.join(error.cmd)} takes too long", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-3:]
        print(f"tests: not fetched: {shlex.join(error.cmd)}: {' '.join(last)}", file=sys.stderr)


def unpack(packages: list[str]) -> None:
    """Fetch packages with what they need, and unpack them in `UNPACKED`.

    Raises:
        FileNotFoundError: this is no Debian.
        subprocess.SubprocessError: apt failed, or takes too long.
    """
    BIN.mkdir(parents=True, exist_ok=True)
    apt = apt_get(BUILD)
    _run(*apt, "update")
    _run(*apt, "install", "--download-only", "--no-install-recommends", "--yes", *packages)
    for archive in sorted((BUILD / "cache").glob("archives/*.deb")):
        _run("dpkg-deb", "-x", str(archive), str(UNPACKED))
    libraries = os.pathsep.join(str(UNPACKED / folder) for folder in LIBRARIES)
    for name in PACKAGES:
        found = [UNPACKED / folder / name for folder in ("usr/sbin", "usr/bin", "sbin", "bin")]
        for program in filter(Path.exists, found):
            words = f"LD_LIBRARY_PATH={shlex.quote(libraries)} exec {shlex.quote(str(program))}"
            if name == "sshd":
                words += _parts_of_sshd()
            (BIN / name).write_text(f'#!/bin/sh\n{words} "$@"\n')
            (BIN / name).chmod(0o755)


def apt_get(folder: Path) -> list[str]:
    """Return the words of an apt-get that keeps lists and packages in a folder."""
    state, cache = folder / "state", folder / "cache"
    for each in (state / "lists" / "partial", cache / "archives" / "partial"):
        each.mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State": state,
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": cache,
        "Debug::NoLocking": "1",  # the locks of dpkg are root's, and nothing is installed
        "APT::Sandbox::User": "",
        "Acquire::Retries": "3",
        "Acquire::Languages": "none",
    }
    return ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]


def _parts_of_sshd() -> str:
    """Return the options that name the programs of a newer sshd, which it seeks in /usr/lib."""
    parts = {"SshdSessionPath": "sshd-session", "SshdAuthPath": "sshd-auth"}
    places = {option: UNPACKED / "usr/lib/openssh" / name for option, name in parts.items()}
    there = [f"{option}={place}" for option, place in places.items() if place.exists()]
    return "".join(f" -o {shlex.quote(each)}" for each in there)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=PATIENCE_S)


if __name__ == "__main__":
    provide()
