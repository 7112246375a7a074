import dataclasses

import pytest

from nightbench.core.documents import from_document, to_document
from nightbench.core.model import (
    ClockOffset,
    Cluster,
    EnvironmentPolicy,
    FrameworkInfo,
    HealthPolicy,
    NeighbourPolicy,
    Node,
    Reason,
    ReasonCode,
    Variant,
)
from nightbench.nodes import FindingLevel, NodePreflight, compare, findings, worst

NODE = Node("n1", "10.0.3.17", "c")
CPU = Cluster("lab", (NODE,))
GPU = Cluster("gpus", (NODE,), device_kind="gpu", devices_per_node=1)


def line(name: str, *pythons: str, variants: tuple[str, ...] = ("cpu",)):
    return FrameworkInfo(
        line=name,
        title=name,
        version="1",
        api=name,
        devices={"cpu": None, "gpu": None},
        variants={
            each: Variant(device="cpu" if each == "cpu" else "gpu", pythons=pythons)
            for each in variants
        },
        axes={"strategy": {"single": {"cpu": None, "gpu": None}}},
    )


def put(*path_and_value):
    *path, last, value = path_and_value

    def change(document):
        place = document
        for key in path:
            place = place[key]
        place[last] = value

    return change


def with_health(cluster=CPU, **policy):
    return dataclasses.replace(cluster, health=HealthPolicy(**policy))


def only(found):
    (finding,) = found
    return finding


@pytest.mark.parametrize("cluster", [CPU, GPU], ids=["cpu", "gpu"])
def test_healthy_node_has_no_finding(seen, cluster):
    assert findings(seen(), cluster, [line("pytorch"), line("paddle1", "3.7")]) == ()


SPOILED = [
    # (what is spoiled, cluster, what it is called, level, a word of the advice)
    (put("writable", False), CPU, "root", FindingLevel.FAIL, "environments.root"),
    (put("problem", "Read-only file system"), CPU, "root", FindingLevel.FAIL, "dmesg"),
    (
        put("problem", "programs in this folder do not run (noexec)"),
        CPU,
        "root",
        FindingLevel.FAIL,
        "noexec",
    ),
    (put("disk", "free_bytes", 900_000_000), CPU, "disk", FindingLevel.FAIL, "clean -c lab"),
    (put("disk", "free_bytes", 4_000_000_000), CPU, "disk", FindingLevel.WARN, "clean -c lab"),
    (
        put("disk", "quota", {"used_bytes": 53_000_000_000, "limit_bytes": 53_687_091_200}),
        CPU,
        "quota",
        FindingLevel.FAIL,
        "larger quota",
    ),
    (
        put(
            "job_root",
            "problem",
            "disk full: cannot write /var/tmp/nightbench/.probe-1: No space left on device",
        ),
        CPU,
        "job_root",
        FindingLevel.FAIL,
        "(environments.job_root",
    ),
    (
        put("job_root", "disk", "free_bytes", 800 * 10**6),
        CPU,
        "job_root",
        FindingLevel.WARN,
        "move environments.job_root",
    ),
    (
        put("job_root", "disk", "free_bytes", 50 * 10**6),
        CPU,
        "job_root",
        FindingLevel.FAIL,
        "move environments.job_root",
    ),
    (put("disk", "inodes_free", 20_000), CPU, "inodes", FindingLevel.WARN, "environments.root"),
    (put("disk", "inodes_free", 20), CPU, "inodes", FindingLevel.FAIL, "environments.root"),
    (put("shm_free_bytes", 64 * 2**20), CPU, "/dev/shm", FindingLevel.WARN, "--shm-size"),
    (put("memory", "available_bytes", 10**9), CPU, "memory", FindingLevel.WARN, "ps aux"),
    (put("memory", "swap_used_bytes", 10**11), CPU, "swap", FindingLevel.WARN, "swapoff"),
    (
        put("session", "kill_user_processes", True),
        CPU,
        "KillUserProcesses",
        FindingLevel.FAIL,
        "logind.conf",
    ),
    (put("session", "allocation", "pam_slurm", True), CPU, "Slurm", FindingLevel.WARN, "salloc"),
    (put("limits", "nofile", 256), CPU, "limit nofile", FindingLevel.WARN, "limits.d"),
    (put("cpu", "governors", ["powersave"]), CPU, "governor", FindingLevel.WARN, "cpupower"),
    (put("clock", "synchronised", False), CPU, "clock", FindingLevel.WARN, "chrony"),
    (put("gpu_problem", "driver/library mismatch"), GPU, "GPUs", FindingLevel.FAIL, "reboot"),
    (put("gpus", []), GPU, "GPUs", FindingLevel.FAIL, "dmesg"),
    (put("gpus", 0, "ecc_uncorrected", 2), GPU, "GPU 0 memory", FindingLevel.FAIL, "reset"),
    (
        put("gpus", 0, "remapped_rows_pending", True),
        GPU,
        "GPU 0 memory",
        FindingLevel.FAIL,
        "reset",
    ),
    (put("gpus", 0, "retired_pages", 3), GPU, "GPU 0 memory", FindingLevel.WARN, "watch"),
    (
        put("gpus", 0, "throttle", ["hw_thermal_slowdown"]),
        GPU,
        "GPU 0 throttle",
        FindingLevel.FAIL,
        "fans",
    ),
    (
        put("gpus", 0, "temperature_c", 88.0),
        GPU,
        "GPU 0 temperature",
        FindingLevel.WARN,
        "nvidia-smi",
    ),
    (put("gpus", 0, "persistence", False), GPU, "GPU 0 persistence", FindingLevel.WARN, "-pm 1"),
    (put("gpus", 0, "pcie_width", 8), GPU, "GPU 0 PCIe", FindingLevel.WARN, "reseat"),
    (
        put("orphans", [{"pid": 9, "job": "r/c/g0", "node": "n1", "cmd": "x"}]),
        CPU,
        "orphans",
        FindingLevel.WARN,
        "nightbench clean --cluster lab --orphans",
    ),
    (
        put("lock_holders", [{"job_id": "r/c/g0", "user": "anna", "since": "2026"}]),
        CPU,
        "lock",
        FindingLevel.INFO,
        "wait",
    ),
]


@pytest.mark.parametrize(
    ("spoil", "cluster", "what", "level", "advice"), SPOILED, ids=[str(s[2]) for s in SPOILED]
)
def test_each_fault_is_found_and_says_what_to_do(seen, spoil, cluster, what, level, advice):
    finding = only(findings(seen(spoil), cluster))
    assert (finding.title, finding.level) == (what, level)
    assert advice in finding.advice
    assert finding.found
    assert finding.expected


def test_power_cap_and_idle_are_no_slowdown(seen):
    spoiled = seen(put("gpus", 0, "throttle", ["sw_power_cap", "gpu_idle"]))
    assert findings(spoiled, GPU) == ()


def test_gpu_of_others_may_be_ill(seen):
    cluster = dataclasses.replace(GPU, nodes=(dataclasses.replace(NODE, devices=("1",)),))

    def two_gpus(document):
        document["gpus"].append({**document["gpus"][0], "index": 1, "uuid": "GPU-1"})
        document["gpus"][0]["ecc_uncorrected"] = 5

    assert findings(seen(two_gpus), cluster) == ()


def test_listed_device_that_is_not_there(seen):
    cluster = dataclasses.replace(GPU, nodes=(dataclasses.replace(NODE, devices=("GPU-9",)),))
    assert "GPU-9" in only(findings(seen(), cluster)).found


def test_lingering_is_only_half_a_cure(seen):
    def spoil(document):
        document["session"].update(kill_user_processes=True, linger=True)

    assert only(findings(seen(spoil), CPU)).level is FindingLevel.WARN


@pytest.mark.parametrize(
    ("interface", "transport", "level"),
    [
        ("ens1f0", None, None),
        ("ib0", None, FindingLevel.WARN),
        ("ib0", "nccl/ib", FindingLevel.FAIL),
    ],
)
def test_locked_memory_matters_where_there_is_rdma(seen, interface, transport, level):
    def spoil(document):
        document["limits"]["memlock_bytes"] = 65536
        document["links"][0]["name"] = interface

    found = findings(seen(spoil), dataclasses.replace(CPU, transport=transport))
    assert worst(found) is level


def test_interpreter_matters_only_for_lines_without_an_environment(seen):
    spoil = put("interpreters", {"3.7": None, "3.11": None})
    lines = [line("paddle1", "3.7"), line("paddle3", "3.11"), line("pytorch", "3.11"), line("fake")]
    found = findings(seen(spoil), CPU, lines)
    # The golden node has pytorch's environment already.
    assert [(f.what, f.expected) for f in found] == [
        ("Python 3.11", "one for paddle3"),
        ("Python 3.7", "one for paddle1"),
    ]
    # A line is usable with any of its Pythons.
    several = [line("paddle1", "3.7", "3.11"), line("paddle3", "3.11", "3.13")]
    (found,) = findings(seen(put("interpreters", {"3.7": "/usr/bin/python3.7"})), CPU, several)
    assert (found.what, found.expected) == ("Python 3.11 or 3.13", "one for paddle3")
    prepared = EnvironmentPolicy(paths={"paddle1": "/opt/p", "paddle3": "/opt/p"})
    assert findings(seen(spoil), dataclasses.replace(CPU, environments=prepared), lines) == ()


@pytest.mark.parametrize(
    ("driver", "variant", "ill"),
    [
        ("525.60.13", "cu126", False),
        ("525.60.12", "cu126", True),
        ("570.148.08", "cu130", True),
        ("470.10", "cu118", False),
        ("440.1", "cu118", True),
        ("440.1", "cpu", False),
    ],
)
def test_driver_must_run_the_chosen_variant(seen, driver, variant, ill):
    found = findings(
        seen(put("gpus", 0, "driver", driver)), GPU, [line("pytorch", variants=("cpu", variant))]
    )
    assert [f.what for f in found] == (["driver"] if ill else [])
    if ill:
        assert variant in found[0].expected


def test_a_variant_may_state_its_driver(seen):
    variants = {"cuda13": Variant(device="gpu", driver="590.10")}
    stated = line("jax").model_copy(update={"variants": variants})
    (found,) = findings(seen(put("gpus", 0, "driver", "580.65.06")), GPU, [stated])
    assert (found.found, found.expected) == ("580.65.06", "590.10 or newer for jax cuda13")


@pytest.mark.parametrize(("offset", "ill"), [(300.0, True), (-300.0, True), (20.0, False)])
def test_clock_that_is_off_is_told_with_its_side(seen, offset, ill):
    found = findings(seen(wall=ClockOffset(offset, 0.01)), CPU)
    assert bool(found) is ill
    if ill:
        assert ("ahead" if offset > 0 else "behind") in found[0].found
        assert found[0].level is FindingLevel.WARN


def test_slow_network_is_no_slow_clock(seen):
    # 90 s between, but the round trip was two minutes: nothing is proved.
    assert findings(seen(wall=ClockOffset(90.0, 60.0)), CPU) == ()


@pytest.mark.parametrize(
    ("found", "level"),
    [(["performance"], None), (["powersave"], FindingLevel.FAIL), ([], FindingLevel.INFO)],
)
def test_declared_governor(seen, found, level):
    cluster = with_health(governor="performance")
    assert worst(findings(seen(put("cpu", "governors", found)), cluster)) is level


@pytest.mark.parametrize(
    ("change", "level"),
    [
        (put("links", 0, "mbps", 100_000), None),
        (put("links", 0, "mbps", 1000), FindingLevel.FAIL),
        (put("links", 0, "up", False), FindingLevel.FAIL),
        (put("links", 0, "mbps", None), FindingLevel.INFO),
        (put("links", 0, "addresses", []), FindingLevel.INFO),
    ],
    ids=["fast", "slow", "down", "silent", "unknown"],
)
def test_link_speed(seen, change, level):
    assert worst(findings(seen(change), with_health(min_link_mbps=25_000))) is level


def test_interface_that_is_not_there(seen):
    cluster = dataclasses.replace(CPU, nodes=(dataclasses.replace(NODE, interface="ib0"),))
    finding = only(findings(seen(), cluster))
    assert finding.level is FindingLevel.FAIL
    assert "ens1f0" in finding.found


@pytest.mark.parametrize(
    ("action", "level"),
    [("record", FindingLevel.INFO), ("wait", FindingLevel.WARN), ("refuse", FindingLevel.WARN)],
)
def test_neighbours_are_named(seen, action, level):
    process = {"pid": 7, "user": "anna", "command": "train", "cpu_share": 0.5, "gpu": None}
    spoil = put("foreign", {"cpu_share": 0.5, "processes": [process]})
    cluster = dataclasses.replace(CPU, neighbours=NeighbourPolicy(action=action))
    finding = only(findings(seen(spoil), cluster))
    assert finding.level is level
    assert "train of user anna (pid 7)" in finding.found


@pytest.mark.parametrize(
    ("code", "problem", "what", "advice"),
    [
        (
            ReasonCode.NODE_UNREACHABLE,
            "connection refused: nothing listens there",
            "reach",
            "firewall",
        ),
        (ReasonCode.HOST_KEY_REJECTED, "host key has CHANGED", "host key", "console"),
        (ReasonCode.LOGIN_REFUSED, "login refused for user bench", "login", "authorized_keys"),
        (
            ReasonCode.LOGIN_REFUSED,
            "Access denied by pam_slurm_adopt: you have no active jobs on this node",
            "Slurm",
            "salloc",
        ),
        (
            ReasonCode.NODE_UNREACHABLE,
            "connection lost: Access denied: user bench has no active jobs on this node",
            "Slurm",
            "salloc",
        ),
        (
            ReasonCode.LOGIN_REFUSED,
            "The system is going down. pam_nologin(8)",
            "maintenance",
            "wait",
        ),
        (
            ReasonCode.PYTHON_UNUSABLE,
            "python3 is older than 3.7",
            "agent's Python",
            "environments.python",
        ),
        (ReasonCode.REMOTE_FAILURE, "could not make /x: Read-only file system", "root", "remount"),
        (ReasonCode.DISK_FULL, "no room to write", "disk", "quota"),
        (
            ReasonCode.NODE_UNREACHABLE,
            "no answer within 30 s to: begin /opt/py/bin/python3",
            "agent's Python",
            "environments.python",
        ),
        (
            ReasonCode.NODE_UNREACHABLE,
            "no answer within 30 s to: converse",
            "agent's Python",
            "environments.python",
        ),
        (
            ReasonCode.REMOTE_FAILURE,
            "the login shell did not run `sh` (exit 1); its output: ''. Is the shell nologin?",
            "access",
            "fix what the message names",
        ),
        (ReasonCode.REMOTE_FAILURE, "could not make /x: Permission denied", "root", "install -d"),
        (
            ReasonCode.CONTROLLER_ERROR,
            "node n1 (a:22): private key /k cannot be used: Permission denied. Check the path, its "
            "rights and the passphrase of the connection",
            "access",
            "fix what the message names",
        ),
        (
            ReasonCode.REMOTE_FAILURE,
            "the login shell did not run `sh` (exit 126); its output: 'Permission denied'",
            "access",
            "fix what the message names",
        ),
    ],
)
def test_node_that_cannot_be_looked_at(code, problem, what, advice):
    away = NodePreflight("n1", "a:22", "", False, problem=Reason(code, "n1", "a:22", problem))
    finding = only(findings(away, CPU))
    assert (finding.what, finding.level) == (what, FindingLevel.FAIL)
    assert finding.found == problem
    assert advice in finding.advice


def test_survives_the_spool(seen):
    look = seen(wall=ClockOffset(1.0, 0.1), swept=({"pid": 3},))
    assert from_document(NodePreflight, to_document(look)) == look


def test_gravest_comes_first(seen):
    def spoil(document):
        document["shm_free_bytes"] = 0
        document["disk"]["free_bytes"] = 0

    found = findings(seen(spoil), CPU)
    assert [f.level for f in found] == [FindingLevel.FAIL, FindingLevel.WARN]


ARM = put("cpu", "machine", "aarch64")


def test_lines_without_wheels_for_a_node(seen):
    both = {"cpu": Variant(device="cpu", pythons=("3.11",), machines=("x86_64", "aarch64"))}
    wide = line("paddle3", "3.11").model_copy(update={"variants": both})
    lines = [line("pytorch", "3.11"), wide, line("mxnet", "3.11"), line("fake")]
    finding = only(findings(seen(ARM), CPU, lines))
    assert finding.title == "wheels"
    assert finding.found == "none for aarch64 of mxnet, pytorch"
    assert "environments.paths" in finding.advice
    assert findings(seen(), CPU, lines) == ()


def test_another_architecture_than_the_file_states(seen):
    stated = dataclasses.replace(CPU, nodes=(dataclasses.replace(NODE, machine="x86_64"),))
    finding = only(findings(seen(ARM), stated))
    assert (finding.title, finding.level) == ("machine", FindingLevel.WARN)
    assert finding.found == "aarch64"
    assert "set `machine: aarch64`" in finding.advice
    assert findings(seen(), stated) == ()


def test_nodes_of_two_architectures(seen):
    finding = only(compare([seen(), dataclasses.replace(seen(ARM), node="n2")]))
    assert finding.found == "n1: x86_64; n2: aarch64"
    assert "set `machine` for all nodes" in finding.advice


def test_nodes_that_differ(seen):
    other = dataclasses.replace(
        seen(put("cpu", "model", "Another")), node="n2", address="n2.test:22"
    )
    assert compare([seen(), dataclasses.replace(seen(), node="n2")]) == ()
    finding = only(compare([seen(), other]))
    assert "n2: Another" in finding.found
