"""Logs that were misread: each is the example of a kind, and `test_simulated.py` has the kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from logs import reading
from logs.summary import summary

CASES = Path(__file__).parent / "cases"
GNMT = (
    r"TRAIN \[(?P<epoch>\d+)\]\[(?P<step>\d+)/(?P<steps>\d+)\]\s+Time (?P<step_time>\S+) .*"
    r"Tok/s (?P<throughput>\S+)"
)
TOKENS = r"device/tokens_per_second=(?P<throughput>[\d,]+)"
TITAN = {"throughput": 5030.5, "lines": 40, "warmup_lines": 20, "steps": "steps 1 to 40"}
SKIPPED_PREFIX = {"step_s": 1.5, "lines": 60, "warmup_lines": 20, "steps": "steps 1 to 60"}


@pytest.mark.parametrize(
    ("name", "format_", "warmup", "options", "right"),
    [
        (
            *("mlperf-block-starts-in-steps", "mlperf", 0, {}),
            {"throughput": 2, "step_s": 2, "lines": 4, "steps": "steps 125 to 200"},
        ),
        (
            *("mlperf-gpt3-in-tokens", "mlperf", 0, {"unit": "tokens"}),
            {"throughput": 500, "step_s": 2, "lines": 3, "steps": "steps 10 to 30"},
        ),
        (
            *("mlperf-block-means-between-steps", "mlperf", 20, {}),
            {"step_s": 0.5, "lines": 12, "warmup_lines": 2, "steps": "steps 10 to 120"},
        ),
        (
            *("mlperf-block-means-alone", "mlperf", 0, {}),
            {"step_s": 0.5, "lines": 6, "steps": "steps 40 to 240"},
        ),
        ("mlperf-blocks-of-several-lengths", "mlperf", 0, {}, {"step_s": 0.2, "lines": 3}),
        (
            *("mlperf-lines-numbered-by-epochs", "mlperf", 20, {}),
            {"throughput": 2602.5, "lines": 5, "warmup_lines": 1},
        ),
        (
            *("mlperf-maxtext-blocks", "mlperf", 0, {}),
            {"throughput": 500, "step_s": 2, "lines": 3, "unit": "tokens"},
        ),
        (
            *("huggingface-short-bar-first", "huggingface", 0, {}),
            {"step_s": 1.5, "lines": 60, "steps": "steps 1 to 60"},
        ),
        ("accelerate-bar-with-description", "huggingface", 20, {}, SKIPPED_PREFIX),
        ("bar-behind-airflows-prefix", "huggingface", 20, {}, SKIPPED_PREFIX),
        ("gluoncv-detection", "gluon", 20, {}, {"throughput": 31.99, "lines": 6}),
        ("torchtitan-last-step-twice", "torchtitan", 20, {}, TITAN),
        (
            *("nemo1-rounded-step", "nemo", 0, {}),
            {"step_s": 3, "lines": 25, "steps": "steps 905 to 1025"},
        ),
        ("megatron-means-of-50-steps", "megatron", 20, {}, {"step_s": 1, "warmup_lines": 1}),
        ("maxtext-from-step-0", "maxtext", 2, {}, {"step_s": 1.035, "warmup_lines": 2}),
        (
            *("keras-bars-of-samples", "keras", 0, {}),
            {"throughput": 1250, "step_s": None, "numbered": False},
        ),
        (
            *("dllogger-summary-of-the-terminal", "dllogger", 0, {"metric": "med_img/sec"}),
            {"throughput": 677.5, "unit": "images"},
        ),
        ("huggingface-end-alone", "huggingface", 20, {}, {"throughput": 12.5}),
        (
            *("thousands-with-commas", "regex", 20),
            {"pattern": TOKENS, "unit": "tokens/s/device"},
            {"throughput": 67029.5, "per_device": True},
        ),
        (
            *("paddlenlp-of-2022", "paddle_trainer", 20, {}),
            {"step_s": 0.2, "throughput": 40, "samples_per_s": 40},
        ),
        (
            *("four-processes", "regex", 20),
            {"pattern": GNMT, "time_unit": "s", "unit": "tokens"},
            {
                "throughput": 1000,
                "notes": [
                    "the values are those of '0', one of 4 processes; each may state only its share"
                ],
            },
        ),
    ],
)
def test_a_log_that_was_misread_is_read(name, format_, warmup, options, right):
    found: dict[str, Any] = summary(format_, str(CASES / f"{name}.log"), options, warmup)
    for key, value in right.items():
        figure = found.get(key, found["others"].get(key))
        median = figure["median"] if isinstance(figure, dict) else figure
        assert median == (pytest.approx(value) if isinstance(value, float) else value), key


IMAGES = r"^(?P<step>\d+)\s+images/sec: (?P<throughput>\S+)"


@pytest.mark.parametrize(
    ("name", "format_", "options", "said"),
    [
        (
            *("mlperf-throughput-of-one-device", "mlperf", {}),
            "20 per second is 1000 in 50 s; the log counts 250",
        ),
        ("without-a-unit", "regex", {"pattern": IMAGES}, "a throughput; give --unit images"),
        (
            *("short-last-run", "paddle", {}),
            r"2 lines state steps 10 to 20, .* give --warmup 0 .* 50 lines of 1 earlier run "
            r"\(steps 10 to 500\)",
        ),
    ],
)
def test_a_log_that_cannot_be_read_says_what_to_do(name, format_, options, said):
    with pytest.raises(reading.LogError, match=said):
        summary(format_, str(CASES / f"{name}.log"), options, 20)
