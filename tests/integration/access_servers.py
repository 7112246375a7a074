"""OpenSSH servers with settings of their own: jumps, certificates, throttling, login shells."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import programs
from tests.integration.openssh import end, free_port, sshd_words, wait_for_ssh

from nightbench.gang import SshTarget

CONFIG = """
ListenAddress {host}:{port}
HostKey {folder}/host
PidFile {folder}/pid
AuthorizedKeysFile {folder}/authorized_keys
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
"""
DEFAULTS = "MaxStartups 100\nMaxSessions 64\n"


def keygen(path: Path, *words: str) -> Path:
    """A new key pair without a passphrase."""
    call = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path), *words]
    subprocess.run(call, check=True)
    return path


@dataclass(frozen=True)
class Server:
    """An sshd that answers."""

    host: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        """As known_hosts names it."""
        return f"[{self.host}]:{self.port}"

    @property
    def known(self) -> str:
        """Its line of known_hosts."""
        kind, key = (self.folder / "host.pub").read_text().split()[:2]
        return f"{self.address} {kind} {key}\n"

    def target(self, node: str = "n1", **changes: object) -> SshTarget:
        """How it is reached with its own key."""
        words: dict[str, object] = {
            "node": node,
            "host": self.host,
            "port": self.port,
            "user": getpass.getuser(),
            "known_hosts": self.known.encode(),
            "client_keys": (str(self.folder / "client"),),
        }
        return SshTarget(**{**words, **changes})

    def log(self) -> str:
        """What sshd has said."""
        return (self.folder / "log").read_text()


@contextlib.contextmanager
def server(folder: Path, host: str, more: str = DEFAULTS, passwd: str = "") -> Iterator[Server]:
    """One sshd, with users of its own where `passwd` has some."""
    folder.mkdir(parents=True)
    sshd = sshd_words(folder, passwd)
    keygen(folder / "host")
    keygen(folder / "client")
    shutil.copy(folder / "client.pub", folder / "authorized_keys")
    port = free_port([host])
    config = folder / "config"
    config.write_text(CONFIG.format(host=host, port=port, folder=folder) + more)
    log = folder / "log"
    log.touch()
    process = subprocess.Popen([*sshd, "-D", "-f", str(config), "-E", str(log)])
    try:
        wait_for_ssh(host, port, process, log)
        yield Server(host, port, folder, process)
    finally:
        end(process)


@contextlib.contextmanager
def server_with_shell(
    folder: Path, host: str, shell: str, files: dict[str, str], more: str = DEFAULTS
) -> Iterator[Server]:
    """An sshd whose user has another login shell, and a home folder with files of its own."""
    found = programs.find(shell)
    if found is None:
        pytest.skip(programs.missing(shell))
    home = folder.parent / f"{folder.name}-home"
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    home.mkdir(parents=True, exist_ok=True)
    me = pwd.getpwuid(os.getuid())
    lines = Path("/etc/passwd").read_text().splitlines()
    own = f"{me.pw_name}:x:{me.pw_uid}:{me.pw_gid}::{home}:{found}"
    others = [line for line in lines if line.split(":")[0] != me.pw_name]
    passwd = "\n".join([own, *others]) + "\n"
    with server(folder, host, more, passwd=passwd) as started:
        yield started
