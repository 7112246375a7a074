"""Logs in the shapes of public issues, with invented numbers: each is read, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from logs import reading
from logs.summary import summary


def neox() -> Iterator[str]:
    for i in range(1, 60):
        yield (
            f" samples/sec: 7.8 | iteration {i:8d}/   10000 | elapsed time per iteration (ms): "
            "4100.0 | learning rate: 2.1E-06 | approx flops per GPU: 112.9TFLOPS | lm_loss: 1.1E+01"
            " | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
        yield "time (ms) | forward: 659.86 | backward: 2164.69 | optimizer: 1172.51"


def evaluated_megatron() -> Iterator[str]:
    for i in range(1, 201):
        took = 3000.0 if i % 50 == 1 else 500.0
        yield (
            f" [2024-04-06 02:59:36] iteration {i:8d}/     200 | elapsed time per iteration (ms): "
            f"{took} | global batch size:     8 | lm loss: 1.8E+00 |"
        )
        if i % 50 == 0:
            yield f" validation loss at iteration {i} | lm loss value: 1.9E+00 |"


def eight_ranks() -> Iterator[str]:
    for i in range(1, 41):
        for rank in range(8):
            yield (
                f"[titan] 2026-02-24 19:46:17,508 - root - INFO - step: {i:2d}  loss:  7.6  "
                f"memory: 66.91GiB(37.51%)  tps: {10050 - rank % 2:,}  tflops: 314.71  mfu: 13.99%"
            )


def speed_of_four_metrics() -> Iterator[str]:
    for i in range(50, 1050, 50):
        for metric in ("accuracy", "top_k_accuracy_5", "top_k_accuracy_10", "top_k_accuracy_20"):
            yield (
                f"2016-08-19 15:13:26,161 Node[0] Epoch[0] Batch [{i}]\tSpeed: 47.30 samples/sec"
                f"\tTrain-{metric}=0.02"
            )


def validated_paddle() -> Iterator[str]:
    speed = "reader_cost: 0.00010 s, ips: {} images/sec."
    for i in range(0, 300, 10):
        said = speed.format("121.41242")
        yield f"12:00:00 INFO: epoch:0   train step:{i}   loss: 11.5 batch_cost: 0.08779 s, {said}"
    yield f"12:00:00 INFO: END epoch:0   train loss: 9.4  batch_cost: 0.26 s, {speed.format(99)}"
    for i in range(0, 100, 10):
        said = speed.format("409.91649")
        yield f"12:00:00 INFO: valid step:{i}   loss: 5481.1 batch_cost: 0.02791 s, {said}"


def recommended_paddle() -> Iterator[str]:
    """PaddleRec: the first line of an epoch is divided by 500, and an inference follows."""
    said = "avg_reader_cost: 0.0001 sec, avg_batch_cost: {:.5f} sec, avg_samples: {:.5f}, ips: {}"
    for epoch in range(3):
        for i in range(0, 2000, 500):
            steps = 1 if i else 500
            cost = said.format(0.5 / steps, 1024 / steps, "2048.00000 ins/s")
            yield f"2032-04-12 - INFO - epoch: {epoch}, batch_id: {i}, loss:0.5009312, {cost}"
    for epoch in range(2, 4):
        cost = said.format(0.0019, 1024, "7184.45 ins/s")
        yield f"2032-04-12 - INFO - epoch: {epoch}, batch_id: 0, AUC: 0.93,ACC: 0.89, {cost}"


def gnmt() -> Iterator[str]:
    for i in range(0, 400, 10):
        yield f"0: TRAIN [0][{i}/400]\tTime 0.174 (0.155)\tData 1.5e-04 (5.7e-04)\tTok/s 96219 (9)"
        yield f"0: VALIDATION [0][{i}/400]\tTime 0.074 (0.055)\tData 1.5e-04 (5.7e-04)"


def epochs_with_their_number() -> Iterator[str]:
    for i in range(0, 120, 10):
        yield f"Epoch: [1/400][{i:3d}/120]\tTime  1.778 ( 2.807)\tData  0.001 ( 0.788)\tLoss 2.4"


def bars_before_the_training() -> Iterator[str]:
    yield "\r".join(
        f"Map: {k}%|█ | {k * 100}/10000 [00:{k // 10:02d}<00:09, 1000.0 examples/s]"
        for k in range(101)
    )
    yield "\r".join(
        f"Loading checkpoint shards: {k * 25}%|█ | {k}/4 [00:{k:02d}<00:03,  1.00s/it]"
        for k in range(5)
    )
    yield "\r".join(
        f" {i}%|██ | {i}/60 [{i * 2 // 60:02d}:{i * 2 % 60:02d}<03:20,  2.00s/it]"
        for i in range(1, 61)
    )


def epochs_of_mlperf() -> Iterator[str]:
    at = 1_000_000

    def event(key: str, value: str = "null", **metadata: int) -> str:
        said = str(metadata).replace("'", '"')
        return (
            f':::MLLOG {{"time_ms": {at}, "event_type": "POINT_IN_TIME", "key": "{key}", '
            f'"value": {value}, "metadata": {said}}}'
        )

    yield event("global_batch_size", "250")
    yield event("train_samples", "100000")
    for epoch in range(1, 6):
        yield event("epoch_start", epoch_num=epoch)
        at += 50_000
        yield event("epoch_stop", epoch_num=epoch)
        yield event("eval_start", epoch_num=epoch)
        at += 5_000
        yield event("eval_stop", epoch_num=epoch)


@pytest.mark.parametrize(
    ("format_", "lines", "right"),
    [
        ("megatron", neox, {"step_s": 4.1, "lines": 59}),
        ("megatron", evaluated_megatron, {"step_s": 0.5, "lines": 200}),
        ("torchtitan", eight_ranks, {"throughput": 10050, "per_device": True, "lines": 40}),
        ("gluon", speed_of_four_metrics, {"throughput": 47.3, "lines": 20}),
        ("paddle", validated_paddle, {"throughput": 121.41242, "step_s": 0.08779, "lines": 30}),
        ("paddle", recommended_paddle, {"throughput": 2048, "step_s": 0.5, "lines": 9}),
        ("pytorch_examples", gnmt, {"step_s": 0.174, "lines": 40}),
        ("pytorch_examples", epochs_with_their_number, {"step_s": 1.778, "lines": 12}),
        ("huggingface", bars_before_the_training, {"step_s": 2.0, "lines": 60}),
        ("mlperf", epochs_of_mlperf, {"throughput": 2000, "step_s": 0.125, "lines": 5}),
    ],
)
def test_what_is_read_is_what_the_log_states(format_, lines, right, tmp_path):
    path = tmp_path / "input.log"
    path.write_text("\n".join(lines()) + "\n")
    found: dict[str, Any] = summary(format_, str(path), {}, 20)
    for key, value in right.items():
        figure = found[key]
        median = figure["median"] if isinstance(figure, dict) else figure
        assert median == pytest.approx(value), key


@pytest.mark.parametrize(
    ("format_", "lines", "advice"),
    [
        ("mlperf", speed_of_four_metrics, "Lines look like gluon. The format regex reads any line"),
        ("pytorch_examples", neox, "Lines look like megatron."),
        ("gluon", lambda: ["nothing of a training"], r"GluonCV\). The format regex reads any line"),
    ],
)
def test_a_log_of_another_trainer_is_refused_with_its_format(format_, lines, advice, tmp_path):
    path = tmp_path / "input.log"
    path.write_text("\n".join(lines()) + "\n")
    with pytest.raises(reading.LogError, match=advice):
        summary(format_, str(path), {}, 20)


@pytest.mark.parametrize(
    ("format_", "line"),
    [
        ("gluon", "Batch [50] Speed: 26130.01 samples/sec Train-accuracy=0.1"),
        ("paddle", "ppgan INFO: Epoch: 1, iters: 100 batch_cost: 0.28 sec ips: 3.4 images/s"),
        ("tensorflow", "10\timages/sec: 139.6 +/- 0.1 (jitter = 0.3)\t8.137"),
        ("nemo", "Epoch 0:   1%|▏ | 795/77225 [9:07:58<878:01:48, 41.36s/it, global_step=794.0]"),
    ],
)
def test_a_shape_that_the_format_does_not_promise_is_refused(format_, line, tmp_path):
    path: Path = tmp_path / "input.log"
    path.write_text(f"{line}\n" * 3)
    with pytest.raises(reading.LogError):
        summary(format_, str(path), {}, 20)
