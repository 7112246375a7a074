"""What changed between two runs, and the command that reproduces it."""

import shlex

import pytest

from nightbench.causes.field_changes import RunDifference, differences
from nightbench.config import parse_build
from nightbench.core.reproduce import command_of

NODE = {
    "schema": "nightbench.fingerprint/1",
    "id": "a",
    "taken_at": "2026-01-01",
    "kernel": "6.1",
    "governor": None,
    "cpu": {"model": "EPYC", "flags": ["avx", "fma"]},
    "network": [{"name": "eth0", "mtu": 1500}, {"name": "ib0", "mtu": 4092}],
    "packages": {"numpy": "2.4.5", "pillow": "12"},
}
GOOD = {
    "run_id": "good",
    "line": "pytorch",
    "source": "index",
    "build_id": "pytorch-cpu-index-locked",
    "build_version": None,
    "location": None,
    "framework_version": "2.12.0+cpu",
    "definition_digest": "d1",
    "code_digest": "c1",
    "env": {"OMP_NUM_THREADS": "1"},
    "nodes": {"n1": NODE, "n2": NODE},
}


def test_nothing_differs():
    again = NODE | {"id": "b", "taken_at": "2026-02-02"}
    assert differences(GOOD, GOOD | {"nodes": {"n1": again, "n2": again}}) == ()


def test_all_that_differs_is_listed_once_with_its_nodes():
    other = NODE | {
        "kernel": "6.2",
        "governor": "performance",
        "cpu": {"model": "EPYC", "flags": ["avx"]},
        "network": [{"name": "eth0", "mtu": 9000}],
        "packages": {"numpy": "2.4.6", "pillow": "12"},
    }
    bad = GOOD | {
        "framework_version": "2.13.0+cpu",
        "code_digest": "c2",
        "env": {"OMP_NUM_THREADS": "1", "NCCL_ALGO": "Ring"},
        "nodes": {"n1": other, "n2": NODE | {"kernel": "6.2"}},
    }
    assert tuple(map(str, differences(GOOD, bad))) == (
        "pytorch: 2.12.0+cpu -> 2.13.0+cpu",
        "benchmark code: c1 -> c2",
        "environment variable NCCL_ALGO: (not set) -> Ring",
        "kernel: 6.1 -> 6.2 (on n1, n2)",
        "governor: nothing -> performance (on n1)",
        "cpu flags: avx, fma -> avx (on n1)",
        "network eth0 mtu: 1500 -> 9000 (on n1)",
        "network ib0 name: ib0 -> nothing (on n1)",
        "network ib0 mtu: 4092 -> nothing (on n1)",
        "packages numpy: 2.4.5 -> 2.4.6 (on n1)",
    )


def test_other_nodes_and_what_nobody_knows():
    assert differences(GOOD, GOOD | {"nodes": {"n1": NODE, "n3": NODE}}) == (
        RunDifference("nodes", "n1, n2", "n1, n3"),
    )
    assert differences(GOOD | {"code_digest": ""}, GOOD | {"nodes": None}) == ()


@pytest.mark.parametrize(
    ("good", "bad", "command"),
    [
        ({}, {}, "nightbench run nightly --case resnet50 --build pytorch=2.12.0"),
        (
            {},
            {"framework_version": "2.13.0+cpu"},
            "nightbench compare pytorch=2.12.0 pytorch=2.13.0 --suite nightly --case resnet50",
        ),
        (
            {},
            {"source": "path", "location": "/opt/py torch"},
            "nightbench compare pytorch=2.12.0 'pytorch=/opt/py torch' --suite nightly "
            "--case resnet50",
        ),
        (None, {"framework_version": None}, "nightbench run nightly --case resnet50"),
        (None, None, "nightbench run nightly --case resnet50"),
    ],
)
def test_one_line_measures_it_again(good, bad, command):
    states = [None if each is None else GOOD | each for each in (good, bad)]
    said = command_of("nightly", "resnet50", *states)
    assert said == command
    for word in shlex.split(said):
        if "=" in word:
            assert parse_build(word).line == "pytorch"
