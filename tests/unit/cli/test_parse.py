"""The command `parse` shows what a log states, and leaves the reading to the shipped tree."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from nightbench.cli.main import app

LOG = "".join(
    f"Epoch: [0][{step:4d}/100]\tTime  0.{100 + step} ( 0.140)\tLoss 7.0 (7.0)\n"
    for step in (1, 11, 21, 31, 41)
)


def test_parse_shows_the_median_behind_the_warm_up(tmp_path):
    file = tmp_path / "train.log"
    file.write_text(LOG + "Epoch: [0][  51/1")
    done = CliRunner().invoke(app, ["parse", "pytorch_examples", str(file), "--json"])
    found = json.loads(done.stdout)
    assert found["step_s"] == {"median": 0.131, "minimum": 0.121, "maximum": 0.141, "n": 3}
    assert found["warmup_lines"] == 2
    assert found["left_out"] == {"last line cut off": 1}


def test_parse_reads_what_is_piped_to_it():
    done = CliRunner().invoke(app, ["parse", "pytorch_examples", "-", "--json"], input=LOG)
    assert json.loads(done.stdout)["step_s"]["n"] == 3
    wrong = CliRunner().invoke(app, ["parse", "gluon", "-"], input=LOG)
    assert "/dev/stdin: no line of the log states a step" in str(wrong.exception)


def test_parse_names_a_warning_and_an_error(tmp_path):
    file = tmp_path / "train.log"
    file.write_text(LOG + "Epoch: [0][  51/1")
    done = CliRunner().invoke(app, ["parse", "pytorch_examples", str(file)])
    assert "step time: median 0.131 s (0.121 to 0.141, 3 lines)" in done.stdout
    assert "1 line skipped: last line cut off" in done.stderr
    wrong = CliRunner().invoke(app, ["parse", "gluon", str(file)])
    assert wrong.exit_code == 1
    assert "no line of the log states a step" in str(wrong.exception)


TITAN = "".join(
    f"step: {step}  loss: 11.83506  memory: 48.87GiB(51.44%)  tps: 5,762  tflops: 326.1  "
    "mfu: 33.0%\n"
    for step in range(10, 61, 10)
)
MEGATRON = "".join(
    f" iteration {step}/ 60 | consumed samples: {step * 128} | elapsed time per iteration (ms): "
    "1000.0 | throughput per GPU (TFLOP/s/GPU): 445.0 | global batch size: 128 | lm loss: "
    "1.01E+01 |\n"
    for step in range(10, 61, 10)
)
H100 = ("--device", "NVIDIA H100 80GB HBM3")


def parsed(tmp_path, format_, log, *words):
    file = tmp_path / "train.log"
    file.write_text(log)
    return CliRunner().invoke(app, ["parse", format_, str(file), *words])


def test_mfu_is_computed_again_beside_the_trainers_own(tmp_path):
    """torchtitan's report of December 2024 counts masked scores, too."""
    done = parsed(tmp_path, "torchtitan", TITAN, "--model", "llama/8b", *H100)
    assert "mfu_percent: median 33 as printed" in done.stdout
    # 6 for each weight of a matrix, 6 L H T for attention, by 989.4 TFLOP/s.
    matrices = 8030261248 - 128256 * 4096 - 65 * 4096
    flops = 5762 * (6 * matrices + 6 * 32 * 4096 * 8192)
    assert f"{flops / 1e12:.6g} TFLOP/s per device, MFU {flops / 989.4e12:.1%}" in done.stdout
    assert round(flops / 989.4e12, 3) == 0.3


def test_samples_of_all_devices_are_brought_to_one(tmp_path):
    words = ("--model", "llama/8b", "--sequence-length", "4096", "--json")
    refused = parsed(tmp_path, "megatron", MEGATRON, *words)
    assert refused.exit_code == 1
    assert "expected --devices" in str(refused.exception)
    done = parsed(tmp_path, "megatron", MEGATRON, *words, "--devices", "64")
    ours = json.loads(done.stdout)["by_our_formula"]
    assert ours["tokens_per_s_per_device"] == 128 * 4096 / 64
    assert ours["mfu"] is None
    assert ours["mfu_absent"] == "no device is named (--device)"


def test_more_than_the_peak_is_no_mfu_and_says_so(tmp_path):
    words = ("--model", "llama/8b", "--devices", "8", *H100)
    done = parsed(tmp_path, "megatron", MEGATRON, *words)
    assert "no MFU: 6." in done.stdout
    assert "a peak of 989.4 TFLOP/s is impossible; expected the log's own --model" in done.stdout
    assert "MFU 6" not in done.stdout


def test_a_model_is_asked_for_where_only_devices_are_named(tmp_path):
    wrong = parsed(tmp_path, "megatron", MEGATRON, "--devices", "64")
    assert "require --model" in str(wrong.exception)
    wrong = parsed(tmp_path, "megatron", MEGATRON, "--model", "lama/8b")
    assert '(did you mean "llama"?)' in str(wrong.exception)
    wrong = parsed(tmp_path, "megatron", MEGATRON, "--model", "llama/8b", "--precision", "bf61")
    assert 'found "bf61"; expected one of bf16, fp16, fp32, tf32' in str(wrong.exception)
