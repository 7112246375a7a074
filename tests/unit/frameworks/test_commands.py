"""A suite's command on a node: its words, and the window that its log states."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest
from frameworks.external import launch, script
from logs import reading

from nightbench.config.commands import PLACEHOLDERS

GOLDEN = Path(__file__).resolve().parents[2] / "contract" / "golden" / "job.json"
PROTOCOL = {"warmup_steps": 20, "measured_steps": 30, "min_seconds": 0.0}


def job(*argv: str, **command: object) -> dict:
    document = json.loads(GOLDEN.read_text())
    words = {"argv": list(argv), "env": {}, "prefix": None, "launch": "device", **command}
    document["workload"]["params"] = {"command": words}
    return document


def ports_of(document: dict) -> dict[str, int]:
    names = ["master", *(process["name"] for process in document["processes"])]
    return {name: 20000 + number for number, name in enumerate(names)}


def started(document: dict, node: int = 0) -> list[dict]:
    name = document["nodes"][node]["name"]
    return launch.processes(document, name, ports_of(document), "/env/bin/python", "/code")


def test_the_placeholders_are_those_that_a_suite_may_name():
    document = job("x")
    known = launch.placeholders(document, document["processes"][0], ports_of(document), "python")
    assert sorted(known) == sorted(PLACEHOLDERS)


def test_words_stay_words_whatever_they_hold():
    document = job("{python}", "a b; rm -rf $HOME", "--x={batch_size}", '{"json": 1}')
    (one, *_) = started(document)
    batch = document["case"]["batch_size_per_device"]
    program = [sys.executable, "-u", "/code/frameworks/external/script.py"]
    words = ["/env/bin/python", "a b; rm -rf $HOME", f"--x={batch}", '{"json": 1}']
    assert one["argv"] == program + words


def test_a_prefix_has_the_interpreter():
    (one, *_) = started(job("{python}", prefix="/opt/torch"))
    assert one["argv"][3] == "/opt/torch/bin/python"


def test_paths_begin_at_the_home_folder_of_the_node(monkeypatch):
    monkeypatch.setenv("HOME", "/home/bench")
    document = job("{python}", "--data={data}", prefix="~/torch")
    document["workload"]["data_path"] = "~/imagenet"
    (one, *_) = started(document)
    assert one["argv"][3:] == ["/home/bench/torch/bin/python", "--data=/home/bench/imagenet"]
    document["workload"]["data_path"] = None
    assert started(document)[0]["argv"][4] == "--data="


def test_variables_have_placeholders_too():
    (one, *_) = started(job("x", env={"PADDLE_TRAINER_ID": "{rank}"}))
    assert one["env"]["PADDLE_TRAINER_ID"] == one["env"]["RANK"] == "0"


@pytest.mark.parametrize("device", [None, "0"])
def test_framework_json_names_every_variable_that_the_launcher_owns(device):
    document = job("x")
    for process in document["processes"]:
        process["device"] = device
    for node in document["nodes"]:
        node["devices"] = [device] if device else []
    described = json.loads((Path(launch.__file__).parent / "framework.json").read_text())
    (one, *_) = started(document)
    assert ("CUDA_VISIBLE_DEVICES" in one["env"]) is (device is not None)
    assert set(one["env"]) <= set(described["launcher_env"])


def log_of(steps, seconds=0.1, epoch=0, total="/1000"):
    return "".join(f"Epoch: [{epoch}][{step}{total}]\tTime {seconds:.4f} (0.1)\n" for step in steps)


def window(text, times_s, samples=8, format_="pytorch_examples", **protocol):
    found = reading.read(format_, text)
    return script.find_window(found, times_s, {**PROTOCOL, **protocol}, samples)


def test_a_window_opens_behind_the_warm_up_and_is_timed_by_our_clock():
    times_s = [float(n) for n in range(8)]
    found = window(log_of(range(1, 80, 10)), times_s)
    assert found.warmup_steps == 21
    assert (found.open_s, found.close_s) == (2.0, 5.0)
    assert found.step_seconds == [0.1] * 30
    assert found.step_end_s == pytest.approx([2 + n / 10 for n in range(1, 31)])


def test_a_window_keeps_what_its_lines_print_as_they_print_it():
    line = "step: {}  loss: 7.5  tps: 80  tflops: {}  mfu: {}\n"
    said = [(1, 900, "90%"), (20, 800, "80%"), (30, 50, "N/A"), (40, 52, "5%"), (50, 57, "7%")]
    text = "".join(line.format(*each) for each in said)
    found = window(text, [float(n) for n in range(5)], format_="torchtitan")
    # Neither the warm-up, whose last line opens the window, nor the loss, which is no speed.
    assert found.reported == {"tflops_per_device": 52, "mfu_percent": 6}


def test_what_a_reader_computes_is_not_what_a_log_prints():
    line = (
        " iteration {}/60 | elapsed time per iteration (ms): 500.0 | global batch size: 8 | "
        "throughput per GPU (TFLOP/s/GPU): 40.5 | lm loss: 7.5 |\n"
    )
    text = "".join(map(line.format, (1, 20, 30, 40, 50)))
    found = window(text, [float(n) for n in range(5)], format_="megatron")
    assert found.reported == {"tflops_per_device": 40.5, "global_batch_size": 8}


def test_a_window_that_is_not_complete_is_none():
    assert window(log_of(range(1, 51, 10)), [float(n) for n in range(5)]) is None
    eight = [float(n) for n in range(8)]
    assert window(log_of(range(1, 80, 10)), eight, min_seconds=6.0) is None


def test_a_window_lies_within_one_epoch_where_their_length_is_unknown():
    line = "Epoch[{}] Batch [{}]\tSpeed: 80.0 samples/sec\n"
    text = "".join(line.format(e, b) for e in (0, 1) for b in range(9, 49, 10))
    found = window(text, [float(n) for n in range(8)], format_="gluon")
    assert (found.open_s, found.close_s) == (4.0, 7.0)


def test_a_batch_that_speed_and_time_contradict_is_refused():
    text = "".join(
        f"global step {s}, epoch: 0, batch: {s}, avg_batch_cost: 0.1 sec, ips: 320.0 images/s\n"
        for s in range(0, 80, 10)
    )
    times_s = [float(n) for n in range(8)]
    assert window(text, times_s, samples=32, format_="paddle").step_seconds == [0.1] * 30
    with pytest.raises(reading.LogError, match="32 per step; expected 64"):
        window(text, times_s, samples=64, format_="paddle")


def test_steps_without_numbers_are_refused():
    text = "INFO:tensorflow:examples/sec: 80.0\n" * 8
    with pytest.raises(reading.LogError, match="the log numbers no steps"):
        window(text, [float(n) for n in range(8)], format_="tensorflow")


def test_a_file_counts_from_the_start_of_the_script(tmp_path):
    path = tmp_path / "train.log"
    path.write_text("of the run before\n")
    log = script.Log()
    file = script.LogFile(str(path), log)
    with path.open("a") as stream:
        stream.write("of this run\nhalf a li")
    file.read()
    assert log.text(whole=False) == "of this run\n"
    assert log.text(whole=True) == "of this run\nhalf a li"
    path.write_text("anew\n")
    file.read()
    assert log.lines[-1] == "half a lianew"


@pytest.mark.parametrize(
    ("format_", "line", "samples"),
    [
        ("torchtitan", "step: {}  loss: 7.5  tps: 4,096  tflops: 1.0  mfu: N/A\n", 4 * 1024),
        ("deepspeed", "global_step={}, RunningAvgSamplesPerSec=9, CurrSamplesPerSec=32.0\n", 32768),
    ],
)
def test_a_speed_of_one_device_is_held_against_the_work_of_one(format_, line, samples):
    found = reading.read(format_, "".join(line.format(n) for n in (1, 2, 3)))
    context = types.SimpleNamespace(
        case={"trainers": 8},
        world_size=1,
        batch_size=4,
        params={"units_per_example": 1024, "command": {"log": {"covers": "all"}}},
    )
    assert script.stated_samples(context, found.per_device) == samples
