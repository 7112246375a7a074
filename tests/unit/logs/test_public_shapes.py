"""Logs in the shapes of public issues, with invented numbers: each is read, or refused."""

from __future__ import annotations

from collections.abc import Iterator
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


def speed_of_four_metrics() -> Iterator[str]:
    for i in range(50, 1050, 50):
        for metric in ("accuracy", "top_k_accuracy_5", "top_k_accuracy_10", "top_k_accuracy_20"):
            yield (
                f"2016-08-19 15:13:26,161 Node[0] Epoch[0] Batch [{i}]\tSpeed: 47.30 samples/sec"
                f"\tTrain-{metric}=0.02"
            )


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


@pytest.mark.parametrize(
    ("format_", "lines", "right"),
    [
        ("megatron", neox, {"step_s": 4.1, "lines": 59}),
        ("gluon", speed_of_four_metrics, {"throughput": 47.3, "lines": 20}),
        ("paddle", recommended_paddle, {"throughput": 2048, "step_s": 0.5, "lines": 9}),
        ("pytorch_examples", gnmt, {"step_s": 0.174, "lines": 40}),
        ("pytorch_examples", epochs_with_their_number, {"step_s": 1.778, "lines": 12}),
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
