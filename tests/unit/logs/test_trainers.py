"""The logs of the trainers of language models: what is read, told apart, skipped and counted."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from typing import Any

import pytest
import sample_logs as samples
from logs import reading, records, steps, writers
from logs.summary import summary

STEPS = range(10, 61, 10)
CHOOSE = {"choose": True}


def megatron(loss: str = "1.012345E+01", begin: str = " [2026-08-22 10:00:00.123456]") -> str:
    return "".join(
        f"{begin} iteration {i:8d}/{60:8d} | consumed samples: {i * 128:12d} | "
        f"elapsed time per iteration (ms): {1200 + i:.1f} | throughput per GPU (TFLOP/s/GPU): "
        f"{400 + i:.1f} | learning rate: 1.000000E-04 | global batch size: {128:5d} | "
        f"lm loss: {loss} | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:"
        "   0 | number of nan iterations:   0 |\n"
        for i in STEPS
    )


def bridge() -> str:
    whole = megatron(begin="[2025-12-19 10:49:15]").replace("throughput per GPU", "other")
    return "".join(
        f"Step Time : 9.31s GPU utilization: {740 + n}.5MODEL_TFLOP/s/GPU\n"
        f"{line}Number of parameters in transformer layers in billions:  6.98\n"
        for n, line in enumerate(whole.splitlines())
    )


def megatron_deepspeed() -> str:
    return "".join(
        f" iteration {i:8d}/{60:8d} | consumed tokens: {i * 262144:12d} | elapsed time per "
        f"iteration (s): {100 + i / 10:.2f} | lm loss: 1.012345E+01 | TFLOPs: 123.45 |\n"
        for i in STEPS
    )


def nemo_1() -> str:
    return "".join(
        f"\rEpoch 0: :  {i}%|##        | {i}/99 [10:21<00:00, v_num=0, reduced_train_loss=6.45, "
        f"global_step={i}.00, consumed_samples={128 * i}.0, train_step_timing in s={12 + i / 100}]"
        for i in STEPS
    ).join(("", "\n"))


def nemo() -> str:
    return "".join(
        f"retraining/0 [default0]:Training epoch 0, iteration {i}/99 | lr: 7.496e-06 | "
        f"global_batch_size: 128 | global_step: {i} | peak_memory_usage: 708334 | "
        f"reduced_train_loss: 11.96 | train_step_timing in s: {12 + i / 100} | "
        f"TFLOPS_per_GPU: 512.5 | consumed_samples: {128 * i}\n"
        for i in STEPS
    )


def torchtitan(
    tps: str = "4,{i}", begin: str = "[titan] 2026-08-21 10:00:00 - root - INFO - "
) -> str:
    return "".join(
        f"{begin}\x1b[31mstep: {i:2}  \x1b[32mloss: 11.83506  \x1b[38mgrad_norm:  9.6669  "
        f"\x1b[36mmemory: 48.87GiB(51.44%)  \x1b[34mtps: {tps.format(i=300 + i)}  "
        f"\x1b[36mtflops: 1,253.41  \x1b[35mmfu: 25.62%\x1b[39m\n"
        for i in STEPS
    )


def maxtext() -> str:
    return "[Rampup Batch Size Phase], completed step: 9, seconds: 5.100, loss: 10.9\n" + "".join(
        f"completed step: {i}, seconds: {5 + i / 100:.3f}, TFLOP/s/device: 134.924, "
        f"Tokens/s/device: {8600 + i}.758, total_weights: 196608, loss: 10.374, lm_loss: 9.1\n"
        for i in STEPS
    )


def deepspeed() -> str:
    return "".join(
        f"[2023-11-07 01:55:23,714] [INFO] [logging.py:96:log_dist] [Rank 0] step={i}, skipped=4, "
        f"lr=[0.1], mom=[(0.9, 0.95)]\n[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] "
        f"epoch=0/micro_step={4 * i}/global_step={i}, RunningAvgSamplesPerSec=25.025771473496132, "
        f"CurrSamplesPerSec={25 + i / 100}, MemAllocated=4.32GB, MaxMemAllocated=38.49GB\n"
        for i in STEPS
    )


def deepspeed_2022() -> str:
    return "".join(
        f"[2022-05-07 01:55:23,714] [INFO] [timer.py:198:stop] 0/{i}, "
        f"RunningAvgSamplesPerSec=25.02, CurrSamplesPerSec={25 + i / 100}\n"
        for i in STEPS
    )


def deepspeed_pipeline() -> str:
    return "".join(
        f"steps: {i} loss: 6.1234 iter time (s): {1 + i / 100:.3f} samples/sec: 51.863\n"
        for i in STEPS
    )


def paddle_trainer() -> str:
    return "".join(
        f"[2026-01-05 08:00:00,000] [    INFO] - loss: 12.0635252, learning_rate: 2e-06, "
        f"global_step: {i}, current_memory_allocated: 7.5, interval_runtime: {10 + i / 10}, "
        f"interval_samples_per_second: 0.8682, interval_tokens_per_second_per_device: {800 + i}.5, "
        f"interval_hardware_tflops_per_device: 2.77, interval_steps_per_second: "
        f"{round(10 / (10 + i / 10), 4)}, progress_or_epoch: 0.0\n"
        for i in STEPS
    )


def tensorflow_models() -> str:
    return "".join(
        f"I0324 07:55:20.594147 140348344015936 keras_utils.py:145] TimeHistory: "
        f"{20 + i / 10:.2f} seconds, {2500 + i}.19 examples/second between steps {i - 10} and {i}\n"
        f"I0324 07:55:20.597360 140348344015936 controller.py:479] train | step: {i} | loss: 1\n"
        for i in STEPS
    )


def huggingface() -> str:
    text = "  0%|          | 0/60 [00:00<?, ?it/s]\r"
    for i in STEPS:
        bar = f" {i}%|####5     | {i}/60 [00:30<00:27,  {2 + i / 100:.2f}s/it]"
        text += (
            f"\r{bar}\r      \r{{'loss': 2.6031, 'grad_norm': 1.8, 'epoch': {i / 60:.2f}}}\n{bar}\r"
        )
    return text + (
        "\n{'train_runtime': 299.1983, 'train_samples_per_second': 8.021, 'train_loss': 2.8}\n"
        "\r 50%|#####     | 1/2 [00:01<00:01,  1.20it/s]\n"
    )


def mlperf_blocks() -> str:
    event = samples.mlperf_event
    return event("global_batch_size", 16) + "".join(
        event("block_start", None, i * 1000, samples_count=(i - 10) * 16)
        + event("block_stop", None, i * 1000 + 200 * i, samples_count=i * 16)
        for i in STEPS
    )


def mlperf_llm() -> str:
    return "".join(
        " 0: "
        + samples.mlperf_event(
            "tracked_stats",
            {"throughput": 30.0 + i, "train_step_time": 0.5, "train_loss": 7.5},
            i,
            step=i,
        )
        for i in STEPS
    )


def dllogger_2019() -> str:
    return "".join(
        f"DLLL 2019-10-10 16:42:54.501155 - Epoch: 0 Iteration: {i}  train.loss : 6.9 "
        f"train.total_ips : {2300 + i}.0 images/s\n"
        for i in STEPS
    )


def dllogger_bert() -> str:
    rows = (
        {"type": "LOG", "step": [0, i], "data": {"seqs_per_sec": 200.0 + i, "loss": 9.5}}
        for i in STEPS
    )
    return "".join(f"DLLL {json.dumps(row)}\n" for row in rows)


def primus() -> str:
    """Of AMD's Megatron: figures of the step and their means, on the last rank."""
    return "".join(
        f"\x1b[36m[20260822 10:00:00]\x1b[0m[rank-7/8][INFO ] [-----trainer.py:2560] :  iteration "
        f"{i}/ 60 | consumed samples: {i * 128} | elapsed time per iteration (ms): "
        f"{1200 + i:.1f}/1290.0 | hip mem usage/free/total/usage_ratio: 153.81GB/102.17GB/255.98GB/"
        f"60.09% | throughput per GPU (TFLOP/s/GPU): {500 + i}.0/498.5 | tokens per GPU "
        f"(tokens/s/GPU): {9000 + i}.5/8990.1 | global batch size: 128 | lm loss: 6.5E+00 |\n"
        for i in STEPS
    )


def gpt_neox() -> str:
    return "".join(
        f" samples/sec: {7 + i / 100:.3f} | iteration {i:8d}/   10000 | elapsed time per iteration "
        f"(ms): {4100 + i:.1f} | learning rate: 2.111E-06 | approx flops per GPU: 112.9TFLOPS | "
        "lm_loss: 1.118665E+01 | number of skipped iterations:   0 |\n"
        for i in STEPS
    )


def maxtext_2023() -> str:
    return "".join(
        f"completed step: {i}, seconds: {5 + i / 100:.3f}, TFLOP/s: 36.722, loss: 2.191\n"
        for i in STEPS
    )


def huggingface_without_a_bar() -> str:
    return (
        "".join(
            f"{{'loss': 2.6, 'grad_norm': 1.8, 'epoch': {i / 60:.2f}, 'num_input_tokens_seen': "
            f"{i * 65536}, 'train_runtime': {20 + 4 * i}.5, 'train_tokens_per_second': 9000.1}}\n"
            for i in STEPS
        )
        + "{'train_runtime': 299.1983, 'train_samples_per_second': 8.021, 'train_loss': 2.8}\n"
    )


def dllogger_of_a_whole_training() -> str:
    return "".join(
        f"DLL 2020-05-14 05:33:09.030756 - Training Epoch: 0 Training Iteration: {i}  step_loss : 9"
        " learning_rate : 0.001\n"
        for i in STEPS
    ) + (
        "DLL 2020-05-14 05:35:09.030756 -  e2e_train_time : 120.5 s training_sequences_per_second :"
        " 235.5 sequences/s final_loss : 8.5 None raw_train_time : 110.5 s\n"
    )


CASES: list[tuple[str, str, str, float, str | None, dict[str, float]]] = [
    (
        *("megatron", megatron(), "step_s", 1.235, None),
        {"loss": 10.12345, "tflops_per_device": 435.0, "samples_per_s": 128 / 1.235},
    ),
    ("megatron", megatron_deepspeed(), "step_s", 103.5, None, {"tflops_per_device": 123.45}),
    ("nemo", nemo_1(), "step_s", 12.35, None, {"loss": 6.45}),
    ("dllogger", dllogger_2019(), "throughput", 2335.0, "images", {}),
    ("megatron", bridge(), "step_s", 1.235, None, {"tflops_per_device": 743.0}),
    (
        *("nemo", nemo(), "step_s", 12.35, None),
        {"loss": 11.96, "tflops_per_device": 512.5, "global_batch_size": 128.0},
    ),
    (
        *("torchtitan", torchtitan(), "throughput", 4335.0, "tokens"),
        {"loss": 11.83506, "tflops_per_device": 1253.41, "mfu_percent": 25.62},
    ),
    ("torchtitan", torchtitan("4.{i}K"), "throughput", 4335.0, "tokens", {}),
    (
        *("maxtext", maxtext(), "throughput", 8635.758, "tokens"),
        {"loss": 10.374, "tflops_per_device": 134.924},
    ),
    ("maxtext", maxtext(), "step_s", 5.3, "tokens", {}),
    ("deepspeed", deepspeed(), "throughput", 25.35, "samples", {}),
    ("deepspeed", deepspeed_2022(), "throughput", 25.35, "samples", {}),
    ("deepspeed_pipeline", deepspeed_pipeline(), "step_s", 1.35, "samples", {"loss": 6.1234}),
    (
        *("paddle_trainer", paddle_trainer(), "throughput", 835.5, "tokens"),
        {"loss": 12.0635252, "hardware_tebiflops_per_device": 2.77, "samples_per_s": 0.8682},
    ),
    ("paddle_trainer", paddle_trainer(), "step_s", 1.35, "tokens", {}),
    ("tensorflow_models", tensorflow_models(), "step_s", 2.35, "examples", {}),
    ("tensorflow_models", tensorflow_models(), "throughput", 2535.19, "examples", {}),
    ("huggingface", huggingface(), "step_s", 2.35, None, {"loss": 2.6031}),
    ("mlperf", mlperf_blocks(), "step_s", 0.7, "samples", {}),
    ("mlperf", mlperf_llm(), "throughput", 65.0, "samples", {"loss": 7.5}),
    (
        *("megatron", primus(), "step_s", 1.235, None),
        {"tflops_per_device": 535.0, "tokens_per_s_per_device": 9035.5, "loss": 6.5},
    ),
    (
        *("megatron", gpt_neox(), "step_s", 4.135, None),
        {"tflops_per_device": 112.9, "samples_per_s": 7.35, "loss": 11.18665},
    ),
    ("maxtext", maxtext_2023(), "step_s", 5.35, None, {"tflops_per_device": 36.722}),
    ("dllogger", dllogger_bert(), "throughput", 235.0, "sequences", {"loss": 9.5}),
]


@pytest.mark.parametrize(("format_", "log", "figure", "median", "unit", "others"), CASES)
def test_reads_a_log(format_, log, figure, median, unit, others):
    found = reading.read(format_, log)
    assert found.records[-1].step == 60
    values = [getattr(record, figure) for record in found.records]
    assert statistics.median(v for v in values if v is not None) == pytest.approx(median)
    assert (found.unit, found.left_out) == (unit, {})
    of_one = {"torchtitan", "maxtext", "paddle_trainer"}
    assert found.per_device is (unit is not None and format_ in of_one)
    for name, value in others.items():
        stated = [r.others[name] for r in found.records if name in r.others]
        assert statistics.median(stated) == pytest.approx(value, rel=1e-3), name


@pytest.mark.parametrize(("format_", "log"), [(case[0], case[1]) for case in CASES])
def test_a_log_is_read_to_where_it_is_cut(format_, log):
    for cut in range(len(log) // 2, len(log), 17):
        found = reading.read(format_, log[:cut])
        assert found.records
        assert set(found.left_out) <= {reading.CUT_OFF}


TOLD_APART = {"pytorch_examples", "gluon", *(case[0] for case in CASES)}


MARKS = [
    *((" 0: ", "10: "), ("[pod/a-0/c] ", "[pod/a-1/c] "), ("[trainer0]:", "[trainer1]:")),
    *(("0: [rank0]: ", "1: [rank8]: "), ("(RayTrainWorker pid=12) ", "(RayTrainWorker pid=13) ")),
    *(("worker-0: ", "worker-1: "), ("llama-8b/0 [rank0]:", "llama-8b/0 [rank1]:")),
    *(("[1,mpirank:0,algo-1]<stdout>:", "[1,mpirank:1,algo-2]<stdout>:"), ("a-1  | ", "a-2  | ")),
]


# NeMo's lines have marks of their own.
@pytest.mark.parametrize(
    ("format_", "tags"),
    [
        *((format_, tags) for format_ in sorted(TOLD_APART - {"nemo"}) for tags in MARKS[:2]),
        *((format_, tags) for format_ in ("huggingface", "mlperf") for tags in MARKS[2:]),
    ],
)
def test_processes_are_told_apart_by_how_their_lines_begin(format_, tags):
    log = {c[0]: c[1] for c in CASES}.get(format_) or getattr(samples, format_)()
    lines = log.replace(" 0: :::", ":::").splitlines()
    mixed = "".join(f"{tag}{line}\n" for line in lines for tag in tags)
    with pytest.raises(reading.LogError, match="lines of several processes are mixed"):
        reading.read(format_, mixed)
    whole, other = (reading.read(format_, mixed, dict(CHOOSE, writer=t)) for t in tags)
    chosen = reading.read(format_, mixed, CHOOSE)
    alone = reading.read(format_, "\n".join(lines) + "\n")
    for found in (whole, other, chosen):
        assert [r.step_s for r in found.records] == [r.step_s for r in alone.records]
        assert [r.throughput for r in found.records] == [r.throughput for r in alone.records]
        assert found.skipped[writers.OTHER_PROCESS] >= len(alone.records)
    with pytest.raises(reading.LogError, match="begins with 'x'; expected one of"):
        reading.read(format_, mixed, dict(CHOOSE, writer="x"))


def _figures(found: reading.Reading) -> list[Any]:
    return [(r.step, r.step_s, r.throughput, r.others) for r in found.records]


def _after_times(text: str, time: str) -> str:
    return "".join(f"{time} {line}\n" for line in text.splitlines())


# What a terminal, Kubernetes and those who copy logs make of them.
@pytest.mark.parametrize("format_", sorted({case[0] for case in CASES}))
@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\x1b", "^["),
        lambda text: text.replace("\x1b", ""),
        lambda text: "\0" * 300 + text,
        lambda text: _after_times(text, "2026-11-28T08:00:00.123456789Z"),
        lambda text: _after_times(text, "[2026-11-28T08:00:00+08:00]"),
        lambda text: _after_times(text, "2026-11-28T08:00:00.123456789Z stdout F"),
        lambda text: _after_times(text, "[pod/a/b] 2026-11-28T08:00:00.123456789Z"),
    ],
)
def test_a_log_is_read_as_it_is_kept(format_, changed):
    log = next(case[1] for case in CASES if case[0] == format_)
    if format_ == "nemo" and "\r" in log:
        log = log.replace("\r", "\n")
    expected = _figures(reading.read(format_, log, CHOOSE))
    assert _figures(reading.read(format_, changed(log), CHOOSE)) == expected


def test_a_clock_is_no_mark_of_a_process():
    begins = ["10:59:59 ", "11:00:00 "]
    lines = megatron(begin="").splitlines(keepends=True)
    log = "".join(begins[n > 2] + line for n, line in enumerate(lines))
    assert len(reading.read("megatron", log).records) == 6


@pytest.mark.parametrize("begin", ["step-{}: ", "[iter{}]: ", "epoch/{} ", "batch_{} | "])
def test_a_step_is_no_mark_of_a_process(begin):
    log = "".join(begin.format(i) + "12.5 ms\n" for i in STEPS)
    options = {"pattern": r"(?P<step_time>[\d.]+) ms", "time_unit": "ms"}
    assert len(reading.read("regex", log, options).records) == 6


def test_the_pattern_of_a_user_may_name_the_time_before_each_line():
    log = "".join(f"2026-11-28T08:00:{i}.5Z 0.5\n" for i in STEPS)
    pattern = r"T08:00:(?P<step>\d+)\.5Z (?P<step_time>[\d.]+)"
    found = reading.read("regex", log, {"pattern": pattern, "time_unit": "s"})
    assert [record.step for record in found.records] == list(STEPS)


@pytest.mark.parametrize("format_", ["megatron", "maxtext", "torchtitan", "tensorflow_models"])
def test_no_part_of_a_figure_is_read_where_a_line_ends_within(format_):
    log = next(case[1] for case in CASES if case[0] == format_)
    stated = {(r.step, r.step_s, r.throughput) for r in reading.read(format_, log).records}
    last = log.rindex("\n", 0, -1) + 1
    if format_ == "tensorflow_models":
        log, last = log[:last], log.rindex("\n", 0, last - 1) + 1
    for cut in range(last, len(log), 2):
        found = reading.read(format_, log[:cut] + "\nslurmstepd: error: CANCELLED\n").records
        for record in found:
            whole = (record.step, record.step_s, record.throughput)
            assert any(
                all(part in (None, other) for part, other in zip(whole, each, strict=True))
                for each in stated
            ), log[last:cut]


def test_bars_whose_carriage_returns_were_lost_are_told_apart():
    bar = " {0}%|##  | {0}/60 [00:30<00:27,  2.00s/it]{{'loss': 2.5, 'epoch': 0.1}}"
    found = reading.read("huggingface", "".join(map(bar.format, STEPS)) + "\n")
    assert [record.step for record in found.records] == list(STEPS)
    assert [record.others for record in found.records] == [{"loss": 2.5}] * 6


def test_figures_of_an_evaluation_are_of_no_step():
    bars = [f" {i}%|##  | {i}/60 [00:30<00:27,  2.00s/it]\n" for i in STEPS]
    evaluation = (
        " 50%|##  | 20/40 [00:01<00:01,  7.00it/s]\x1b[A\n{'eval_loss': 2.1, 'epoch': 0.1}\n"
    )
    found = reading.read("huggingface", evaluation.join(bars))
    assert [record.others for record in found.records] == [{}] * 6
    assert found.skipped == {"not of training": 5}


def test_figures_of_a_step_may_be_events_of_their_own():
    event = samples.mlperf_event
    stats = ({"train_loss": 3.5}, {"throughput": 120.0}, {"train_step_time": 0.26}, {"lr": 0.1})
    log = "".join(event("tracked_stats", each, i, step=i) for i in STEPS for each in stats)
    found = reading.read("mlperf", log)
    assert _figures(found) == [(step, 0.26, 120.0, {"loss": 3.5}) for step in STEPS]
    with pytest.raises(reading.LogError, match="states step 10 after step 10"):
        reading.read("mlperf", "".join(line * 2 for line in log.splitlines(keepends=True)))


def test_one_for_each_epoch_is_no_speed_in_samples():
    """Minigo states epochs a second, of no batch."""
    log = "".join(
        samples.mlperf_event("tracked_stats", {"throughput": 0.02 - n / 10_000}, n * 50_000, step=n)
        for n in range(18, 40)
    )
    with pytest.raises(reading.LogError, match="give --unit"):
        reading.read("mlperf", log)
    assert reading.read("mlperf", log, {"unit": "epochs"}).unit == "epochs"


@pytest.mark.parametrize(("in_block_s", "stated"), [(1.0, 64.0), (9.0, 64.0), (1.0, 16.0)])
def test_epochs_that_contradict_their_block_or_their_speed_are_refused(in_block_s, stated):
    """A trainer that writes before its devices are done, and one that states batches as samples."""
    event = samples.mlperf_event
    log = event("global_batch_size", 16) + event("train_samples", 64)
    for epoch in range(5):
        at_ms = epoch * 10_000
        log += event("block_start", None, at_ms)
        log += event("epoch_start", None, at_ms) + event("epoch_stop", None, at_ms + 1_000)
        log += event("throughput", stated)
        log += event("block_stop", None, at_ms + round(in_block_s * 1_000))
    if (in_block_s, stated) == (1.0, 64.0):
        assert [record.throughput for record in reading.read("mlperf", log).records] == [64] * 5
        return
    with pytest.raises(reading.LogError, match="contradicts itself: 5"):
        reading.read("mlperf", log)


def test_blocks_that_count_epochs():
    event = samples.mlperf_event
    log = event("global_batch_size", 16) + event("train_samples", 1600)
    for first in (1, 5, 9):
        for key, at_ms in (("block_start", 0), ("block_stop", 40_000)):
            log += event(key, None, at_ms, first_epoch_num=first, epoch_count=4)
    found = reading.read("mlperf", log)
    assert [(r.step, r.step_s, r.throughput) for r in found.records] == [
        (step, 0.1, 160.0) for step in (400, 800, 1200)
    ]
    # GPT-3's count samples, and say so nowhere.
    with pytest.raises(reading.LogError, match="3 of 3 lines"):
        reading.read("mlperf", log.replace('"epoch_count": 4', '"epoch_count": 1600'))


def test_without_a_bar_tokens_are_counted_from_line_to_line():
    found = reading.read("huggingface", huggingface_without_a_bar())
    assert [r.throughput for r in found.records] == [None] + [655360 / 40] * 5
    assert (found.unit, found.numbered) == ("tokens", False)
    assert [r.others for r in found.records] == [{"loss": 2.6}] * 6
    # Training was resumed: its time begins again.
    assert len(reading.read("huggingface", huggingface_without_a_bar() * 2).records) == 12


def test_steps_of_an_interval_are_those_it_states_where_lines_are_missing():
    lines = paddle_trainer().splitlines(keepends=True)
    found = reading.read("paddle_trainer", "".join([*lines[:2], *lines[4:]]))
    assert [r.step_s for r in found.records] == pytest.approx([1.1, 1.2, 1.5, 1.6])


def test_the_speed_of_a_whole_training_is_read_where_steps_have_none():
    found = reading.read("dllogger", dllogger_of_a_whole_training())
    assert [(r.throughput, found.unit) for r in found.records] == [(235.5, "sequences")]
    row = {"type": "LOG", "step": [], "data": {"training_sequences_per_second": 235.5}}
    found = reading.read("dllogger", f"DLLL {json.dumps(row)}\n")
    assert [record.throughput for record in found.records] == [235.5]


def test_what_another_process_wrote_behind_an_event_is_left_out():
    event = samples.mlperf_event("tracked_stats", {"throughput": 5e6}, step=1048576).rstrip("\n")
    found = reading.read("mlperf", f"{event}Epoch 0: 1%|\n", {"unit": "tokens"})
    assert (found.unit, found.records[0].throughput) == ("tokens", 5e6)


def test_what_a_bar_draws_again_is_of_the_process_that_its_line_begins_with():
    bars = [[f" {i}%|##  | {i}/60 [00:30<00:27,  {s}.00s/it]" for i in STEPS] for s in (1, 2)]
    mixed = "\n".join(f"{rank}: " + "\r".join(drawn) for rank, drawn in enumerate(bars)) + "\n"
    found = reading.read("huggingface", mixed, dict(CHOOSE, writer="1"))
    assert [record.step_s for record in found.records] == [2.0] * 6
    # A bar of anything else begins with its name.
    loading = "Loading shards: 50%|##  | 1/2 [00:05<00:05,  5.00s/it]\n"
    assert len(reading.read("huggingface", loading + bars[0][0] + "\n").records) == 1


def test_of_processes_without_a_mark_each_step_is_read_once():
    mixed = "".join(line + line for line in megatron().splitlines(keepends=True))
    with pytest.raises(reading.LogError, match="several processes or several runs"):
        reading.read("megatron", mixed)
    found = reading.read("megatron", mixed, CHOOSE)
    assert [r.step for r in found.records] == list(STEPS)
    assert found.skipped == {writers.OTHER_PROCESS: 6}


def test_of_a_training_that_was_started_again_the_last_run_is_read():
    again = megatron().splitlines(keepends=True)[3:]
    found = reading.read("megatron", megatron() + "restarting\n" + "".join(again), CHOOSE)
    assert [r.step for r in found.records] == [40, 50, 60]
    assert found.skipped == {steps.EARLIER_RUN: 6}
    assert [r.step for r in found.warmed(10)] == [50, 60]


@pytest.mark.parametrize("loss", ["NAN", "nan", "INF", "inf"])
def test_a_loss_that_is_not_finite_is_counted_and_its_time_is_read(loss):
    found = reading.read("megatron", megatron(loss))
    assert len(found.records) == 6
    assert found.skipped == {reading.LOSS_NOT_FINITE: 6}
    assert not any("loss" in record.others for record in found.records)


def test_lines_of_a_validation_are_skipped_and_counted():
    line = "validate step: 20  loss: 11.0  memory: 1.00GiB(1.44%)  tps: 9,999\n"
    found = reading.read("torchtitan", torchtitan() + line * 4)
    assert (len(found.records), found.skipped) == (6, {"not of training": 4})


@pytest.mark.parametrize(
    ("format_", "log", "cut_before"),
    [
        ("torchtitan", torchtitan(), "memory:"),
        ("megatron", megatron(), "elapsed time"),
        ("paddle_trainer", paddle_trainer(), "interval_runtime"),
        ("deepspeed", deepspeed_2022(), "Running"),
    ],
)
def test_no_figure_is_read_for_the_step_of_a_line_that_was_cut(format_, log, cut_before):
    first, *others = log.splitlines(keepends=True)
    found = reading.read(format_, first.partition(cut_before)[0] + "".join(others))
    assert [record.step for record in found.records] == [30, 40, 50, 60]
    assert found.left_out == {records.DAMAGED: 1}


def test_no_mfu_is_none():
    found = reading.read("torchtitan", torchtitan().replace("25.62%", "N/A"))
    assert "mfu_percent" not in found.records[0].others


def test_a_rank_without_the_last_stage_of_a_pipeline_has_no_loss():
    found = reading.read("torchtitan", torchtitan().replace("loss: 11.83506", "loss: -1.00000"))
    assert not any("loss" in record.others for record in found.records)


def test_figures_that_are_none_are_left_out():
    found = reading.read("torchtitan", torchtitan().replace("4,330", "4,33,0"))
    assert found.left_out == {records.DAMAGED: 1}


def test_an_error_names_the_file_and_the_line(tmp_path):
    file = tmp_path / "train.log"
    file.write_text("begin\n" + megatron().replace("elapsed time per iteration (ms): ", "") * 2)
    with pytest.raises(reading.LogError, match=r"train\.log: no line of the log states a step"):
        summary("megatron", str(file), {}, 0)
    file.write_text("begin\n" + megatron().replace("iteration   ", "it"))
    with pytest.raises(reading.LogError, match=r"train\.log: 6 of 6 .*, the first on line 2;"):
        summary("megatron", str(file), {}, 0)


def test_parse_shows_all_that_is_printed(tmp_path):
    file = tmp_path / "train.log"
    file.write_text(torchtitan() * 2)
    found: dict[str, Any] = summary("torchtitan", str(file), {}, 20)
    assert (found["unit"], found["per_device"]) == ("tokens", True)
    assert found["others"]["mfu_percent"]["median"] == 25.62
    assert found["skipped"] == {steps.EARLIER_RUN: 6}


HEADS = (
    *("Epoch: [0][10/100] Time ", "12/100 [==>...] - ", "1/2 - ", "loss: 1, ips: ", "iteration "),
    *("step: 3, throughput: ", "DLL 1 2 - Iteration: 5  throughput : ", "INFO examples/sec: "),
    *("Epoch[0] Batch [3] Speed: ", "global step 3: loss = ", "TimeHistory: ", "interval_runtime:"),
    *(
        "completed step: ",
        "step: 1 loss: 3 tps: ",
        "RunningAvgSamplesPerSec=",
        "  5%|#| 5/10 [1<2, ",
    ),
    *("Training epoch 0, iteration ", "elapsed time per iteration (ms): ", ":::MLLOG ", "steps: "),
)
TAILS = ("9" * 20000 + "x", "9" * 9000 + "." + "9" * 9000 + "x", "1,111" * 4000 + "x", "9/" * 9000)


def test_lines_of_thousands_of_marks_are_not_slow():
    begun = time.process_time()
    for line in ("[rank0]: " * 2000, "0:" + " " * 20000, "0: " * 7000, "a_-" * 7000, "]" * 20000):
        with contextlib.suppress(reading.LogError):
            reading.read("huggingface", line + "x\n")
    assert time.process_time() - begun < 10, "a quadratic pattern takes minutes"


@pytest.mark.parametrize("format_", [name for name in reading.names() if name != "regex"])
def test_lines_of_thousands_of_digits_are_not_slow(format_):
    begun = time.process_time()
    for head in HEADS:
        for tail in TAILS:
            with contextlib.suppress(reading.LogError):
                reading.read(format_, f"{head}{tail}\n")
    assert time.process_time() - begun < 10, "a quadratic pattern takes minutes"
