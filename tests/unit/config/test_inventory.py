"""Inventories of Ansible and Slurm become the YAML of a cluster, and mistakes are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nightbench.cli.main import app
from nightbench.config import load_cluster
from nightbench.config.inventory import Host, ansible_hosts, cluster_yaml, slurm_hosts
from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, SlurmPolicy

ANSIBLE = {
    "_meta": {
        "hostvars": {
            **{f"gpu{n:03}": {"ansible_port": 2200, "ansible_user": "bench"} for n in (1, 2, 3)},
            "gpu020": {"ansible_host": "10.0.0.20", "ansible_port": 2222},
            "here": {"ansible_connection": "local"},
        }
    },
    "all": {"children": ["ungrouped", "every_gpu"]},
    "every_gpu": {"children": ["gpu", "gpu"]},
    "gpu": {"hosts": ["gpu001", "gpu002", "gpu003", "gpu020"]},
    "cpu": {"hosts": ["c9.example.org", "c10.example.org", "c12.example.org"]},
    "none": {},
    "machine": {"hosts": ["here"]},
}
"""As ansible-inventory of ansible-core 2.19 prints it."""


def loaded(folder: Path, text: str) -> Cluster:
    path = folder / "gpu.yaml"
    path.write_text(text, encoding="utf-8")
    (folder / "gpu.known_hosts").write_text("", encoding="utf-8")
    return load_cluster(path)


def test_hosts_that_count_up_are_one_entry(tmp_path: Path) -> None:
    text = cluster_yaml("gpu", ansible_hosts(json.dumps(ANSIBLE), "every_gpu"), "lab")
    assert "hosts: gpu[001-003]" in text
    nodes = loaded(tmp_path, text).nodes
    assert [(n.name, n.host, n.port, n.user, n.ssh_conn_id) for n in nodes] == [
        ("gpu001", "gpu001", 2200, "bench", "lab"),
        ("gpu002", "gpu002", 2200, "bench", "lab"),
        ("gpu003", "gpu003", 2200, "bench", "lab"),
        ("gpu020", "10.0.0.20", 2222, None, "lab"),
    ]


def test_numbers_without_leading_zeros_and_gaps_keep_their_names(tmp_path: Path) -> None:
    text = cluster_yaml("gpu", ansible_hosts(json.dumps(ANSIBLE), "cpu"), "lab")
    assert [node.name for node in loaded(tmp_path, text).nodes] == ANSIBLE["cpu"]["hosts"]
    assert "c[9-10].example.org" in text


def test_a_thousand_nodes_of_slurm_are_an_entry_for_each_subnet(tmp_path: Path) -> None:
    lines = [f"n{k:04} 10.1.{k // 250}.{k % 250} gpu:a100:8(S:0-1),nvme:1" for k in range(1000)]
    hosts = slurm_hosts("\n".join([*lines, lines[0]]) + "\n")
    cluster = loaded(tmp_path, cluster_yaml("gpu", hosts, "lab"))
    assert [(node.name, node.host) for node in cluster.nodes] == [
        tuple(line.split()[:2]) for line in lines
    ]
    assert (cluster.device_kind, cluster.devices_per_node) == ("gpu", 8)
    assert cluster_yaml("gpu", hosts, "lab").count("- hosts:") == 4


def test_nodes_to_which_slurm_brings_gangs(tmp_path: Path) -> None:
    """They are named as Slurm names them, and reached through its login node."""
    hosts = slurm_hosts("g1 10.1.0.1 gpu:a100:8\ng2 10.1.0.2 gpu:a100:8\n")
    cluster = loaded(tmp_path, cluster_yaml("gpu", hosts, "lab", "login.example.org"))
    assert [(n.host, n.name, n.data_address) for n in cluster.nodes] == [
        ("g1", "g1", "10.1.0.1"),
        ("g2", "g2", "10.1.0.2"),
    ]
    assert cluster.slurm == SlurmPolicy(login="login.example.org", options=("--gres=gpu:8",))


def test_ansible_has_no_login_node() -> None:
    words = ["cluster", "from", "ansible", "gpu", "--ssh-conn-id", "lab", "--login", "x"]
    done = CliRunner().invoke(app, words, input=json.dumps(ANSIBLE))
    assert isinstance(done.exception, UserError)
    assert 'found with "ansible"' in str(done.exception)


@pytest.mark.parametrize(
    ("text", "group", "said"),
    [
        ("gpu01\n", "all", "expected the JSON that `ansible-inventory"),
        ("[]", "all", "expected the JSON that `ansible-inventory"),
        (json.dumps(ANSIBLE), "gpus", "expected one of all, cpu, every_gpu, gpu, machine, none"),
        (json.dumps(ANSIBLE), "machine", "ansible_connection"),
        (
            json.dumps(ANSIBLE).replace("10.0.0.20", "{{ inventory_hostname }}.lan"),
            "gpu",
            "ansible_host .* expected a value",
        ),
        (json.dumps(ANSIBLE).replace("2222", '"ssh"'), "gpu", "ansible_port .* expected a value"),
    ],
)
def test_what_is_no_inventory_is_named(text: str, group: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        ansible_hosts(text, group)


def test_an_address_of_ipv6_may_be_in_brackets() -> None:
    inventory = {
        "_meta": {"hostvars": {"a": {"ansible_host": "[2001:db8::13]"}}},
        "gpu": {"hosts": ["a"]},
    }
    (host,) = ansible_hosts(json.dumps(inventory), "gpu")
    assert host.address == "2001:db8::13"


def test_parts_of_gpus_are_not_counted_as_gpus() -> None:
    with pytest.raises(UserError, match=r"devices of 2 kinds on node .*g1.*MIG"):
        slurm_hosts("g1 10.1.0.1 gpu:ampere:6,gpu:1g.10gb:28\n")
    (host,) = slurm_hosts("g1 10.1.0.1 gpu:a100:4(S:0),gpu:a100:4(S:1)\n")
    assert host.gpus == 8


def test_what_cannot_be_one_cluster_is_named() -> None:
    with pytest.raises(UserError, match="found no hosts"):
        cluster_yaml("gpu", [], "lab")
    with pytest.raises(UserError, match=r'different numbers of GPUs .*4 on "b".*8 on "a"'):
        cluster_yaml("gpu", [Host("a", "a", gpus=8), Host("b", "b", gpus=4)], "lab")
    with pytest.raises(UserError, match=r"line 2: found .*PARTITION"):
        slurm_hosts("n1 n1 (null)\nPARTITION AVAIL\n")


def test_the_command_prints_what_the_loader_reads(tmp_path: Path) -> None:
    words = ["cluster", "from", "slurm", "gpu", "--ssh-conn-id", "lab"]
    done = CliRunner().invoke(app, words, input="n1 n1 (null)\nn2 n2 (null)\n")
    assert done.exit_code == 0, done.output
    assert [node.name for node in loaded(tmp_path, done.stdout).nodes] == ["n1", "n2"]
