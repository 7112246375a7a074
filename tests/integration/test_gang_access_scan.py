"""`nightbench cluster scan` against real SSH servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.access_servers import Server, keygen, server
from tests.integration.openssh import with_plugins

pytestmark = pytest.mark.openssh


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    base = tmp_path_factory.mktemp("scan")
    with (
        server(base / "gate", "127.0.0.2") as gate,
        server(base / "one", "127.0.0.3") as one,
        server(base / "two", "127.0.0.4") as two,
    ):
        yield [gate, one, two]


class Place:
    """A folder with a cluster's file, and the command."""

    def __init__(self, folder: Path, servers: list[Server]) -> None:
        self.known_hosts = folder / "clusters" / "lab.known_hosts"
        self.home = folder / "home"
        self.file = folder / "clusters" / "lab.yaml"
        self.file.parent.mkdir(parents=True)
        gate, one, two = servers
        self.file.write_text(
            "cluster: lab\n"
            "known_hosts: lab.known_hosts\n"
            f"jump: [{{host: {gate.host}, port: {gate.port}, ssh_conn_id: gate}}]\n"
            "nodes:\n"
            f"  - {{hosts: {one.host}, name: one, port: {one.port}, ssh_conn_id: node_one}}\n"
            f"  - {{hosts: {two.host}, name: two, port: {two.port}, ssh_conn_id: node_two}}\n"
        )
        self.env = {**with_plugins(), "NIGHTBENCH_HOME": str(self.home), "COLUMNS": "200"}
        for conn_id, each in (("GATE", gate), ("NODE_ONE", one), ("NODE_TWO", two)):
            document = {"conn_type": "ssh", "extra": {"key_file": str(each.folder / "client")}}
            self.env[f"AIRFLOW_CONN_{conn_id}"] = json.dumps(document)

    def scan(self, *words: str, stdin: str | None = None) -> tuple[int, str]:
        call = [sys.executable, "-m", "nightbench", "cluster", "scan", str(self.file), *words]
        if not (Path(__file__).parents[2] / "plugins/nightbench/__main__.py").exists():
            call = [str(Path(sys.executable).parent / "nightbench"), *call[3:]]
        done = subprocess.run(
            call,
            env=self.env,
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_keys_are_shown_taken_and_never_overwritten(servers, tmp_path):
    gate, one, two = servers
    place = Place(tmp_path, servers)

    code, said = place.scan()
    assert code == 1
    assert gate.known.split()[1] in said
    assert "no terminal can confirm" in said
    assert "Not scanned, because a jump host is not known: one, two" in said
    assert not place.known_hosts.exists()

    code, said = place.scan("--yes")
    assert code == 0, said
    assert set(place.known_hosts.read_text().splitlines(keepends=True)) == {
        gate.known,
        one.known,
        two.known,
    }
    names = sorted(os.listdir(place.known_hosts.parent))
    assert names == ["lab.known_hosts", "lab.yaml"], "nothing half-written stays behind"

    before = place.known_hosts.read_bytes()
    code, said = place.scan()
    assert code == 0, said
    assert said.count("same") == 3
    assert place.known_hosts.read_bytes() == before

    other = Path(f"{keygen(tmp_path / 'other')}.pub").read_text().split()[1]
    changed = one.known.replace(one.known.split()[2], other)
    place.known_hosts.write_text(gate.known + changed + "# a remark\n")
    code, said = place.scan("--yes")
    assert code == 1
    assert "CHANGED" in said
    assert "--replace one" in said
    text = place.known_hosts.read_text()
    assert changed in text, "a changed key is never taken by --yes alone"
    assert one.known not in text
    assert two.known in text

    code, said = place.scan("--yes", "--replace", "one")
    assert code == 0, said
    text = place.known_hosts.read_text()
    assert changed not in text
    assert text == gate.known + "# a remark\n" + two.known + one.known

    code, said = place.scan("--yes", "--replace", "three")
    assert code == 1
    assert "expected nodes or jump hosts of the cluster: 127.0.0.2, one, two" in said


def test_a_node_that_does_not_answer_is_named_and_the_others_are_kept(servers, tmp_path):
    _, one, two = servers
    place = Place(tmp_path, servers)
    place.file.write_text(place.file.read_text().replace(f"port: {one.port}", "port: 1"))
    code, said = place.scan("--yes")
    assert code == 1
    assert "node one (127.0.0.3:1)" in said
    assert two.known in place.known_hosts.read_text()


def test_a_cluster_without_a_file_for_host_keys(servers, tmp_path):
    place = Place(tmp_path, servers)
    text = place.file.read_text().replace("known_hosts: lab.known_hosts\n", "")
    place.file.write_text(text)
    code, said = place.scan("--yes")
    assert code == 1
    assert "known_hosts: lab.known_hosts" in said
