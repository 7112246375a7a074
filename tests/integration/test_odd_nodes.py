"""A preflight of nodes of which one is odd: the others are examined, the odd one is described."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.access_servers import server

from nightbench.core.model import Cluster, EnvironmentPolicy, Node
from nightbench.gang import preflight
from nightbench.nodes import FindingLevel, findings

pytestmark = pytest.mark.openssh
NOISY = """#!/bin/sh
case "$HOME" in *odd*) echo "WARNING: this python is deprecated, use module load";; esac
exec {python} "$@"
"""


def users(home: Path) -> str:
    """A passwd file in which the user of this test has another home."""
    me = f"{getpass.getuser()}:x:{os.getuid()}:{os.getgid()}::{home}:/bin/sh\n"
    return me + "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"


async def test_a_python_that_prints_and_a_home_that_is_no_utf_8(shipment, tmp_path):
    python = tmp_path / "noisy"
    python.write_text(NOISY.format(python=sys.executable))
    python.chmod(0o755)
    noisy, latin = tmp_path / "odd", tmp_path / os.fsdecode(b"home-\xff")
    noisy.mkdir()
    latin.mkdir()
    places = EnvironmentPolicy(root="~/.nb", python=str(python))
    with (
        server(tmp_path / "1", "127.0.0.2") as plain,
        server(tmp_path / "2", "127.0.0.3", passwd=users(noisy)) as printing,
        server(tmp_path / "3", "127.0.0.4", passwd=users(latin)) as unreadable,
    ):
        servers = {"n1": plain, "n2": printing, "n3": unreadable}
        nodes = tuple(Node(name, each.host, "", each.port) for name, each in servers.items())
        cluster = Cluster("lab", nodes, environments=places)
        targets = {name: each.target(name) for name, each in servers.items()}
        looks, _ = await preflight(cluster, targets, shipment)
    faults = [
        (look.node, each.found)
        for look in looks
        for each in findings(look, cluster)
        if each.level is FindingLevel.FAIL
    ]
    ((node, said),) = faults
    assert node == "n3"
    assert "home-\\\\xff', expected an absolute path in UTF-8; give environments.root" in said
    assert [look.document is None for look in looks] == [False, False, True]


async def test_a_root_without_programs(shipment, tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs root: it mounts a file system")
    root = tmp_path / "root"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(root)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs a machine that allows root to mount")
    try:
        with server(tmp_path / "node", "127.0.0.2") as node:
            places = EnvironmentPolicy(root=f"{root}/nb", python=sys.executable)
            cluster = Cluster("lab", (Node("n1", node.host, "", node.port),), environments=places)
            (look,), _ = await preflight(cluster, {"n1": node.target()}, shipment)
    finally:
        subprocess.run(["umount", str(root)], check=True)
    (fault,) = (each for each in findings(look, cluster) if each.level is FindingLevel.FAIL)
    assert fault.what == "root"
    assert fault.found.endswith(f"{root}/nb: its file system is mounted noexec")
    assert fault.advice.startswith("mount the file system without noexec, or move the root")
