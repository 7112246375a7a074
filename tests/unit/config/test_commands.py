"""Commands of a suite: what may be written, and the cases that come of it."""

from __future__ import annotations

import dataclasses

import pytest

from nightbench.config import load_cluster, load_suite
from nightbench.config.commands import clashing_commands
from nightbench.config.source import ConfigError
from nightbench.core.model import Catalog, Cost
from nightbench.core.model_flops import flops_per_unit, tokens_per_unit
from nightbench.core.run_plan import resolve

BLOCK = """\
  - workload: net
    frameworks: [pytorch, paddle3]
    strategy: collective
"""
COMMANDS = """\
commands:
  mine:
    argv: ["{python}", train.py, "--rank={rank}"]
    unit: images
    log: {format: lines}
"""


@pytest.fixture
def with_commands(catalog) -> Catalog:
    from tests.unit.config.conftest import framework

    line = framework("foreign", commands=True, axes=catalog.frameworks["fake"].axes)
    frameworks = {**catalog.frameworks, "foreign": line}
    return dataclasses.replace(
        catalog, frameworks=frameworks, log_formats=("lines", "megatron", "regex")
    )


def written(suite_file, commands=COMMANDS, block="command: mine"):
    block = f"  - {block}\n    strategy: collective\n"
    return suite_file((BLOCK, block), ("matrix:\n", commands + "matrix:\n"))


@pytest.mark.parametrize(
    ("launch", "processes", "units"),
    [("", 2, 4), ("    launch: node\n", 2, 4), ("    launch: head\n", 2, 4)],
)
def test_a_command_becomes_cases(suite_file, dags, with_commands, launch, processes, units):
    suite = load_suite(written(suite_file, COMMANDS + launch), with_commands)
    assert [case.case_id for case in suite.cases] == [
        "mine-foreign-collective-1x1-bs2",
        "mine-foreign-collective-2x1-bs2",
    ]
    cluster = load_cluster(dags / "clusters" / "pair.yaml")
    job = resolve(suite.cases[1], suite, cluster, with_commands, "run-1")
    assert len(job.processes) == processes
    assert [process.measured for process in job.processes] == [True, False]
    assert job.units_per_trainer_step == units
    assert job.to_json()["workload"]["params"]["command"]["argv"][2] == "--rank={rank}"
    assert job.from_log


def test_tokens_of_a_command_are_counted_where_it_counts_tokens(suite_file, with_commands):
    for unit, tokens in (("images", None), ("tokens", 1)):
        commands = COMMANDS.replace("images", f"{unit}\n    units_per_example: 128")
        suite = load_suite(written(suite_file, commands), with_commands)
        assert tokens_per_unit(suite.commands["mine"], suite.cases[0]) == tokens


@pytest.fixture
def with_model(with_commands) -> Catalog:
    net = with_commands.workloads["net"]
    params = {"width": 8, "sequence_length": 128, "units_per_example": 128, "tied": True}
    stated = net.model_copy(
        update={
            "name": "stated",
            "scales": {"full": params},
            "cost": Cost(
                source="a test", forward={"layers": "sequence_length * width", "logits": "width"}
            ),
        }
    )
    return dataclasses.replace(
        with_commands, workloads={**with_commands.workloads, "stated": stated}
    )


MODEL = COMMANDS.replace("images", "tokens\n    units_per_example: 128") + "    model: "


@pytest.mark.parametrize(
    ("model", "forward"),
    [
        ("{workload: stated}", 128 * 8 + 8),
        ("{workload: stated, params: {width: 10}}", 128 * 10 + 10),
    ],
)
def test_a_command_has_the_flops_of_its_model(suite_file, with_model, model, forward):
    plain = load_suite(written(suite_file, MODEL.removesuffix("    model: ")), with_model)
    assert flops_per_unit(plain.commands["mine"], plain.cases[0]) is None
    suite = load_suite(written(suite_file, f"{MODEL}{model}\n"), with_model)
    found = flops_per_unit(suite.commands["mine"], suite.cases[0])
    assert found == 3 * forward / 128
    # How its work is counted is no part of what is measured: the history goes on.
    assert suite.commands["mine"].digest == plain.commands["mine"].digest
    assert suite.commands["mine"].scales == plain.commands["mine"].scales


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("{workload: net}", 'workload: found "net"; expected stated'),
        ("{workload: stated, scale: half}", 'scale: found "half"; expected full'),
        ("{workload: stated, params: {wdith: 9}}", 'params: found "wdith"'),
        ("{workload: stated, params: {tied: 0}}", 'params: found "tied"'),
        (
            "{workload: stated, params: {sequence_length: 64}}",
            "found a sequence of 64 tokens, but an example of the command or of its cases has 128",
        ),
        ("{workload: stated, params: {width: 0}}", "params: its value is 0"),
    ],
)
def test_a_model_that_cannot_be_counted_is_refused(suite_file, with_model, model, said):
    with pytest.raises(ConfigError) as raised:
        load_suite(written(suite_file, f"{MODEL}{model}\n"), with_model)
    assert said in str(raised.value)


def test_the_length_of_a_case_is_that_of_its_commands_model(suite_file, with_model):
    commands = f"{MODEL}{{workload: stated}}\n"
    block = "command: mine\n    sequence_length: 256"
    with pytest.raises(ConfigError, match="or of its cases has 256"):
        load_suite(written(suite_file, commands, block), with_model)


@pytest.mark.parametrize(
    ("log", "launch", "measured"),
    [
        ("format: lines, of: last", "node", [False, True]),
        ("format: megatron", "node", [False, True]),
        ("format: megatron, of: first", "node", [True, False]),
        ("format: megatron", "head", [True, False]),
    ],
)
def test_the_last_process_may_write_the_log(suite_file, dags, with_commands, log, launch, measured):
    commands = COMMANDS.replace("format: lines", log) + f"    launch: {launch}\n"
    suite = load_suite(written(suite_file, commands), with_commands)
    cluster = load_cluster(dags / "clusters" / "pair.yaml")
    one, two = (resolve(case, suite, cluster, with_commands, "run-1") for case in suite.cases)
    assert [process.measured for process in one.processes] == [True]
    assert [process.measured for process in two.processes] == measured
    assert two.units_per_trainer_step == 4


def test_each_process_may_write_a_log_of_its_own(suite_file, dags, with_commands):
    commands = COMMANDS.replace("format: lines", "format: lines, of: all")
    suite = load_suite(written(suite_file, commands), with_commands)
    cluster = load_cluster(dags / "clusters" / "pair.yaml")
    job = resolve(suite.cases[1], suite, cluster, with_commands, "run-1")
    assert [process.measured for process in job.processes] == [True, True]
    assert job.units_per_trainer_step == 2


def test_another_command_is_another_definition(suite_file, dags, with_commands):
    cluster = load_cluster(dags / "clusters" / "pair.yaml")
    digests = set()
    for commands in (COMMANDS, COMMANDS.replace("train.py", "other.py")):
        suite = load_suite(written(suite_file, commands), with_commands)
        job = resolve(suite.cases[0], suite, cluster, with_commands, "run-1")
        digests.add(job.definition_digest)
    assert len(digests) == 2


def with_data(suite_file, data, commands=COMMANDS):
    commands = commands.replace("--rank={rank}", "--data={data}")
    return written(suite_file, commands, f"command: mine\n    data: {data}")


def test_a_command_is_told_where_data_lie(suite_file, dags, with_commands):
    cluster = dags / "clusters" / "pair.yaml"
    cluster.write_text(cluster.read_text() + "data: {imagenet: /data/imagenet}\n")
    suite = load_suite(with_data(suite_file, "[synthetic, imagenet]"), with_commands)
    assert [case.case_id for case in suite.cases if case.trainers == 1] == [
        "mine-foreign-collective-1x1-bs2",
        "mine-foreign-collective-1x1-bs2-imagenet",
    ]
    jobs = [
        resolve(case, suite, load_cluster(cluster), with_commands, "run-1") for case in suite.cases
    ]
    assert {(job.case.data, job.data_path) for job in jobs} == {
        ("synthetic", None),
        ("imagenet", "/data/imagenet"),
    }


@pytest.mark.parametrize(
    ("data", "placeholder", "message"),
    [
        ("imagenet", "{data}", "cluster pair has no data imagenet (it has sample, synthetic)"),
        ("sample", "{data}", "found sample, which is for workloads of `benchmarks`"),
        (
            "imagenet",
            "/data",
            "mine does not get the path of the data imagenet: expected {data} in",
        ),
    ],
)
def test_data_that_a_command_would_not_read_are_refused(
    suite_file, with_commands, data, placeholder, message
):
    path = with_data(suite_file, data)
    path.write_text(path.read_text().replace("{data}", placeholder))
    with pytest.raises(ConfigError) as caught:
        load_suite(path, with_commands)
    assert message in str(caught.value)
    assert "matrix[0].data" in str(caught.value)


def test_suites_that_define_a_command_differently_are_named(suite_file, dags, with_commands):
    def suite(name, commands=COMMANDS):
        path = written(suite_file, commands)
        path = path.rename(path.with_name(f"{name}.yaml"))
        path.write_text(path.read_text().replace("suite: trial", f"suite: {name}"))
        return load_suite(path, with_commands)

    one, same = suite("one"), suite("same")
    assert clashing_commands([one, same]) == []
    for changed in (("train.py", "other.py"), ("unit: images", "unit: samples")):
        other = suite("other", COMMANDS.replace(*changed))
        (error,) = clashing_commands([one, same, other])
        line = 1 + (dags / "suites/other.yaml").read_text()[:-1].split("\n").index("  mine:")
        assert f"other.yaml:{line}: commands.mine: found another definition than in" in str(error)
        assert f"one.yaml:{line}" in str(error)


@pytest.mark.parametrize(
    ("commands", "block", "message"),
    [
        (COMMANDS, "command: yours", 'found "yours"; expected mine'),
        (COMMANDS, "command: mine\n    workload: net", "found it with `command`"),
        (COMMANDS.replace("mine:", "net:"), "command: net", "which is a workload"),
        (COMMANDS.replace("{rank}", "{rnak}"), "command: mine", "{rnak}: found"),
        (
            COMMANDS.replace("lines", "linse"),
            "command: mine",
            "expected one of lines, megatron, regex",
        ),
        (
            COMMANDS.replace("format: lines", "format: regex, pattern: '('"),
            "command: mine",
            "expected a regular expression",
        ),
        (
            COMMANDS.replace("format: lines", "format: regex, pattern: 'x (?P<step>.)'"),
            "command: mine",
            "a group named throughput or step_time",
        ),
        (
            COMMANDS.replace("{format: lines}", "{format: lines, of: all}") + "    launch: head\n",
            "command: mine",
            "found all with launch: head",
        ),
    ],
)
def test_what_is_refused_is_named(suite_file, with_commands, commands, block, message):
    with pytest.raises(ConfigError) as caught:
        load_suite(written(suite_file, commands, block), with_commands)
    assert message in str(caught.value)


def test_a_block_without_work_is_refused(suite_file, with_commands):
    with pytest.raises(
        ConfigError, match=r"matrix\[0\]\.workload: is missing; expected: Workload to train"
    ):
        load_suite(written(suite_file, "", "priority: 5"), with_commands)
