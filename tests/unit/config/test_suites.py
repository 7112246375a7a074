"""Suites: what they become, and what is said of those that are wrong."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from nightbench.config import (
    ConfigError,
    find_clusters,
    find_suites,
    load_cluster,
    load_suite,
    parse_build,
)
from nightbench.config.run_request import RunRequest, resolve_request
from nightbench.config.suite_heads import is_schedule, suite_heads
from nightbench.config.suites import suite_and_cluster
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Build,
    Catalog,
    Cluster,
    NightPolicy,
    Node,
    Protocol,
    RunKind,
    Untried,
    Variant,
)
from nightbench.core.placement import place
from nightbench.core.run_plan import make_plan, resolve

Write = Callable[..., Path]

PS = """\
  - workload: net
    frameworks: paddle1
    strategy: parameter_server
    trainers: 2
    sync: [sync, async]
    batch_size_per_device: 4
"""


def complaints(path: Path, catalog: Catalog) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_suite(path, catalog)
    return str(caught.value).splitlines()


def test_a_matrix_becomes_cases_with_readable_names(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(
        ("suite: trial", "suite: trial\nscale: smoke"), ("matrix:\n", f"matrix:\n{PS}")
    )
    suite = load_suite(path, catalog)
    assert [case.case_id for case in suite.cases] == [
        "net-paddle1-ps-1ps2tr-bs4-smoke",
        "net-paddle1-ps-1ps2tr-bs4-async-smoke",
        "net-pytorch-collective-1x1-bs2-smoke",
        "net-pytorch-collective-2x1-bs2-smoke",
        "net-paddle3-collective-1x1-bs2-smoke",
        "net-paddle3-collective-2x1-bs2-smoke",
    ]
    served, plain = suite.cases[0], suite.cases[3]
    assert (served.nodes, served.pservers, served.trainers) == (2, 1, 2)
    assert (plain.nodes, plain.trainers) == (2, 2)
    assert suite.cluster == "pair"
    assert suite.protocol.repeats == 7


@pytest.mark.parametrize("lines", ["", "policy: {min_change: auto}\n"])
def test_the_smallest_change_follows_the_series_unless_given(
    suite_file: Write, catalog: Catalog, lines: str
) -> None:
    suite = load_suite(suite_file(("cluster: pair\n", f"cluster: pair\n{lines}")), catalog)
    assert suite.policy.min_change == "auto"
    assert (suite.policy.reported_from, suite.policy.clear_change) == (0.01, 0.03)


def test_settings_are_read(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(
        (
            "cluster: pair\n",
            'cluster: pair\nschedule: "0 1 * * *"\nenv: {OMP_NUM_THREADS: 1}\n'
            "role_env: {pserver: {A: x}}\npolicy: {min_change: 2.5%, min_history: 5}\n"
            "timeouts: {repeat: 15m, progress: 90s}\nalerts: [apprise://conn/team]\n"
            "protocol: {min_seconds: 30s}\nbuilds: {pytorch: {version: 2.12.0}}\n",
        )
    )
    suite = load_suite(path, catalog)
    assert suite.env == {"OMP_NUM_THREADS": "1"}
    assert suite.role_env == {"pserver": {"A": "x"}}
    assert (suite.policy.min_change, suite.policy.min_history) == (0.025, 5)
    assert (suite.policy.reported_from, suite.policy.clear_change) == (0.025, 0.025)
    assert (suite.repeat_timeout_s, suite.progress_timeout_s) == (900.0, 90.0)
    assert suite.protocol.min_seconds == 30.0
    assert suite.builds["pytorch"].version == "2.12.0"
    assert suite.schedule == "0 1 * * *"


def test_repeats_are_a_number_or_until_it_is_sure(suite_file: Write, catalog: Catalog) -> None:
    def protocol(repeats: str) -> Protocol:
        path = suite_file(("owner: tests", f"owner: tests\nprotocol: {{repeats: {repeats}}}"))
        return load_suite(path, catalog).protocol

    assert protocol("3") == Protocol(repeats=3)
    assert protocol("{min: 6, max: 12, confidence: 0.5%}") == Protocol(
        repeats=12, min_repeats=6, confidence=0.005
    )
    assert protocol("{confidence: 1%}") == Protocol(repeats=15, min_repeats=5, confidence=0.01)


def test_a_suite_says_what_a_night_may_hold(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(
        (
            "owner: tests",
            "owner: tests\nnight: {window: 22:00-6:00 Europe/Berlin, budget: 3h}",
        ),
        ("matrix:\n", f"matrix:\n{PS}    priority: 9\n"),
    )
    suite = load_suite(path, catalog)
    assert suite.night == NightPolicy(window="22:00-06:00 Europe/Berlin", budget_s=3 * 3600.0)
    served = [case.case_id for case in suite.cases if case.pservers]
    assert suite.priorities == dict.fromkeys(served, 9)


def test_a_window_must_meet_the_hours_of_the_cluster(
    suite_file: Write, cluster_file: Write, catalog: Catalog
) -> None:
    cluster_file(("nodes:", "limits: {hours: 22:00-04:00 UTC}\nnodes:"))
    path = suite_file(("owner: tests", "owner: tests\nnight: {window: 08:00-12:00 UTC}"))
    assert complaints(path, catalog) == [
        'dags/suites/trial.yaml:3: night.window: found "08:00-12:00 UTC", which never overlaps the '
        "hours of pair, 22:00-04:00 UTC"
    ]


def test_all_problems_of_a_file_are_said_together(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(
        ("owner: tests", "ownr: tests"),
        ("[pytorch, paddle3]", "[pytorch, padle3]"),
        ("[1x1, 2x1]", "[1x1, two]"),
        ("batch_size_per_device: 2", "batch_size_per_device: 0"),
    )
    assert complaints(path, catalog) == [
        "dags/suites/trial.yaml:1: owner: is missing; expected: Owner of the suite and of its DAG.",
        'dags/suites/trial.yaml:2: ownr: found the unknown key "ownr"; expected one of alerts, '
        "builds, cluster, commands, description, env, matrix, night, owner, policy, protocol, "
        "publish, reference, role_env, routes, scale, schedule, suite, tables, timeouts, untried "
        '(did you mean "owner"?)',
        'dags/suites/trial.yaml:6: matrix[0].frameworks[1]: found "padle3"; expected one of fake, '
        'paddle1, paddle3, pytorch (did you mean "paddle3"?)',
        'dags/suites/trial.yaml:8: matrix[0].devices[1]: found "two"; expected nodes x devices on '
        "each, such as 2x1",
        "dags/suites/trial.yaml:9: matrix[0].batch_size_per_device: found 0; expected a number of "
        'at least 1, or "max": the largest batch that fits',
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("net", "nett", ':5: matrix[0].workload: found "nett"; expected one of net, words (did'),
        ("collective", "colective", ':7: matrix[0].strategy: found "colective"; expected one of'),
        ("collective", "[collective]", ":7: matrix[0].strategy: found a list; expected one of"),
        (
            "    strategy: collective\n    devices: [1x1, 2x1]",
            "    strategy: parameter_server\n    trainers: 2",
            ":7: matrix[0].strategy: paddle3 does not support strategy parameter_server: "
            "the wheel is built without it. Supported: collective, single",
        ),
        (
            "frameworks: [pytorch, paddle3]",
            "frameworks: [pytorch]\n    precision: [fp32, bf16]",
            ":7: matrix[0].precision[1]: pytorch does not support precision bf16 on the cpu "
            "devices of cluster pair: too slow. Supported: fp32",
        ),
        (
            "[1x1, 2x1]",
            "[1x1, 3x1]",
            ":8: matrix[0].devices[1]: net-pytorch-collective-3x1-bs2 needs 3 nodes; cluster pair "
            "has 2 nodes",
        ),
        (
            "[1x1, 2x1]",
            "[1x2]",
            ":8: matrix[0].devices[0]: net-pytorch-collective-1x2-bs2 needs 2 devices on a node; "
            "the nodes of cluster pair have 1 device each",
        ),
        ("suite: trial", "suite: other", ':1: suite: found "other"; expected the name of the file'),
        (
            "cluster: pair",
            "cluster: par",
            ':3: cluster: found "par"; expected one of compose, local, pair (did you mean',
        ),
        (
            "owner: tests",
            "owner: tests\nprotocol: {repeats: 0}",
            ":3: protocol.repeats: found 0; expected a number of at least 1",
        ),
        (
            "owner: tests",
            "owner: tests\nprotocol: {repeats: many}",
            ':3: protocol.repeats: found "many"; expected 7, or {min: 5, max: 15, confidence: 1%}',
        ),
        (
            "owner: tests",
            "owner: tests\nprotocol:\n  repeats:\n    min: 3\n    confidence: 1%",
            ":5: protocol.repeats.min: found 3; expected a number of at least 5",
        ),
        (
            "owner: tests",
            "owner: tests\nprotocol: {repeats: {min: 5, max: 15}}",
            ":3: protocol.repeats: found no confidence; expected {min: 5",
        ),
        (
            "owner: tests",
            "owner: tests\nprotocol: {repeats: {min: 9, max: 7, confidence: 1%}}",
            ":3: protocol.repeats: found max 7 below min 9; expected {min: 5",
        ),
        (
            "owner: tests",
            "owner: tests\nnight: {window: 22-6}",
            ':3: night.window: found "22-6"; expected hours with their time zone, such as "22:00',
        ),
        (
            "strategy: collective",
            "strategy: collective\n    priority: 10",
            ":8: matrix[0].priority: found 10; expected a number of at most 9",
        ),
        ("owner: tests", "owner: 7", ":2: owner: found 7; expected text (put it in quotes)"),
        ("owner: tests", "owner: tests\nowner: x", ":3: owner: found this key twice (first on"),
        ("owner: tests", "owner: tests\nenv: {A: true}", ":3: env.A: found true (a switch); exp"),
        (
            "owner: tests",
            "owner: tests\ntimeouts: {repeat: 900}",
            ":3: timeouts.repeat: found 900; expected a duration with its unit",
        ),
        (
            "owner: tests",
            "owner: tests\npolicy: {min_change: 0.03}",
            ":3: policy.min_change: found 0.03; expected a percentage such as 3%",
        ),
        (
            "owner: tests",
            "owner: tests\nschedule: 0 25 * * *",
            ':3: schedule: found "0 25 * * *"; expected a cron expression',
        ),
        (
            "owner: tests",
            "owner: tests\nbuilds: {pytorch: {wheel: a.whl}}",
            ':3: builds.pytorch.wheel: found "a.whl"; expected an existing wheel',
        ),
        (
            "owner: tests",
            "owner: tests\nbuilds: {pytorch: {version: 2.13}}",
            ":3: builds.pytorch.version: found 2.13; expected text (put it in quotes)",
        ),
        (
            "owner: tests",
            "owner: tests\nbuilds: {pytorch: {version: $(id)}}",
            ':3: builds.pytorch.version: found "$(id)"; expected a version such as 2.13.0',
        ),
        (
            "owner: tests",
            "owner: tests\nreference: {pytorch: {variant: cpu}}",
            ":3: reference.pytorch: found none of them; expected one of version, wheel, path",
        ),
        (
            "owner: tests",
            "owner: tests\nreference: {paddle1: {version: 1.8.5}}",
            ":3: reference.paddle1: the suite has no case of paddle1; expected one of paddle3",
        ),
        (
            "owner: tests",
            "owner: tests\nbuilds: {pytorch: {version: 2.12.0}}\n"
            "reference: {pytorch: {version: 2.12.0}}",
            ":4: reference.pytorch: is the build that the nights measure; expected another build",
        ),
        (
            "owner: tests",
            "owner: tests\npolicy: {metric: mfu}\nreference: {pytorch: {version: 2.12.0}}",
            ":4: reference: is for the metric throughput; found policy.metric mfu",
        ),
        (
            "owner: tests",
            "owner: tests\nscale: big",
            ':3: scale: found "big"; expected one of full, smoke',
        ),
        (
            "devices: [1x1, 2x1]",
            "trainers: 2",
            ":8: matrix[0].trainers: is for parameter_server only; found it with collective",
        ),
        (
            "strategy: collective",
            "strategy: single",
            ':8: matrix[0].devices: found "2x1" with single; expected 1x1, or collective',
        ),
        (
            "devices: [1x1, 2x1]",
            "compression: dgc",
            ":8: matrix[0].compression: pytorch does not support compression dgc. Supported:",
        ),
        (
            "devices: [1x1, 2x1]",
            "sequence_length: 64",
            ":8: matrix[0].sequence_length: net has no sequences",
        ),
        ("net", "words", ":6: matrix[0].frameworks[0]: words is not written for pytorch (for fa"),
        ("owner: tests", "owner: [a", ": not valid YAML: "),
        ("owner: tests", "\towner: tests", "any token; replace the tab by spaces"),
        ("devices: [1x1, 2x1]", "devices: [1x1, 2x1],", "; remove the comma: only a list in [ ]"),
        (
            "batch_size_per_device: 2",
            'batch_size_per_device: "16, 32"',
            "the largest batch that fits; write it without quotes: [16, 32]",
        ),
        ("owner: tests", "owner: !!python/name:os.system x", ':2: owner: found the tag "tag:yaml'),
    ],
)
def test_a_wrong_value_is_named_with_file_line_and_key(
    suite_file: Write, catalog: Catalog, old: str, new: str, said: str
) -> None:
    found = complaints(suite_file((old, new)), catalog)
    assert any(f"dags/suites/trial.yaml{said}" in line or said in line for line in found), found


def test_a_case_that_is_made_twice_names_both_blocks(suite_file: Write, catalog: Catalog) -> None:
    block = (
        "  - {workload: net, frameworks: pytorch, strategy: collective, batch_size_per_device: 2}\n"
    )
    found = complaints(suite_file(("matrix:\n", f"matrix:\n{block}")), catalog)
    assert found == [
        "dags/suites/trial.yaml:6: matrix[1]: defines the case net-pytorch-collective-1x1-bs2 a "
        "second time (first on line 5)"
    ]


def test_no_file_is_an_error_of_the_user(dags: Path, catalog: Catalog) -> None:
    with pytest.raises(UserError, match="no such file"):
        load_suite(dags / "suites" / "none.yaml", catalog)


def test_what_an_editor_leaves_beside_suites_and_clusters_is_none(dags: Path) -> None:
    suites, clusters = find_suites(dags), find_clusters(dags)
    heads = suite_heads(dags)
    for folder in ("suites", "clusters"):
        (dags / folder / ".#demo.yaml").symlink_to("me@host.4711")
        (dags / folder / "._demo.yaml").write_bytes(b"\x00\x05\x16")
    assert (find_suites(dags), find_clusters(dags)) == (suites, clusters)
    assert suite_heads(dags) == heads


LONG = "n" * 101


@pytest.mark.parametrize("name", ["base copy", "a+b", "base (1)", LONG, "n" * 243])
def test_a_file_whose_name_no_dag_can_have_is_not_scheduled(
    name: str, dags: Path, catalog: Catalog
) -> None:
    (named,) = [path for path in find_suites(dags).values() if path.stem == "trial"]
    text = named.read_text().replace("suite: trial", 'suite: trial\nschedule: "0 1 * * *"')
    (dags / "suites" / f"{name}.yaml").write_text(text)
    heads = {head.name: head for head in suite_heads(dags)}
    head = heads.pop(name)
    assert head.schedule is None
    assert head.problem is not None
    assert head.problem.startswith("the name of the file: found ")
    assert head.problem.endswith("; rename the file")
    assert re.fullmatch(r"nightly_[\w.-]{1,240}", head.dag_id, re.ASCII)
    assert all(len(tag) <= 100 for tag in head.tags)
    assert all(each.problem is None for each in heads.values())
    assert f".yaml:1: suite: {head.problem}" in complaints(find_suites(dags)[name], catalog)[0]


def test_a_cluster_whose_name_no_tag_can_have_is_refused(dags: Path, catalog: Catalog) -> None:
    path = find_suites(dags)["trial"]
    path.write_text(path.read_text().replace("cluster: pair", f"cluster: {LONG}"))
    said = "found a name of 101 characters"
    (head,) = [head for head in suite_heads(dags) if head.name == "trial"]
    assert (head.problem, head.tags) == (f"cluster: {said}", ["nightly", "trial"])
    assert f"cluster: {said}; expected 100 at most" in "\n".join(complaints(path, catalog))


@pytest.mark.parametrize(
    ("schedule", "is_one"),
    [
        ("0 0 30 2 *", False),
        ("0 0 31 4 *", False),
        ("R 3 * * *", False),
        ("0 r(1-5) * * *", False),
        ("0 0 29 2 *", True),
        ("0 3 * * FRI", True),
        ("@daily", True),
        ("@reboot", False),
    ],
)
def test_a_schedule_has_dates_to_come_and_no_random_ones(schedule: str, is_one: bool) -> None:
    assert is_schedule(schedule) is is_one


def test_a_suite_in_a_folder_of_suites_is_found_and_has_the_clusters_of_all(
    dags: Path, catalog: Catalog
) -> None:
    known = find_suites(dags)
    (name, path), *_ = known.items()
    for folder in ("more", ".hidden"):
        (dags / "suites" / folder).mkdir()
    moved = path.rename(dags / "suites" / "more" / path.name)
    (dags / "suites" / ".hidden" / "other.yaml").write_text("suite: other")
    assert find_suites(dags) == {**known, name: moved}
    assert [head.name for head in suite_heads(dags)] == sorted(known)
    assert load_suite(moved, catalog).name == name


def test_a_character_that_yaml_has_not_is_named(dags: Path, catalog: Catalog) -> None:
    path = dags / "suites" / "bell.yaml"
    path.write_text('suite: bell\nowner: "\x07"\n')
    with pytest.raises(
        UserError, match=r"bell.yaml:2: not valid YAML: found the character U\+0007"
    ):
        load_suite(path, catalog)


def test_an_empty_file_is_not_a_suite(dags: Path, catalog: Catalog) -> None:
    path = dags / "suites" / "empty.yaml"
    path.write_text("# nothing\n")
    assert complaints(path, catalog) == [
        "dags/suites/empty.yaml:1: found nothing; expected a mapping of keys to values"
    ]


def test_customised_as_on_the_command_line(suite_file: Write, catalog: Catalog) -> None:
    changed = suite_file(
        ("owner: tests", "owner: tests\nprotocol: {repeats: {confidence: 1%}}"),
        ("strategy: collective", "strategy: collective\n    priority: 7"),
    )
    asked = RunRequest(str(changed), scale="smoke", repeats=2, builds=("pytorch=2.12",))
    once, _, _ = resolve_request(asked, catalog, files=True)
    assert {case.scale for case in once.cases} == {"smoke"}
    assert once.priorities == {case.case_id: 7 for case in once.cases}
    assert once.protocol.repeats == 2
    assert not once.protocol.adaptive
    assert once.builds["pytorch"].version == "2.12"
    with pytest.raises(UserError, match='scale: found "huge"; expected one of full, smoke'):
        load_suite(changed, catalog, scale="huge")


def test_builds_from_the_command_line(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.14.0-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"x")
    assert parse_build(f"pytorch={wheel}") == Build("pytorch", "", "wheel", "2.14.0", str(wheel))
    assert parse_build("pytorch=/opt/torch").source == "path"
    for wrong in ("pytorch", "=1", "pytorch=gone.whl"):
        with pytest.raises(UserError, match="build: found"):
            parse_build(wrong)


def test_a_wheel_lies_beside_the_suite_or_in_dags(
    suite_file: Write, catalog: Catalog, dags: Path
) -> None:
    wheel = dags / "wheels" / "torch-2.14.0-cp311-cp311-linux_x86_64.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"x")
    path = suite_file(
        ("owner: tests", f"owner: tests\nbuilds: {{pytorch: {{wheel: wheels/{wheel.name}}}}}")
    )
    build = load_suite(path, catalog).builds["pytorch"]
    assert (build.source, build.version, build.location) == ("wheel", "2.14.0", str(wheel))


def test_a_reference_is_a_pinned_build_beside_that_of_the_nights(
    suite_file: Write, catalog: Catalog
) -> None:
    text = "owner: tests\nreference: {pytorch: {path: /opt/torch-2.12}}"
    suite = load_suite(suite_file(("owner: tests", text)), catalog)
    assert suite.reference == {"pytorch": Build("pytorch", "", "path", None, "/opt/torch-2.12")}
    assert suite.builds == {}


def test_parameter_servers_need_trainers(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(("matrix:\n", f"matrix:\n{PS.replace('    trainers: 2', '')}"))
    assert complaints(path, catalog) == [
        "dags/suites/trial.yaml:5: matrix[0].trainers: is missing; expected: numbers of trainers, "
        "for parameter_server"
    ]


@pytest.mark.parametrize(
    ("trainers", "shape"), [(1, (1, 1)), (2, (2, 1)), (3, (2, 2)), (4, (2, 2)), (5, (2, 3))]
)
def test_trainers_fit_to_the_nodes_of_the_cluster(
    suite_file: Write,
    cluster_file: Write,
    catalog: Catalog,
    trainers: int,
    shape: tuple[int, int],
) -> None:
    fitting = PS.replace("trainers: 2", f"trainers: {trainers}\n    devices: fit")
    path = suite_file(("matrix:\n", f"matrix:\n{fitting}"))
    pair = load_cluster(cluster_file(("nodes:", "devices: {per_node: 4}\nnodes:")))
    case = load_suite(path, catalog, cluster=pair).cases[0]
    assert (case.nodes, case.devices_per_node) == shape
    assert (f"-{shape[0]}x{shape[1]}-" in case.case_id) is (trainers > 2)
    _, processes = place(case, pair, catalog.roles_of(case))
    on_nodes = Counter(each.node for each in processes if each.role == "trainer")
    assert sum(on_nodes.values()) == trainers
    assert max(on_nodes.values()) == shape[1]


def test_only_trainers_of_parameter_servers_fit(suite_file: Write, catalog: Catalog) -> None:
    path = suite_file(("devices: [1x1, 2x1]", "devices: fit"))
    assert any(
        "devices: fit is for parameter_server only; found it with collective" in line
        for line in complaints(path, catalog)
    )


@pytest.mark.parametrize("value", ["$(id)", "2.13; id", "../2.13", "--index-url=x", "2.13\n", "二"])
def test_what_is_no_version_never_reaches_a_node(value: str) -> None:
    with pytest.raises(UserError, match=r"expected a version such as 2\.13\.0, FILE"):
        parse_build(f"pytorch={value}")


def test_sparsity_is_of_compressed_cases_alone(suite_file: Write, catalog: Catalog) -> None:
    frameworks = {
        line: info.model_copy(
            update={"axes": {**info.axes, "compression": {"dgc": {"cpu": None, "gpu": None}}}}
        )
        for line, info in catalog.frameworks.items()
    }
    catalog = dataclasses.replace(catalog, frameworks=frameworks)
    added = "strategy: collective\n    compression: [none, dgc]\n    sparsity: [99%, 99.9%]"
    suite = load_suite(suite_file(("strategy: collective", added)), catalog)
    assert [case.case_id for case in suite.cases[:3]] == [
        "net-pytorch-collective-1x1-bs2",
        "net-pytorch-collective-1x1-bs2-dgc-sparsity99",
        "net-pytorch-collective-1x1-bs2-dgc-sparsity99.9",
    ]
    assert [case.sparsity for case in suite.cases[:3]] == [None, 99.0, 99.9]
    alone = ("strategy: collective", "strategy: collective\n    sparsity: 99%")
    assert complaints(suite_file(alone), catalog) == [
        "dags/suites/trial.yaml:8: matrix[0].sparsity: requires a `compression`; found none"
    ]


def test_a_process_may_have_cores_and_memory_of_its_own(
    suite_file: Write, catalog: Catalog, dags: Path
) -> None:
    added = ("strategy: collective", "strategy: collective\n    cpus: 10\n    memory: 5GB")
    (case, *_) = load_suite(suite_file(added), catalog).cases
    assert (case.cpus, case.memory_mb) == (10, 5000)
    assert case.case_id == "net-pytorch-collective-1x1-bs2-cpus10-memory5000"
    cluster = dags / "clusters" / "pair.yaml"
    cluster.write_text(cluster.read_text() + "    cpus: 0-7\n")
    said = complaints(suite_file(added), catalog)
    assert "needs 10 cores for each process; the nodes of cluster pair have 8" in said[0]


def test_the_largest_batch_is_searched_by_trainers_alone(
    suite_file: Write, catalog: Catalog
) -> None:
    written = "batch_size_per_device: 2"
    suite = load_suite(suite_file((written, "batch_size_per_device: [2, max]")), catalog)
    assert "net-pytorch-collective-1x1-bsmax" in {case.case_id for case in suite.cases}
    said = complaints(suite_file((written, "batch_size_per_device: most")), catalog)[0]
    assert said.endswith(
        'found "most"; expected a number of at least 1, or "max": the largest batch that fits'
    )
    served = (
        *((written, "batch_size_per_device: max"), ("[pytorch, paddle3]", "fake")),
        ("strategy: collective", "strategy: parameter_server\n    trainers: 2"),
        ("devices: [1x1, 2x1]", "devices: 2x1"),
    )
    said = complaints(suite_file(*served), catalog)[0]
    assert said.endswith("servers cannot search the batch size max: expected a number")


def test_what_nobody_has_run_is_measured_where_that_is_asked_for(
    suite_file: Write, catalog: Catalog
) -> None:
    never = Untried("no GPU was available")
    line = catalog.frameworks["pytorch"]
    devices = line.model_copy(update={"devices": {"cpu": None, "gpu": never}})
    precision = {"fp32": {"cpu": None, "gpu": None}, "bf16": {"cpu": "too slow", "gpu": never}}
    mode = line.model_copy(update={"axes": {**line.axes, "precision": precision}})
    gpus = Cluster("gpus", (Node("n1", "n1", "ssh"),), device_kind="gpu", devices_per_node=1)
    changes = (
        ("frameworks: [pytorch, paddle3]", "frameworks: pytorch\n    precision: bf16"),
        ("devices: [1x1, 2x1]", "devices: 1x1"),
    )
    for changed, why in ((devices, never.why), (mode, f"precision bf16: {never.why}")):
        there = dataclasses.replace(catalog, frameworks={**catalog.frameworks, "pytorch": changed})
        with pytest.raises(ConfigError) as caught:
            load_suite(suite_file(*changes), there, cluster=gpus)
        assert (
            "pytorch has not been tried in this configuration on the gpu devices of cluster gpus: "
            f"{why}. "
            "To run it anyway: --untried, or `untried: true`" in str(caught.value)
        )
        by_command = suite_and_cluster(suite_file(*changes), there, cluster=gpus, untried=True)[0]
        by_file = suite_file(*changes, ("owner: tests", "owner: tests\nuntried: true"))
        assert load_suite(by_file, there, cluster=gpus) == by_command
        plan = make_plan(by_command, gpus, there, run_kind=RunKind.ON_DEMAND)
        assert [each.planned.untried for each in plan.cases] == [why]
        # A reason is one, whoever asks.
        with pytest.raises(ConfigError, match="too slow"):
            load_suite(by_file, there)


def test_a_line_runs_the_first_variant_that_is_built_for_the_clusters_gpus(
    suite_file: Write, catalog: Catalog
) -> None:
    line = catalog.frameworks["pytorch"].model_copy(
        update={
            "variants": {
                "cpu": Variant(device="cpu"),
                "cuda12": Variant(device="gpu", compute_capabilities=("8.0", "9.0")),
                "cuda11": Variant(device="gpu", compute_capabilities=("7.0", "8.0")),
            }
        }
    )
    catalog = dataclasses.replace(catalog, frameworks={**catalog.frameworks, "pytorch": line})
    path = suite_file(("[pytorch, paddle3]", "pytorch"), ("[1x1, 2x1]", "1x1"))
    node = Node("n1", "n1", "ssh")
    for capability, variant in ((None, "cuda12"), ("8.0", "cuda12"), ("7.0", "cuda11")):
        gpus = Cluster("gpus", (node,), device_kind="gpu", compute_capability=capability)
        plan = make_plan(
            load_suite(path, catalog, cluster=gpus), gpus, catalog, run_kind=RunKind.ON_DEMAND
        )
        assert [job.build.variant for job in plan.jobs] == [variant]
    with pytest.raises(ConfigError) as caught:
        load_suite(path, catalog, cluster=dataclasses.replace(gpus, compute_capability="10.0"))
    assert (
        "pytorch has no variant for compute capability 10.0, which cluster gpus has: cuda12 is "
        "built for 8.0, 9.0; cuda11 is built for 7.0, 8.0" in str(caught.value)
    )


def test_a_build_has_modes_of_its_own(suite_file: Write, catalog: Catalog) -> None:
    line = catalog.frameworks["pytorch"]
    axes = {"strategy": {**line.axes["strategy"], "collective": {"cpu": "no all-reduce"}}}
    own = {"horovod": Variant(device="cpu", axes={"strategy": {"collective": {"cpu": None}}})}
    line = line.model_copy(update={"axes": {**line.axes, **axes}, "variants": line.variants | own})
    catalog = dataclasses.replace(catalog, frameworks={**catalog.frameworks, "pytorch": line})
    cases = ("[pytorch, paddle3]", "pytorch")
    assert "no all-reduce" in complaints(suite_file(cases), catalog)[0]
    named = (
        "owner: tests",
        "owner: tests\nbuilds: {pytorch: {path: /opt/horovod, variant: horovod}}",
    )
    assert load_suite(suite_file(cases, named), catalog).cases
    unknown = line.model_copy(
        update={"variants": line.variants | {"horovod": Variant(device="cpu")}}
    )
    catalog = dataclasses.replace(catalog, frameworks={**catalog.frameworks, "pytorch": unknown})
    assert "no all-reduce" in complaints(suite_file(cases, named), catalog)[0]


def test_real_data_need_a_workload_a_line_and_a_cluster_that_have_them(
    suite_file: Write, catalog: Catalog, dags: Path
) -> None:
    added = ("strategy: collective", "strategy: collective\n    data: [synthetic, imagenet]")
    assert complaints(suite_file(added), catalog)[0].endswith(
        "matrix[0].data[1]: net reads no real data: found imagenet; expected synthetic"
    )
    net = catalog.workloads["net"].model_copy(update={"reads": "image_folder"})
    catalog = dataclasses.replace(catalog, workloads={**catalog.workloads, "net": net})
    said = complaints(suite_file(added), catalog)[0]
    assert said.endswith(
        "data[1]: paddle3 does not support data image_folder. Supported: synthetic"
    )
    lines = {
        name: line.model_copy(
            update={
                "axes": {**line.axes, "data": {"image_folder": {"cpu": None, "gpu": "too slow"}}}
            }
        )
        for name, line in catalog.frameworks.items()
    }
    catalog = dataclasses.replace(catalog, frameworks=lines)
    assert (
        "cluster pair has no data imagenet (it has sample, synthetic)"
        in (complaints(suite_file(added), catalog)[0])
    )
    cluster = dags / "clusters" / "pair.yaml"
    written = cluster.read_text()
    cluster.write_text(written + "data: {imagenet: /data/imagenet}\n")
    suite = load_suite(suite_file(added), catalog)
    assert {"net-pytorch-collective-1x1-bs2", "net-pytorch-collective-1x1-bs2-imagenet"} < {
        case.case_id for case in suite.cases
    }
    pair = load_cluster(cluster)
    (case,) = [case for case in suite.cases if case.data == "imagenet"][:1]
    assert resolve(case, suite, pair, catalog, "r").to_json()["workload"]["data_path"] == (
        "/data/imagenet"
    )
    for line, expected in (
        ("data: {imagenet: data/imagenet}", "expected a path on the nodes that begins with /"),
        ("data: {sample: /data}", 'found "sample", which every cluster has'),
    ):
        cluster.write_text(f"{written}{line}\n")
        with pytest.raises(UserError, match=expected):
            load_cluster(cluster)


def test_a_limited_link_needs_a_cluster_that_limits_it(
    suite_file: Write, catalog: Catalog, dags: Path
) -> None:
    added = ("strategy: collective", "strategy: collective\n    link_bandwidth: [full, 10mbit]")
    assert "cluster pair has no `link.command`" in complaints(suite_file(added), catalog)[0]
    cluster = dags / "clusters" / "pair.yaml"
    cluster.write_text(cluster.read_text() + "link: {command: [limit-link, eth0]}\n")
    suite = load_suite(suite_file(added), catalog)
    assert {case.link_bandwidth for case in suite.cases} == {"full", "10mbit"}
    assert load_cluster(cluster).link_command == ("limit-link", "eth0")
    wrong = ("strategy: collective", "strategy: collective\n    link_bandwidth: fast")
    assert (
        'found "fast"; expected 10mbit, 1gbit, or full' in complaints(suite_file(wrong), catalog)[0]
    )
    devices = cluster.read_text().replace("ssh_pair", "ssh_pair\n    cpus: 0-7")
    cluster.write_text(devices + "lock: devices\n")
    assert "other gangs would share" in complaints(suite_file(added), catalog)[0]


def test_shards_are_of_cases_with_several_devices(suite_file: Write, catalog: Catalog) -> None:
    stages = {"shard_stage": {"3": {"cpu": None, "gpu": None}}}
    lines = {
        line: info.model_copy(update={"axes": {**info.axes, **stages}})
        for line, info in catalog.frameworks.items()
    }
    nets = {
        name: info.model_copy(update={"shards": "layers"})
        for name, info in catalog.workloads.items()
    }
    catalog = dataclasses.replace(catalog, frameworks=lines, workloads=nets)

    def with_shards(shard: str) -> Path:
        added = f"strategy: collective\n    {shard}"
        return suite_file(("strategy: collective", added))

    suite = load_suite(with_shards("shard: [1, devices]"), catalog)
    assert [case.case_id for case in suite.cases[:3]] == [
        "net-pytorch-collective-1x1-bs2",
        "net-pytorch-collective-2x1-bs2",
        "net-pytorch-collective-2x1-bs2-shard2-stage3",
    ]
    assert [case.shard_stage for case in suite.cases[:3]] == [None, None, 3]
    assert complaints(with_shards("shard_stage: 3"), catalog) == [
        "dags/suites/trial.yaml:8: matrix[0].shard_stage: requires a `shard`; found none"
    ]
    (said, *_) = complaints(with_shards("shard: 3"), catalog)
    assert "matrix[0].shard: found 3 with collective on 1x1; expected" in said
