"""pytest tests that every framework line and workload must pass.

A project imports them in a test file, for example `test_benchmarks.py`:

    from nightbench.testkit.cell_tests import *  # noqa: F403

There, the lines, workloads and model files of Nightbench itself are not tested.
"""

import functools
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState

from nightbench.config.locations import dags_folder
from nightbench.core.model import Strategy
from nightbench.core.package_files import package_folder
from nightbench.testkit import cells as kit
from nightbench.testkit.cells import FirstStep, TrainedCell
from nightbench.testkit.gangs import (
    BENCHMARKS,
    build_environment,
    catalog,
    job_of,
    launch,
    load_module,
    refused,
    run_gang,
    smallest_scale,
)

__all__ = [
    "first_step",
    "interpreter",
    "pytest_generate_tests",
    "test_a_line_starts_the_processes_of_a_node_by_variables_that_it_names",
    "test_batches_are_a_rank_s_own_and_weights_the_seed_s",
    "test_every_sample_is_trained_on",
    "test_gradients_are_those_of_the_loss",
    "test_lines_do_the_same_work",
    "test_nothing_is_wrong_in_the_files",
    "test_two_ranks_pass_every_check",
    "test_weights_have_the_count_that_every_scale_states",
]

CATALOG = catalog()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each line, workload or cell that is not Nightbench's own, else of all."""
    if "line" in metafunc.fixturenames:
        lines = [name for name, each in CATALOG.frameworks.items() if not each.commands]
        own = [x for x in lines if _is_own("frameworks", x, "framework.json")]
        metafunc.parametrize("line", own)
    if "workload" in metafunc.fixturenames:
        own = [x for x in trained() if _is_own("workloads", x, "spec.json")]
        metafunc.parametrize("workload", own)
    if "cell" in metafunc.fixturenames:
        new = [
            each
            for each in kit.cells(CATALOG)
            if _is_own("frameworks", each.line, "framework.json")
            or _is_own("workloads", each.workload, f"{CATALOG.frameworks[each.line].api}.py")
        ]
        compared = metafunc.function is test_lines_do_the_same_work
        found = [each for each in new if each.reference or not compared]
        metafunc.parametrize("cell", found, ids=str)


def trained() -> list[str]:
    """Return the workloads that more than the stand-ins of tests train."""
    lines = CATALOG.frameworks
    return [
        name
        for name, each in CATALOG.workloads.items()
        if not all(lines[line].for_tests for line in each.frameworks)
    ]


def _is_own(kind: str, name: str, file: str) -> bool:
    """Return whether a file is the project's; in Nightbench's own checkout all are."""
    shipped, own = package_folder("benchmarks"), dags_folder() / kind / name / file
    return shipped == BENCHMARKS or own.is_file() or not (shipped / kind / name / file).is_file()


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Line -> interpreter of its environment, which is built once."""
    root = tmp_path_factory.getbasetemp() / "node"
    return functools.cache(functools.partial(build_environment, root))


@pytest.fixture(scope="module")
def first_step(interpreter: Callable[[str], str]) -> FirstStep:
    """Return a function that runs first_step.py for a line and a workload and reads its output."""

    @functools.cache
    def call(line: str, workload: str, *words: str) -> dict[str, Any]:
        _skip_without_arrays(workload)
        return kit.run_first_step(interpreter(line), line, workload, words)

    return call


def _expect_nothing(found: Iterable[str]) -> None:
    """Fail with the whole list: pytest does not explain assertions of installed modules."""
    said = "\n".join(found)
    assert not said, said


def test_nothing_is_wrong_in_the_files() -> None:
    """As `nightbench validate` says."""
    _expect_nothing(CATALOG.problems)


def test_a_line_starts_the_processes_of_a_node_by_variables_that_it_names(
    line: str,
) -> None:
    """And no others: what a launcher sets and does not name, a suite could set otherwise."""
    about = CATALOG.frameworks[line]
    # A text is the reason why a line does not support it.
    devices = [None] if isinstance(about.devices.get("gpu", ""), str) else [None, "0"]
    strategies = [
        name
        for name, support in about.axes["strategy"].items()
        if not all(isinstance(answer, str) for answer in support.values())
    ]
    workload = next(name for name, each in CATALOG.workloads.items() if line in each.frameworks)
    for device, strategy in itertools.product(devices, strategies):
        trainers = 1 if strategy == "single" else 2
        job = job_of(line, workload, trainers, pservers=1, strategy=strategy)
        for process in job["processes"]:
            process["device"] = device if process["measured"] else None
        names = [process["name"] for process in job["processes"]]
        ports = {name: 20000 + number for number, name in enumerate(["master", *names])}
        for node in job["nodes"]:
            here = [each["name"] for each in job["processes"] if each["node"] == node["name"]]
            started = launch(line)(job, node["name"], ports, "/env/bin/python", "/code")
            names = [each["name"] for each in started]
            assert names == here, f"found the processes {names} of {node['name']}; expected {here}"
            for each in started:
                assert all(isinstance(x, str) for x in [*each["argv"], *each["env"].values()])
                # Interfaces are the site's: a cluster without `interface` may set them itself.
                own = {name for name in each["env"] if not name.endswith("_SOCKET_IFNAME")}
                unnamed = ", ".join(sorted(own.difference(about.launcher_env)))
                assert not unnamed, f"launcher_env of framework.json lacks {unnamed}"


class _Drawn(np.ndarray[Any, Any]):
    """Random numbers of a full network without its gigabytes: one element with a shape."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        return _drawn(np.broadcast_shapes(*(np.shape(each) for each in inputs)))

    def astype(self, *_: Any, **__: Any) -> Any:
        return self


def _drawn(shape: Any) -> Any:
    return np.broadcast_to(np.float32(0.5), shape).view(_Drawn)


class _Draws:
    """A RandomState whose numbers take no memory, for every distribution."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in ("choice", "permutation", "shuffle"):
            method: Callable[..., Any] = getattr(RandomState(0), name)
            return method

        def draw(*words: Any, size: Any = None, **_: Any) -> Any:
            if name in ("rand", "randn"):
                size = words
            return _drawn(size if size is not None else words[-1] if words else ())

        return draw


@functools.cache
def _weights(workload: str) -> dict[str, Any]:
    data = load_module(BENCHMARKS / "workloads" / workload / "data.py")
    scales = CATALOG.workloads[workload].scales
    made: dict[str, Any] = data.weights(dict(scales[smallest_scale(scales)]), RandomState(0))
    return made


def _skip_without_arrays(workload: str) -> None:
    """Skip workloads in plain Python: their shapes and gradients are unknown."""
    for name, value in _weights(workload).items():
        if not isinstance(value, np.ndarray):
            pytest.skip(
                f"{workload}/data.py: found {type(value).__name__} for the weights {name}; the "
                "kit tests NumPy arrays from its RandomState"
            )


def _trainer(workload: str, **changes: Any) -> Any:
    """A trainer that has batches and weights, and no network."""
    _skip_without_arrays(workload)
    base = load_module(BENCHMARKS / "base_trainer.py")
    data = load_module(BENCHMARKS / "workloads" / workload / "data.py")
    about = CATALOG.workloads[workload]
    params = about.scales[smallest_scale(about.scales)]
    known = {"params": params, "seed": 1, "data_rank": 0, "together": 1}
    known |= {"batch_size": 8, "data_path": None}
    context = SimpleNamespace(**{**known, "parameters": None, **changes})
    return base.Base(context, None, data), data, params


def test_weights_have_the_count_that_every_scale_states(workload: str) -> None:
    """At full size, too."""
    _, data, _ = _trainer(workload)
    about = CATALOG.workloads[workload]
    for scale, params in about.scales.items():
        expected = params.get("parameters", about.parameters)
        if expected is not None:
            made = data.weights(dict(params), _Draws())
            count = sum(int(np.prod(x.shape)) for x in made.values())
            assert count == expected, f"scale {scale}: data.py makes {count}; expected {expected}"


def test_batches_are_a_rank_s_own_and_weights_the_seed_s(workload: str) -> None:
    """Otherwise equal weights of ranks would prove nothing."""

    def equal(one: Any, other: Any) -> bool:
        return all(np.array_equal(value, other[name]) for name, value in one.items())

    (first, data, params), (second, _, _) = _trainer(workload), _trainer(workload, data_rank=1)
    batches = [x for each in (first, second) for x in itertools.islice(each.feed(dict), 2)]
    if params["batches"] > 1:
        pairs = itertools.combinations(batches, 2)
        assert not any(equal(*pair) for pair in pairs), "two batches, or two ranks', are equal"
    weights = [data.weights(params, RandomState([seed, 0])) for seed in (1, 1, 2)]
    assert equal(weights[0], weights[1]), "weights differ for one seed"
    assert not equal(weights[0], weights[2]), "weights are the same for two seeds"


def test_lines_do_the_same_work(cell: TrainedCell, first_step: FirstStep) -> None:
    """From the same weights and on the same batch: the same loss, the same gradients."""
    assert cell.reference
    found = first_step(cell.line, cell.workload, "--execution", cell.execution)
    expected = first_step(cell.reference, cell.workload)
    _expect_nothing(kit.differences(found, expected, cell.tolerance))


def test_every_sample_is_trained_on(cell: TrainedCell, first_step: FirstStep) -> None:
    """Also if no other line has the workload, and the trainer counts no FLOPs."""
    words = ("--execution", cell.execution)
    _expect_nothing(kit.unused_halves(first_step, cell.line, cell.workload, *words))


def test_gradients_are_those_of_the_loss(
    cell: TrainedCell, first_step: FirstStep, tmp_path: Path
) -> None:
    """Also if no other line has the workload."""
    words = ("--execution", cell.execution)
    found = kit.gradients_of_no_loss(first_step, cell.line, cell.workload, tmp_path, *words)
    _expect_nothing(found)


def test_two_ranks_pass_every_check(
    cell: TrainedCell, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """They exchange gradients, end with equal weights, and nothing of their result is refused."""
    support = CATALOG.frameworks[cell.line].axes["strategy"].get("collective", {})
    runs = CATALOG.workloads[cell.workload].strategies
    if isinstance(support.get("cpu", ""), str) or Strategy.COLLECTIVE not in runs:
        pytest.skip("it is not trained in a collective")
    job = job_of(cell.line, cell.workload, 2, strategy="collective", execution=cell.execution)
    job["protocol"]["min_seconds"] = 0.0
    found = refused(job, run_gang(tmp_path, job, interpreter(cell.line)))
    _expect_nothing([f"{check}: {observed}" for check, observed in found.items()])
