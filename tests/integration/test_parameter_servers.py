"""Trainers and parameter servers of real lines: all of them begin alike, and all of them learn."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nightbench.testkit.gangs import BENCHMARKS, job_of, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.timeout(1200)]

FIRST = (0.6363, 0.6257)
"""First losses of trainers 0 and 1 from the weights of data.py."""

ELEVENTH = (0.57952, 0.51273)
"""Losses of step 11, if synchronous servers update with the mean of the trainers' gradients."""

TRANSPORTS = {
    "paddle1": "grpc",
    "paddle2": "brpc",
    "mxnet": "zmq",
    "tensorflow1": "grpc/socket/lo",
}


@pytest.mark.parametrize(
    ("line", "sync", "pservers", "within"),
    [
        # Asynchronous servers of paddle2 draw the rows of the table themselves.
        ("paddle2", "async", 1, 2e-3),
        pytest.param("paddle2", "geo", 1, 1e-4, marks=pytest.mark.slow),
        pytest.param("paddle1", "sync", 1, 1e-4, marks=pytest.mark.slow),
        # Two servers: the large parameters are cut.
        pytest.param("paddle1", "geo", 2, 1e-4, marks=pytest.mark.slow),
        # A trainer may be a step behind another's.
        pytest.param("paddle1", "half_async", 1, 2e-3, marks=pytest.mark.large),
        pytest.param("tensorflow1", "sync", 1, 1e-4, marks=pytest.mark.slow),
        # A session prepares the graph in its first step, while another trainer goes ahead.
        pytest.param("tensorflow1", "async", 2, 0.1, marks=pytest.mark.large),
        pytest.param("mxnet", "sync", 2, 1e-4, marks=pytest.mark.large),
        pytest.param("mxnet", "async", 1, 2e-3, marks=pytest.mark.slow),
    ],
)
def test_every_trainer_learns(
    line: str,
    sync: str,
    pservers: int,
    within: float,
    interpreter: Callable[[str], str],
    tmp_path: Path,
) -> None:
    axes = {"strategy": "parameter_server", "sync": sync, "batch_size_per_device": 64}
    job = job_of(line, "ctr_dnn", trainers=2, pservers=pservers, **axes)
    # Asynchronous trainers of paddle2 train on weights that are older, the busier the machine is.
    for steps in (500, 5000) if (line, sync) == ("paddle2", "async") else (150,):
        job["protocol"] = {"warmup_steps": 10, "measured_steps": steps, "min_seconds": 0.0}
        folder = tmp_path / str(steps)
        folder.mkdir()
        ranks = run_gang(folder, job, interpreter(line))
        # Of one batch: batches differ by more than a busy machine's trainers learn.
        learnt = [
            rank["loss"]["again"] < 0.95 * first for rank, first in zip(ranks, FIRST, strict=True)
        ]
        if all(learnt):
            break
    assert learnt == [True, True]
    for rank, first, eleventh in zip(ranks, FIRST, ELEVENTH, strict=True):
        assert rank["loss"]["first"] == pytest.approx(first, abs=within)
        if sync == "sync":
            assert rank["loss"]["window"][0] == pytest.approx(eleventh, abs=1e-4)
        assert rank["transport"] == TRANSPORTS[line]
        assert (rank["drain_steps"] > 0) == (sync != "sync")


@pytest.mark.slow
def test_each_dense_gradient_of_paddle2_arrives(
    interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """By itself its client sends none before 13 wait, and few long steps trained nothing."""
    axes = {"strategy": "parameter_server", "sync": "async", "batch_size_per_device": 2}
    job = job_of("paddle2", "vgg16_cifar", trainers=2, pservers=2, **axes)
    job["protocol"] = {"warmup_steps": 1, "measured_steps": 4, "min_seconds": 0.0}
    for rank in run_gang(tmp_path, job, interpreter("paddle2")):
        assert [name for name, each in rank["weights_moved"].items() if not each["largest"]] == []


@pytest.mark.slow
def test_a_trainer_that_slept_through_its_notification_is_woken(
    interpreter: Callable[[str], str],
) -> None:
    """PaddlePaddle 1.8 notifies once, without its mutex; the gang then waited for ever."""
    script = Path(__file__).parent / "scripts" / "fluid_lost_wakeup.py"
    argv = [interpreter("paddle1"), script, BENCHMARKS]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    assert json.loads(done.stdout) == {"sleeps": True, "woken": True}


@pytest.mark.large
@pytest.mark.parametrize(("workers", "pservers"), [(1, 1), (2, 2)])
def test_a_chief_coordinates_workers(
    workers: int, pservers: int, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """The one measured process of tensorflow2; it fails where an update has not been counted.

    As on a local node all share one core, where a worker once had no thread left beside the one
    that waits for a server.
    """
    axes = {"strategy": "parameter_server", "sync": "async", "batch_size_per_device": 64}
    job = job_of("tensorflow2", "ctr_dnn", trainers=workers, pservers=pservers, **axes)
    job["protocol"] = {"warmup_steps": 10, "measured_steps": 150, "min_seconds": 0.0}
    python, cores = interpreter("tensorflow2"), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        (chief,) = run_gang(tmp_path, job, python)
    finally:
        os.sched_setaffinity(0, cores)
    first, window = sum(FIRST[:workers]) / workers, chief["loss"]["window"]
    # One worker may take both of the first steps, the second after the first.
    assert chief["loss"]["first"] == pytest.approx(first, abs=1e-4 if workers == 1 else 0.05)
    assert sum(window[-20:]) / 20 < 0.9 * first
    assert chief["samples_per_step"] == 64 * workers
    assert (chief["parameters"], chief["transport"]) == (143_468, "grpc/socket/lo")
    assert chief["drain_steps"] > 0
    assert sum(chief["step_seconds"]) == pytest.approx(chief["window"]["wall_s"], rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "sync", "workload"),
    [
        pytest.param("paddle1", "sync", "word2vec", marks=pytest.mark.large),
        ("paddle1", "async", "simnet_bow"),
        ("paddle2", "async", "word2vec"),
        pytest.param("paddle2", "geo", "simnet_bow", marks=pytest.mark.large),
    ],
)
def test_tables_of_words_are_learnt(
    line: str,
    sync: str,
    workload: str,
    interpreter: Callable[[str], str],
    tmp_path: Path,
) -> None:
    axes = {"strategy": "parameter_server", "sync": sync, "batch_size_per_device": 64}
    job = job_of(line, workload, trainers=2, pservers=1, **axes)
    job["protocol"] = {"warmup_steps": 10, "measured_steps": 150, "min_seconds": 0.0}
    for rank in run_gang(tmp_path, job, interpreter(line)):
        untrained = {"word2vec": 4.16, "simnet_bow": 0.1}[workload]
        assert sum(rank["loss"]["window"][-20:]) / 20 < 0.8 * untrained


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["sync", pytest.param("async", marks=pytest.mark.large)])
def test_an_optimizer_with_moments_runs_on_several_servers(
    sync: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """The moments of a weight lie on its server."""
    axes = {"strategy": "parameter_server", "sync": sync}
    job = job_of("tensorflow1", "vgg16_cifar", trainers=2, pservers=2, **axes)
    job["protocol"] = {"warmup_steps": 1, "measured_steps": 4, "min_seconds": 0.0}
    for rank in run_gang(tmp_path, job, interpreter("tensorflow1")):
        assert len(rank["loss"]["window"]) == 4


@pytest.mark.slow
@pytest.mark.parametrize("line", ["mxnet", "tensorflow1"])
@pytest.mark.parametrize(("strategy", "agree"), [("parameter_server", True), ("single", False)])
def test_synchronous_workers_hold_the_same_weights(
    strategy: str, agree: bool, line: str, interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """From unequal weights and on different data; two that exchange nothing differ."""
    job = job_of(line, "ctr_dnn", trainers=2, pservers=2, strategy=strategy)
    job["protocol"] = {"warmup_steps": 3, "measured_steps": 20, "min_seconds": 0.0}
    first, second = run_gang(tmp_path, job, interpreter(line), seed_of=lambda rank: rank + 1)
    assert first["loss"]["window"] != second["loss"]["window"], "both workers had the same data"
    assert None not in (first["weights_digest"], second["weights_digest"])
    assert (first["weights_digest"] == second["weights_digest"]) == agree


@pytest.mark.slow
def test_servers_of_mxnet_update_as_a_lone_rank_does(
    interpreter: Callable[[str], str], tmp_path: Path
) -> None:
    """AdamW decays matrices only, which servers of ps-lite hold as vectors."""
    digests = []
    for strategy, trainers in (("single", 1), ("parameter_server", 1), ("parameter_server", 2)):
        job = job_of("mxnet", "bert_base", trainers=trainers, pservers=2, strategy=strategy)
        job["workload"]["params"] |= {"dropout": 0.0, "weight_decay": 10.0}
        job["protocol"] = {"warmup_steps": 1, "measured_steps": 4, "min_seconds": 0.0}
        (tmp_path / f"{strategy}-{trainers}").mkdir()
        ranks = run_gang(tmp_path / f"{strategy}-{trainers}", job, interpreter("mxnet"))
        digests += [rank["weights_digest"] for rank in ranks]
    lone, with_servers, first, second = digests
    assert with_servers == lone
    assert first == second != lone
