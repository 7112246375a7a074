"""What a cluster's file says of reaching its nodes, and the values that it must not hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nightbench.config import ConfigError, load_catalog, load_cluster
from nightbench.core.model import JumpHost
from nightbench.core.model.hosts import readable_hosts

Write = Callable[..., Path]

HOSTILE = [
    "a b",
    "it's",
    'say "x"',
    "$(touch /tmp/x)",
    "`id`",
    "a;b",
    "a|b",
    "-oProxyCommand=x",
    "a\\nb",
    "a\\0b",
    "лаборатория",
    "🚀",
    "../../etc",
    "x" * 10_000,
]


CATALOG = load_catalog(Path(__file__).resolve().parents[3] / "benchmarks")


def write(folder: Path, text: str) -> Path:
    path = folder / "lab.yaml"
    path.write_text("cluster: lab\n" + text, encoding="utf-8")
    return path


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_cluster(write(folder, text), catalog=CATALOG)
    return str(caught.value)


def test_jumps_of_the_cluster_and_of_a_node(tmp_path: Path) -> None:
    cluster = load_cluster(
        write(
            tmp_path,
            "jump: [{host: gate, ssh_conn_id: gate, port: 2222}, {host: inner, ssh_conn_id: in}]\n"
            "transport: nccl/ib\n"
            "nodes:\n"
            "  - {hosts: 'gpu[01-02]', ssh_conn_id: gpu, user: bench, interface: ib0}\n"
            "  - {hosts: near, ssh_conn_id: gpu, jump: []}\n"
            "  - {hosts: far, ssh_conn_id: gpu, jump: [{host: other, ssh_conn_id: other}]}\n",
        )
    )
    both = (
        JumpHost(host="gate", ssh_conn_id="gate", port=2222),
        JumpHost(host="inner", ssh_conn_id="in"),
    )
    assert cluster.jump == both
    assert cluster.transport == "nccl/ib"
    # Every node says it itself: a job carries its nodes, and the login needs nothing else.
    assert [n.jump for n in cluster.nodes] == [
        both,
        both,
        (),
        (JumpHost(host="other", ssh_conn_id="other"),),
    ]
    assert [n.user for n in cluster.nodes] == ["bench", "bench", None, None]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "place",
    [
        "nodes: [{{hosts: {v}, ssh_conn_id: x}}]",
        "nodes: [{{hosts: a, name: {v}, ssh_conn_id: x}}]",
        "nodes: [{{hosts: a, ssh_conn_id: {v}}}]",
        "nodes: [{{hosts: a, ssh_conn_id: x, user: {v}}}]",
        "nodes: [{{hosts: a, ssh_conn_id: x, interface: {v}}}]",
        "nodes: [{{hosts: a, ssh_conn_id: x, data_address: {v}}}]",
        "nodes: [{{hosts: a, ssh_conn_id: x, jump: [{{host: {v}, ssh_conn_id: x}}]}}]",
        "nodes: [{{hosts: a, ssh_conn_id: x}}]\njump: [{{host: {v}, ssh_conn_id: x}}]",
        "nodes: [{{hosts: a, ssh_conn_id: x}}]\njump: [{{host: a, ssh_conn_id: {v}}}]",
        "nodes: [{{hosts: a, ssh_conn_id: x}}]\ntransport: {v}",
    ],
)
def test_hostile_values_are_refused_with_their_line(tmp_path: Path, place: str, value: str) -> None:
    quoted = '"' + value.replace('"', '\\"').replace("\\\\n", "\\n") + '"'
    message = refused(tmp_path, place.format(v=quoted) + "\n")
    assert "lab.yaml:" in message
    assert "found" in message
    assert len(message) < 2000, "a long value is not printed whole"
    assert "\n\n" not in message


@pytest.mark.parametrize("key", ["root", "python", "lock_dir"])
def test_control_codes_and_ten_kilobytes_are_refused_in_texts(tmp_path: Path, key: str) -> None:
    nodes = "nodes: [{hosts: a, ssh_conn_id: x}]\n"
    for value in ('"a\\nb"', '"a\\x1b[31mb"', '"' + "x" * 10_000 + '"'):
        message = refused(tmp_path, f"{nodes}environments: {{{key}: {value}}}\n")
        assert f"environments.{key}" in message
        assert "\x1b" not in message


@pytest.mark.parametrize("key", ["index_url: {v}", "find_links: [{v}]"])
def test_a_password_in_a_url_is_refused(tmp_path: Path, key: str) -> None:
    text = "nodes: [{hosts: a, ssh_conn_id: x}]\nenvironments: {"
    message = refused(
        tmp_path, text + key.format(v="https://me:hunter2@pypi.example.org/x") + "}\n"
    )
    assert "password" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("HF_TOKEN", "secret"),
        ("DB_PASSWORD", "secret"),
        ("MY_SECRET_SAUCE", "secret"),
        ("AWS_PROFILE", "secret"),
        ("GITHUB_PAT", "secret"),
        ("NIGHTBENCH_JOB", "launcher"),
        ("RANK", "launcher"),
        ("CUDA_VISIBLE_DEVICES", "launcher"),
        ("PADDLE_TRAINER_ID", "launcher"),
        ("LD_PRELOAD", "other code"),
        ("PYTHONPATH", "other code"),
        ("PATH", "belongs to the node"),
        ("A=B", "name of an environment variable"),
        ("$(id)", "name of an environment variable"),
        ("ÄÖ", "name of an environment variable"),
    ],
)
@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("nodes: [{{hosts: a, ssh_conn_id: x}}]\nenv: {{{e}}}\n", "env"),
        ("nodes: [{{hosts: a, ssh_conn_id: x}}]\nrole_env: {{trainer: {{{e}}}}}\n", "role_env"),
        ("nodes: [{{hosts: a, ssh_conn_id: x, env: {{{e}}}}}]\n", "nodes[0].env"),
    ],
)
def test_variables_that_must_not_stand_in_a_file(
    tmp_path: Path, name: str, why: str, place: str, key: str
) -> None:
    message = refused(tmp_path, place.format(e=f'"{name}": value'))
    assert why in message
    assert key in message
    assert "lab.yaml:" in message


@pytest.mark.parametrize(
    "value",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_" + "a1B2" * 9,
        "hf_" + "abcdEFGH" * 4,
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "postgres://me:hunter2@db/x",
        "xoxb-1234567890-abcdefghij",
    ],
)
def test_values_that_look_like_secrets_are_refused_and_not_shown(
    tmp_path: Path, value: str
) -> None:
    text = "nodes: [{hosts: a, ssh_conn_id: x}]\nenv: {SETTING: " + f'"{value}"' + "}\n"
    message = refused(tmp_path, text)
    assert "env.SETTING" in message
    assert value not in message


def test_variables_that_sites_need_pass(tmp_path: Path) -> None:
    env = {
        "NCCL_SOCKET_IFNAME": "ib0",
        "NCCL_IB_HCA": "mlx5_0,mlx5_1",
        "GLOO_SOCKET_IFNAME": "eth0",
        "FLAGS_cudnn_deterministic": "1",
        "OMP_NUM_THREADS": "4",
        "LD_LIBRARY_PATH": "/opt/cuda/lib64",
        "TOKENIZERS_PARALLELISM": "false",
        "XLA_FLAGS": "--xla_gpu_autotune_level=4 it's $HOME; `id`",
    }
    lines = "".join(
        f"  {name}: '{value.replace(chr(39), 2 * chr(39))}'\n" for name, value in env.items()
    )
    text = "nodes: [{hosts: a, ssh_conn_id: x}]\nenv:\n" + lines
    assert load_cluster(write(tmp_path, text)).env == env


def test_names_for_readable_hosts() -> None:
    for name in ("gpu01.example.org", "10.0.0.1", "fe80::1%eth0", "under_score"):
        assert readable_hosts(name) == name


@pytest.mark.parametrize(
    ("written", "found"),
    [("127.0.4.1:2301", "127.0.4.1:2301"), ("gpu[01-02]:22", "gpu01:22"), ("::x", "::x")],
)
def test_a_host_has_no_port(written: str, found: str) -> None:
    with pytest.raises(ValueError, match="expected a host, or an IPv6 address") as caught:
        readable_hosts(written)
    assert str(caught.value).startswith(f'found "{found}"; ')
    assert str(caught.value).endswith("the key `port` takes a port")


def test_a_jump_host_is_one_host() -> None:
    with pytest.raises(ValueError, match=r'found "gate\[1-2\]"; expected one host'):
        JumpHost(host="gate[1-2]", ssh_conn_id="gate")
