"""Clusters: nodes from host ranges, paths, and what is said of those that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from nightbench.config import ConfigError, load_cluster
from nightbench.config.clusters import on_this_machine, without_paths
from nightbench.core.errors import UserError
from nightbench.core.model import GitRepository, HealthPolicy, NeighbourPolicy, SlurmPolicy
from nightbench.core.model.clusters import SLURM_RESERVED
from nightbench.core.model.hosts import expand_hosts
from nightbench.core.model.values import duration, percentage

Write = Callable[..., Path]


def complaints(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_cluster(path)
    return str(caught.value).splitlines()


def test_host_ranges_keep_leading_zeros() -> None:
    assert expand_hosts("gpu[08-11].example.org") == [
        f"gpu{n}.example.org" for n in ("08", "09", "10", "11")
    ]
    assert expand_hosts("r[1-2]n[1,03]") == ["r1n1", "r1n03", "r2n1", "r2n03"]
    assert expand_hosts("127.0.0.1") == ["127.0.0.1"]


@pytest.mark.parametrize("wrong", ["", "a[", "a]b", "a[2-1]", "a[x]", "a[1-99999999]", "a[1-]"])
def test_wrong_host_ranges_are_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="found"):
        expand_hosts(wrong)


def test_durations_and_percentages() -> None:
    assert [duration(text) for text in ("900s", "15m", "2h", "1h30m", "0.5s")] == [
        900,
        900,
        7200,
        5400,
        0.5,
    ]
    assert percentage("2.5%") == 0.025
    for wrong in ("", "5", "m", "5 m", "-1s", 5):
        with pytest.raises(ValueError, match="duration"):
            duration(wrong)
    for wrong in ("3", "x%", 3):
        with pytest.raises(ValueError, match="percentage"):
            percentage(wrong)


def test_a_cluster_of_gpus(cluster_file: Write, dags: Path) -> None:
    (dags / "clusters" / "pair.keys").write_text("node1 ssh-ed25519 AAAA\n")
    path = cluster_file(
        (
            "    ssh_conn_id: ssh_pair\n",
            "    ssh_conn_id: ssh_pair\n    name: g[01-02]\n    data_address: 10.0.0.[1-2]\n"
            "    port: 2222\n    port_range: 30000-30100\n    cpus: 0-3,8\n"
            "    devices: [0, GPU-1a]\n"
            "devices: {kind: gpu, per_node: 2}\nknown_hosts: pair.keys\n"
            "environments: {root: /opt/nb, variants: {pytorch: cu126}}\n",
        )
    )
    cluster = load_cluster(path)
    first, second = cluster.nodes
    assert (first.name, first.host, first.data_address) == ("g01", "node1", "10.0.0.1")
    assert (second.name, second.host, second.data_address) == ("g02", "node2", "10.0.0.2")
    assert first.cpus == (0, 1, 2, 3, 8)
    assert first.devices == ("0", "GPU-1a")
    assert (first.port, first.port_range) == (2222, (30000, 30100))
    assert cluster.known_hosts == str(dags / "clusters" / "pair.keys")
    assert cluster.environments.variants == {"pytorch": "cu126"}


def test_what_a_cluster_says_of_neighbours_health_and_limits(cluster_file: Write) -> None:
    plain = load_cluster(cluster_file())
    assert (plain.neighbours.action, plain.lock, plain.parallel_cases) == ("wait", "node", 1)
    assert plain.window is None
    shared = load_cluster(cluster_file(("nodes:", "shared: true\nnodes:")))
    assert shared.neighbours.action == "record"
    path = cluster_file(
        (
            "nodes:",
            "shared: true\nlock: devices\n"
            "neighbours: {action: refuse, wait: 2m, cpu: 25%, gpu: false, budget: 0}\n"
            "health: {quarantine_after: 2, expected_devices: 8, governor: performance,\n"
            "  min_disk: 2GiB, max_clock_error: 5s, min_link: 2.5Gbit/s}\n"
            "limits: {hours: 22:00-06:00 UTC, parallel_cases: 4}\nnodes:",
        ),
        ("ssh_pair\n", "ssh_pair\n    cpus: [0]\n"),
    )
    cluster = load_cluster(path)
    assert cluster.neighbours == NeighbourPolicy(
        action="refuse", wait_s=120.0, cpu_share=0.25, gpu=False, budget=0
    )
    assert cluster.health == HealthPolicy(
        quarantine_after=2,
        expected_devices=8,
        governor="performance",
        min_disk_bytes=2 * 2**30,
        max_clock_error_s=5.0,
        min_link_mbps=2500,
    )
    assert (cluster.lock, cluster.window, cluster.parallel_cases) == (
        "devices",
        "22:00-06:00 UTC",
        4,
    )


SLURM = (
    "slurm:\n  login: login.example.org\n  partition: gpu\n  time_limit: 90m\n"
    '  options: ["--gres=gpu:8"]\nnodes:'
)


@pytest.mark.parametrize("option", sorted(SLURM_RESERVED | {"--no-requeue", "--export-file"}))
def test_an_option_that_changes_what_a_job_is_is_refused(cluster_file: Write, option: str) -> None:
    path = cluster_file(("nodes:", SLURM.replace("--gres=gpu:8", f"{option}=x")))
    assert f"expected another option: Nightbench gives {option}" in complaints(path)[0]


def test_a_file_has_keys_and_units_and_code_has_numbers(cluster_file: Write) -> None:
    assert NeighbourPolicy(wait_s=60).wait_s == 60.0
    path = cluster_file(("nodes:", "neighbours: {wait_s: 60s}\nnodes:"))
    assert 'neighbours: found the unknown key "wait_s"' in complaints(path)[0].replace(
        ".wait_s", ""
    )
    (said,) = complaints(cluster_file(("nodes:", "neighbours: {wait: 60}\nnodes:")))
    assert said.endswith("found 60; expected a duration with its unit, such as 900s, 15m or 2h")


def test_a_cluster_of_slurm(cluster_file: Write) -> None:
    assert load_cluster(cluster_file()).slurm is None
    cluster = load_cluster(cluster_file(("nodes:", SLURM)))
    assert cluster.slurm == SlurmPolicy(
        login="login.example.org", partition="gpu", time_limit_s=5400.0, options=("--gres=gpu:8",)
    )


def test_repositories_whose_commits_a_node_builds(cluster_file: Write) -> None:
    said = "compare:\n  build_node: {}\n  repositories:\n    torch: {{url: '{}', recipe: [make]}}\n"
    good = said.format("node1", "https://git.example.org/torch.git")
    policy = load_cluster(cluster_file(("nodes:", f"{good}nodes:"))).compare
    url = "https://git.example.org/torch.git"
    assert policy.repositories == {
        "torch": GitRepository(url=url, recipe=("make",), branch="main", timeout_s=7200.0)
    }
    assert policy.build_node == "node1"
    for url in (
        "https://ada:secret@git.example.org/x",
        "--upload-pack=x",
        "ext::sh -c x",
        "ssh://",
    ):
        (found,) = complaints(cluster_file(("nodes:", f"{said.format('node1', url)}nodes:")))
        assert "expected https://" in found
    bad = cluster_file(("nodes:", f"{said.format('n7', policy.repositories['torch'].url)}nodes:"))
    assert 'found "n7"; expected a node of the cluster' in complaints(bad)[0]


ID = "sha256:" + "a" * 64


def test_a_cluster_of_images(cluster_file: Write) -> None:
    section = f"environments:\n  kind: container\n  images: {{fake: reg/fake@{ID}}}\n"
    policy = load_cluster(cluster_file(("nodes:", f"{section}nodes:"))).environments
    assert (policy.engine, policy.images) == ("podman", {"fake": f"reg/fake@{ID}"})
    named = section + "  variants: {fake: nvidia}\n"
    policy = load_cluster(cluster_file(("nodes:", f"{named}nodes:"))).environments
    assert policy.variants == {"fake": "nvidia"}, "what an image is a build of"
    for wrong, said in (
        (section.replace(f"@{ID}", ":latest"), 'found "reg/fake:latest"; expected its digest'),
        (section.replace("kind: container", "kind: venv"), "found 1 images with `kind: venv`"),
        (section + "  paths: {fake: /opt}\n", "environments.paths: found paths with `kind: cont"),
        (section.replace("reg/fake", "/f.sif"), "expected a name in a registry: only apptainer"),
        (section.replace("reg/fake@", "") + "  engine: /opt/apptainer\n", "has no image ids"),
        (section + "  mounts: [data]\n", 'found "data"; expected a folder such as /data'),
    ):
        with pytest.raises(ConfigError) as caught:
            load_cluster(cluster_file(("nodes:", f"{wrong}nodes:")))
        assert said in str(caught.value)


def test_the_state_folder_is_a_variable(
    cluster_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "h"))
    path = cluster_file(("nodes:", "known_hosts: ${NIGHTBENCH_HOME}/cluster/known_hosts\nnodes:"))
    assert load_cluster(path).known_hosts == str(tmp_path / "h" / "cluster" / "known_hosts")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "node[1-2]",
            "node[2-1]",
            ':3: nodes[0].hosts: found "[2-1]" in "node[2-1]"; expected ris',
        ),
        ("ssh_conn_id", "ssh_conn", ":4: nodes[0].ssh_conn: found the unknown key"),
        (
            "hosts: node[1-2]",
            "hosts: node[1-2]\n    name: a[1-3]",
            ':4: nodes[0].name: found "a[1-3]", which is 3 names; expected 2, as many as `hosts`',
        ),
        (
            "hosts: node[1-2]",
            "hosts: node[1,1]",
            ':3: nodes[0]: found the name "node1" again (first on line 3)',
        ),
        (
            "hosts: node[1-2]",
            "hosts: node[1-2]\n    port: 70000",
            ":4: nodes[0].port: found 70000; expected a number of at most 65535",
        ),
        (
            "hosts: node[1-2]",
            "hosts: node[1-2]\n    port_range: 24999-20000",
            ':4: nodes[0].port_range: found "24999-20000"; expected ports between 1024 and 65535, '
            "the lower one first",
        ),
        (
            "hosts: node[1-2]",
            "hosts: node[1-2]\n    devices: [0]",
            ':4: nodes[0].devices: found devices on a cluster of kind "cpu"',
        ),
        (
            "nodes:",
            SLURM.replace("--gres=gpu:8", "-N 3"),
            ':6: slurm.options[0]: found "-N 3"; expected `--name` or `--name=value`',
        ),
        (
            "nodes:",
            "environments: {job_root: /local}\n" + SLURM,
            ':2: environments.job_root: found "/local" with `slurm`; expected no job_root',
        ),
        (
            "nodes:",
            "lock: devices\n" + SLURM,
            ':2: lock: found "devices" with `slurm`; expected "node"',
        ),
        (
            "nodes:",
            "known_hosts: gone\nnodes:",
            ':2: known_hosts: found "gone", which does not exi',
        ),
        ("nodes:", "known_hosts: ${HOME}/x\nnodes:", ":2: known_hosts: found"),
        ("nodes:", "shared: yes\nnodes:", ':2: shared: found "yes"; expected true or false'),
        (
            "nodes:",
            "devices: {kind: tpu}\nnodes:",
            ':2: devices.kind: found "tpu"; expected one of',
        ),
        (
            "nodes:",
            "devices: {peak_tflops: {bf16: 989000000000000}}\nnodes:",
            ":2: devices.peak_tflops.bf16: found 989000000000000; expected a number of at most 10",
        ),
        (
            "nodes:",
            "devices: {peak_tflops: {bf17: 989}}\nnodes:",
            ':2: devices.peak_tflops.bf17: found "bf17"; expected one of bf16, fp16, fp32, tf32',
        ),
        (
            "nodes:",
            "neighbours: {action: wiat}\nnodes:",
            ':2: neighbours.action: found "wiat"; expected one of record, refuse, wait (did you',
        ),
        (
            "nodes:",
            "health: {min_disk: 5}\nnodes:",
            ":2: health.min_disk: found 5; expected a size with its unit, such as 5GB",
        ),
        (
            "nodes:",
            "health: {min_link: 10Gbit}\nnodes:",
            ':2: health.min_link: found "10Gbit"; expected a speed such as 10Gbit/s',
        ),
        (
            "nodes:",
            "limits: {parallel_cases: 0}\nnodes:",
            ":2: limits.parallel_cases: found 0; exp",
        ),
        (
            "nodes:",
            "lock: devices\nnodes:",
            ":4: nodes[0]: found 0 cores in cpus; expected at least the 1 of devices.per_node",
        ),
        ("cluster: pair", "cluster: two words", ':1: cluster: found "two words"; expected a name'),
    ],
)
def test_a_wrong_value_is_named_with_file_line_and_key(
    cluster_file: Write, old: str, new: str, said: str
) -> None:
    found = complaints(cluster_file((old, new)))
    assert any(f"dags/clusters/pair.yaml{said}" in line for line in found), found


def test_machines_of_all_nodes_or_of_none(cluster_file: Write) -> None:
    stated = ("ssh_conn_id: ssh_pair", "ssh_conn_id: ssh_pair\n    machine: aarch64")
    assert {node.machine for node in load_cluster(cluster_file(stated)).nodes} == {"aarch64"}
    more = ("nodes:\n", "nodes:\n  - {hosts: other, ssh_conn_id: ssh}\n")
    (found,) = complaints(cluster_file(stated, more))
    assert "nodes[0]: found no machine; expected it for all nodes" in found
    wrong = ("ssh_conn_id: ssh_pair", "ssh_conn_id: ssh_pair\n    machine: arm64")
    assert 'found "arm64"; expected one of' in complaints(cluster_file(wrong))[0]


def test_words_that_only_look_like_secrets_pass(cluster_file: Write) -> None:
    path = cluster_file(("nodes:", "env: {TOKENIZERS_PARALLELISM: 1, MONKEYS: a}\nnodes:"))
    with pytest.raises(ConfigError, match=r"env\.MONKEYS"):
        load_cluster(path)
    path = cluster_file(("nodes:", "env: {TOKENIZERS_PARALLELISM: 1, NCCL_DEBUG: INFO}\nnodes:"))
    assert load_cluster(path).env["TOKENIZERS_PARALLELISM"] == "1"


@pytest.mark.parametrize("name", ["cluster", "controller"])
def test_no_node_is_called_as_a_document_of_the_spool(cluster_file: Write, name: str) -> None:
    one = cluster_file(("hosts: node[1-2]", f"hosts: {name}"))
    assert any(f'found the name "{name}"; expected another' in line for line in complaints(one))


def machine(place: Path, written: str) -> Path:
    """The dags/ folder of a machine whose copy of the cluster's file names host keys."""
    (place / "dags" / "clusters").mkdir(parents=True)
    (place / "dags" / "clusters" / "lab.known_hosts").write_text("n ssh-ed25519 AAAA\n")
    (place / "dags" / "clusters" / "lab.yaml").write_text(
        f"cluster: lab\nknown_hosts: {written}\nnodes:\n  - {{hosts: n, ssh_conn_id: lab}}\n"
    )
    return place / "dags"


def test_paths_are_those_of_the_machine_that_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, worker = (machine(tmp_path / name, "lab.known_hosts") for name in ("a", "b"))
    here = load_cluster(planner / "clusters" / "lab.yaml")
    assert here.known_hosts == str(planner / "clusters" / "lab.known_hosts")
    stored = without_paths(here)
    assert str(tmp_path) not in str(stored)
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(worker))
    there = on_this_machine(stored)
    assert there == replace(here, known_hosts=str(worker / "clusters" / "lab.known_hosts"))
    assert on_this_machine(there) is there


def test_a_machine_without_the_clusters_file_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dags = machine(tmp_path, "lab.known_hosts")
    stored = without_paths(load_cluster(dags / "clusters" / "lab.yaml"))
    (dags / "clusters" / "lab.known_hosts").unlink()
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(dags))
    with pytest.raises(ConfigError, match=r"lab\.yaml:2: known_hosts: .*does not exist"):
        on_this_machine(stored)
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(tmp_path / "elsewhere"))
    with pytest.raises(UserError, match=r"elsewhere/clusters/lab\.yaml: not on .*NIGHTBENCH_DAGS"):
        on_this_machine(stored)


@pytest.mark.parametrize("written", ["a" * 300, "~nobody-here/x"])
def test_a_path_that_cannot_be_is_not_there(tmp_path: Path, written: str) -> None:
    nodes = "nodes:\n  - {hosts: n, ssh_conn_id: x}\n"
    text = f"cluster: lab\nknown_hosts: {written}\n{nodes}"
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r":2: known_hosts: found .*, which does not exist"):
        load_cluster(tmp_path / "lab.yaml")


def test_aliases_of_aliases_end(tmp_path: Path) -> None:
    names = "abcdefghi"
    text = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in pairwise(names)
    )
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises(ConfigError, match="found more than 200,000 values in this file"):
        load_cluster(tmp_path / "lab.yaml")
