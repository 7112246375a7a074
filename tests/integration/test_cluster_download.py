"""`nightbench cluster download`: wheels for the CPU architectures of a cluster's nodes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.access_servers import Server, server
from tests.integration.openssh import with_plugins
from tests.shipped import BENCHMARKS, shipped
from tests.unit.gang.test_uv_binary import OTHER, make_uv
from tests.wheels import make_wheel

pytestmark = [pytest.mark.openssh, pytest.mark.slow]
OWN = os.uname().machine
UV = Path(sys.prefix) / "bin" / "uv"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("download") / "n", "127.0.0.2") as found:
        yield found


class Place:
    """A cluster with a wheelhouse, and a line of one package, which only a folder has."""

    def __init__(self, folder: Path, node: Server) -> None:
        self.node = node
        self.house = folder / "house"
        self.house.mkdir()
        self.file = folder / "clusters" / "lab.yaml"
        self.file.parent.mkdir()
        self.file.with_suffix(".known_hosts").write_text(node.known)
        benchmarks = shipped(folder)
        self.line = benchmarks / "frameworks" / "tiny"
        shutil.copytree(benchmarks / "frameworks" / "fake", self.line)
        wheel = make_wheel(folder / "index", "tiny", "1.0")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (self.line / "requirements-cpu.lock").write_text(f"tiny==1.0 --hash=sha256:{digest}\n")
        document = {"conn_type": "ssh", "extra": {"key_file": str(node.folder / "client")}}
        self.env = {
            **with_plugins(),
            "NIGHTBENCH_HOME": str(folder / "home"),
            "NIGHTBENCH_BENCHMARKS": str(benchmarks),
            "AIRFLOW_CONN_LAB": json.dumps(document),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(folder / "index"),
            "COLUMNS": "200",
        }

    def download(
        self, stated: str | None = None, able: tuple[str, ...] = (OWN, OTHER), port: int = 0
    ) -> tuple[int, str]:
        variants = {"cpu": {"device": "cpu", "pythons": ["3.11"], "machines": able}}
        described = json.loads((BENCHMARKS / "frameworks/fake/framework.json").read_text())
        described |= {"line": "tiny", "variants": variants}
        (self.line / "framework.json").write_text(json.dumps(described))
        self.file.write_text(
            "cluster: lab\nknown_hosts: lab.known_hosts\nnodes:\n"
            f"  - {{hosts: {self.node.host}, port: {port or self.node.port}, ssh_conn_id: lab"
            + (f", machine: {stated}" if stated else "")
            + f"}}\nenvironments: {{wheelhouse: {self.house}}}\n"
        )
        words = ["cluster", "download", str(self.file), "--line", "tiny"]
        done = subprocess.run(
            [str(Path(sys.executable).parent / "nightbench"), *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def place(tmp_path: Path, node: Server) -> Place:
    return Place(tmp_path, node)


def test_nodes_print_their_architecture_unless_the_file_states_it(place: Place) -> None:
    code, said = place.download()
    assert (code, f"tiny cpu: 1 wheels for {OWN}" in said) == (0, True), said
    assert os.listdir(place.house) == ["tiny-1.0-py3-none-any.whl"]
    # Nothing listens there, and nothing needs to.
    assert place.download(stated=OWN, port=1)[0] == 0


def test_uv_comes_along_for_another_architecture(place: Place) -> None:
    version = subprocess.check_output([str(UV), "--version"], text=True).split()[1]
    make_uv(place.house.parent / "index", version, OTHER)
    code, said = place.download(stated=OTHER, port=1)
    assert code != 0, "a wheel that is not the lock's is not taken"
    assert "pip could not download the wheels" in said
    assert os.listdir(place.house) == []
    make_uv(place.house, version, OTHER)
    code, said = place.download(stated=OTHER, port=1)
    assert (code, f"uv {version} for {OTHER}" in said) == (0, True), said
    assert f"tiny cpu: 1 wheels for {OTHER}" in said
    code, said = place.download(stated=OTHER, able=(OWN,), port=1)
    assert (code, f"tiny cpu: found wheels for {OWN}; expected {OTHER}" in said) == (0, True)


def test_a_node_that_does_not_answer(place: Place) -> None:
    code, said = place.download(port=1)
    assert code != 0
    assert "the CPU architecture of the nodes is unknown" in said
    assert "Set `machine` for the nodes in the cluster's file, or use --machine" in said
