"""The suites of the shared Airflow: its tests add here what they trigger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PEAK_TFLOPS = {"cluster": 989.4, "script": 312.0}
"""Of a device, as the cluster's file states it, and as `foreign` counts."""
PARAMETERS = 1_235_814_400
"""Of `llama` at scale `full`, which the script of `foreign` pretends to train."""
SCRIPT = Path(__file__).parent / "scripts" / "train.py"
FOREIGN = {
    "suite": "foreign",
    "owner": "tests",
    "cluster": "local",
    "protocol": {"warmup_steps": 10, "measured_steps": 40, "repeats": 2},
    "commands": {
        "titan": {
            "argv": [
                *("{python}", str(SCRIPT), "--batch-size", "{batch_size}", "--rank", "{rank}"),
                *("--tokens", str(8 * 128), "--parameters", str(PARAMETERS)),
                *("--peak-tflops", str(PEAK_TFLOPS["script"])),
            ],
            "folder": str(SCRIPT.parent),
            "unit": "tokens",
            "units_per_example": 128,
            "model": {"workload": "llama", "params": {"sequence_length": 128}},
            "log": {"format": "torchtitan"},
        }
    },
    "matrix": [
        {
            "command": "titan",
            "strategy": "collective",
            "devices": "2x1",
            "batch_size_per_device": 8,
        }
    ],
}
"""A script not of ours that prints TFLOP/s and MFU by a formula and a peak of its own."""


SUITES: dict[str, dict[str, Any]] = {
    "good": {},
    "torn": {"devices": "2x1", "env": '{FAKE_WEIGHTS_DIFFER: "1", FAKE_RANK: "1"}'},
    "dying": {"devices": "1x1", "env": '{FAKE_DIE_AT_STEP: "3"}'},
    # Everything that makes a process hard to end.
    "stubborn": {
        "devices": "2x1",
        "env": '{FAKE_HANG_AT_STEP: "3", FAKE_IGNORE_TERM: "1", FAKE_DAEMON: "1"}',
    },
    "torch": {
        "workload": "resnet50_v1.5",
        "framework": "pytorch",
        "devices": "1x1",
        "steps": 5,
        "repeats": 1,
    },
    "long": {"devices": "2x1", "steps": 24, "repeats": 3, "env": '{FAKE_STEP_S: "0.3"}'},
    # What is not known takes at least its time limit, 200 s: there is room for one. The number
    # of threads makes its series its own, which no other suite makes known.
    "short": {"devices": "[1x1, 2x1]\n    threads: 6", "env": "{}\nnight: {budget: 5m}"},
    # Preparing alone takes longer.
    "none": {"env": "{}\nnight: {budget: 20s}"},
    "many": {
        "devices": "1x1\n    threads: [1, 2, 3, 4]",
        "repeats": 1,
        # Twelve seconds each: on a busy machine the scheduler takes some to start the next one.
        "env": '{FAKE_STEP_S: "0.6"}',
    },
    "foreign": {"text": json.dumps(FOREIGN)},
}
"""Name -> what `live_airflow.write_suite` changes."""
